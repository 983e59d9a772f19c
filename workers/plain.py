"""Text from logs and file names, made harmless for a terminal."""

from __future__ import annotations

import unicodedata


def plain(text: str) -> str:
    """Text without the characters that move a cursor, ring a bell or turn the reading direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else "�" for c in text)
