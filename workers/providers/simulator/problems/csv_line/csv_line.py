"""One line of comma-separated values, split into its fields."""

from __future__ import annotations

QUOTE = '"'


def split_line(line: str, separator: str = ",") -> list[str]:
    """The fields of one line that has no line break at its end."""
    if len(separator) != 1 or separator == QUOTE:
        raise ValueError(f"separator {separator!r} must be one character and not a double quote")
    fields: list[str] = []
    position = 0
    while True:
        field, position = _field(line, position, separator)
        fields.append(field)
        if position == len(line):
            return fields
        position += 1


def _field(line: str, start: int, separator: str) -> tuple[str, int]:
    """The field that begins at `start`, and the place just after it."""
    if not line.startswith(QUOTE, start):
        end = line.find(separator, start)
        end = len(line) if end < 0 else end
        return line[start:end], end
    text, end = _quoted(line, start)
    if end < len(line) and line[end] != separator:
        raise ValueError(f"column {end + 1}: after a closing quote comes {separator!r} or the end")
    return text, end


def _quoted(line: str, start: int) -> tuple[str, int]:
    """The text of the quoted field that begins at `start`, and the place just after its closing quote."""
    pieces = []
    position = start + 1
    while True:
        end = line.find(QUOTE, position)
        if end < 0:
            raise ValueError(f"column {start + 1}: this quoted field is not closed")
        pieces.append(line[position:end])
        if not line.startswith(QUOTE, end + 1):
            return QUOTE.join(pieces), end + 1
        position = end + 2
