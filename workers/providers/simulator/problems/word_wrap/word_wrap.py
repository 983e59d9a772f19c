"""Text broken into lines of a given width."""

from __future__ import annotations

from collections.abc import Iterator


def wrap(text: str, width: int) -> list[str]:
    """The words of the text, as many to a line as fit, one blank between them."""
    if width < 1:
        raise ValueError(f"width is {width}; at least 1 is needed")
    lines: list[str] = []
    line = ""
    for piece in _pieces(text, width):
        if not line:
            line = piece
        elif len(line) + 1 + len(piece) <= width:
            line = f"{line} {piece}"
        else:
            lines.append(line)
            line = piece
    if line:
        lines.append(line)
    return lines


def _pieces(text: str, width: int) -> Iterator[str]:
    """The words, those longer than a line cut to its width."""
    for word in text.split():
        for start in range(0, len(word), width):
            yield word[start : start + width]
