"""Splits a shell line into simple commands: words without quotes, redirections, here-document bodies.

One regular expression reads one token, or a run of words without quotes; possessive quantifiers keep it
linear. What a shell would refuse (an unclosed quote) is taken as a word to the end of the line's text, so
every text has exactly one reading.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_TOKEN = re.compile(
    r"""[ \t\r]*+(?:\\\r?\n[ \t\r]*+)*+(?:
      (?P<plain>(?:[ \t]*+(?:
          [^\s'"\\;&|<>()`$\#0-9]++
        | [0-9]++(?![<>])
        | (?<![\s;&|()])\#
      )++(?=[\s;&|<>()]|\Z))++)
    | (?P<word>(?:
          [^\s'"\\;&|<>()`$\#0-9]++
        | [0-9]++(?![<>])
        | '[^']*+'
        | "(?:[^"\\]++|\\.)*+"
        | \\[^\n]
        | \$\((?:[^()'"]++|'[^']*+'|"(?:[^"\\]++|\\.)*+"|\((?:[^()]++|\([^()]*+\))*+\))*+\)
        | \$\{[^}\n]*+\}
        | \$
        | `[^`]*+`
        | (?<![\s;&|()])\#
        | <\([^()\n]*+\)
      )++)
    | (?P<redirect>(?:[0-9]++|&)?+(?:<<<|<<-|<<|<>|<&|<|>>|>&|>\||>))
    | (?P<newline>\n)
    | (?P<operator>&&|\|\||;;|;|\|&|\||&|\(|\))
    | (?P<comment>\#[^\n]*+)
    | (?P<rest>['"`][\s\S]*+|[0-9]++|[\s\S])
    )""",
    re.VERBOSE | re.DOTALL,
)
_PLAIN, _WORD, _REDIRECT, _NEWLINE, _COMMENT, _REST = (
    _TOKEN.groupindex[name] for name in ("plain", "word", "redirect", "newline", "comment", "rest")
)
_WORDS = (_PLAIN, _WORD, _REST)
_PIECE = re.compile(r"""'([^']*+)'|"((?:[^"\\]++|\\.)*+)"|\\(.)|([^'"\\]++)|(.)""", re.DOTALL)
_DOUBLE_ESCAPE = re.compile(r'\\([$`"\\])')
_QUOTING = frozenset("'\"\\")


class Simple(NamedTuple):
    """One simple command as typed. `joined_by` is the operator before it ("" for the first)."""

    joined_by: str
    words: list[str]
    redirects: list[tuple[str, str]]
    heredocs: list[str]


def unquote(word: str) -> str:
    """The word as the program would see it; variables and substitutions stay as typed."""
    if _QUOTING.isdisjoint(word):
        return word
    inside = word[1:-1]
    if word[0] == word[-1] != "\\" and len(word) > 1 and _QUOTING.isdisjoint(inside):
        return inside
    pieces = []
    for single, double, escaped, plain, _ in _PIECE.findall(word):
        if plain:
            pieces.append(plain)
        elif single:
            pieces.append(single)
        elif double:
            pieces.append(_DOUBLE_ESCAPE.sub(r"\1", double).replace("\\\n", ""))
        else:  # a quote that is never closed, or a backslash at the end, escapes nothing
            pieces.append(escaped)
    return "".join(pieces)


def split(text: str) -> list[Simple]:
    """The simple commands of `text`, in order, empty ones left out."""
    commands: list[Simple] = []
    words: list[str] = []
    current = Simple("", words, [], [])
    waiting: list[tuple[str, bool, Simple]] = []
    redirect = ""
    scan = _TOKEN.scanner(text).match  # type: ignore[attr-defined]
    while token := scan():
        kind = token.lastindex
        if kind in _WORDS:
            found = token[kind].split() if kind == _PLAIN else [unquote(token[kind])]
            if redirect:
                _redirect(current, redirect, found.pop(0), waiting)
                redirect = ""
            words += found
        elif kind == _REDIRECT:
            redirect = token[kind]
        elif kind is not None and kind != _COMMENT:
            if words or current.redirects:
                commands.append(current)
            if kind == _NEWLINE and waiting:
                scan = _TOKEN.scanner(text, _take_heredocs(text, token.end(), waiting)).match  # type: ignore[attr-defined]
            words = []
            current = Simple(token[kind], words, [], [])
    if words or current.redirects:
        commands.append(current)
    return commands


def _redirect(current: Simple, operator: str, word: str, waiting: list[tuple[str, bool, Simple]]) -> None:
    if operator.endswith(("<<", "<<-")) and "<<<" not in operator:
        waiting.append((word, operator.endswith("-"), current))
    elif operator.endswith("<<<"):
        current.heredocs.append(word)
    else:
        current.redirects.append((operator, word))


def _take_heredocs(text: str, position: int, waiting: list[tuple[str, bool, Simple]]) -> int:
    for delimiter, strips_tabs, owner in waiting:
        start = position
        while True:
            line_end = text.find("\n", position)
            line = text[position:] if line_end < 0 else text[position:line_end]
            if (line.lstrip("\t") if strips_tabs else line).rstrip("\r") == delimiter:
                owner.heredocs.append(text[start:position])
                position = len(text) if line_end < 0 else line_end + 1
                break
            if line_end < 0:
                owner.heredocs.append(text[start:])
                position = len(text)
                break
            position = line_end + 1
    waiting.clear()
    return position
