"""Texts of logs as JSON and pages can carry them."""

from __future__ import annotations


def sound(text: str) -> str:
    """The text with U+FFFD in place of halves of surrogate pairs, which logs hold and UTF-8 cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
