"""Scores files for the tests beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workers.cli.score_cohort import Request, score_cohort
from workers.cli.score_progress import Silent
from workers.scoring.cohort import Cohort


def scored(folder: Path, spool: Path, **more: Any) -> Cohort:
    """The runs below a folder, scored."""
    spool.mkdir(parents=True, exist_ok=True)
    paths = more.pop("paths", (folder,))
    return score_cohort(Request(paths=tuple(paths), **more), spool, Silent())
