"""Text that clients give as names: what no terminal obeys and PostgreSQL can hold."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError("holds control characters; use printable ones")
    return value


PlainText = Annotated[str, AfterValidator(_printable)]
