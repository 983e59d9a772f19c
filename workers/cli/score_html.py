"""x"""

from __future__ import annotations

from typing import BinaryIO

from workers.cli.score_cohort import Cohort


def write_html(cohort: Cohort, out: BinaryIO) -> None:
    """x"""
