"""Which lines of a rewrite differ in meaning: what decides whether a lead's fix changed anything (PANEL §5).

Code is compared as tokens, so that comments, docstrings, blanks and (in Python, statement by statement) line
breaks are no change. Where this cannot be sure it counts too little: a fix that goes unseen leaves a claim
standing, a change that is only seen would lift one. So outside Python indentation alone is no change."""

from __future__ import annotations

import dataclasses
import difflib
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from workers.core.artefact import Files, Span

#: Work that a diff may cost (equal pairs times length); above it only lines never seen before are changed.
MAX_DIFF_WORK = 10_000_000

_SLASH = frozenset(
    (
        *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".go", ".c", ".h", ".cc", ".cpp", ".hpp"),
        *(".cs", ".java", ".kt", ".rs", ".swift", ".scala", ".php", ".dart"),
    )
)
_HASH = frozenset({"", ".py", ".sh", ".rb", ".pl", ".r", ".jl", ".ex", ".yaml", ".yml", ".toml"})
_DASH = frozenset({".sql", ".lua", ".hs"})

_STRING = r'"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?'
_SCANNER = {
    "slash": re.compile(
        rf"(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|{_STRING}|`(?:\\.|[^`\\])*`?|\w+|\S", re.DOTALL
    ),
    "hash": re.compile(rf"(?P<comment>\#[^\n]*)|{_STRING}|\w+|\S", re.DOTALL),
    "dash": re.compile(rf"(?P<comment>--[^\n]*)|{_STRING}|\w+|\S", re.DOTALL),
    "plain": re.compile(r"(?P<comment>(?!))|\w+|\S"),
}
_LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """What is compared: a statement, or a line where the language is not Python. Lines are 1-based."""

    start: int
    end: int
    tokens: tuple[str, ...]


def changed_spans(before: Files, after: Files) -> tuple[Span, ...]:
    """Line ranges of `after` whose meaning differs from `before`, by path and line.

    A deletion is a change of the two lines around the gap. Files that vanished have no lines to point at.
    """
    spans: list[Span] = []
    for path in sorted(after):
        if before.get(path) == after[path]:
            continue
        old, new = list(_units(before.get(path, ""), path)), list(_units(after[path], path))
        last = max(1, len(after[path].splitlines()))
        for start, end in _changed([unit.tokens for unit in old], [unit.tokens for unit in new]):
            if start < end:
                spans.append(Span(path=path, start=new[start].start, end=new[end - 1].end))
            else:
                above = new[start - 1].end if start else 1
                below = new[start].start if start < len(new) else last
                spans.append(Span(path=path, start=min(above, below), end=max(above, below)))
    return tuple(spans)


def _changed(old: Sequence[tuple[str, ...]], new: Sequence[tuple[str, ...]]) -> Iterator[tuple[int, int]]:
    """Half-open ranges of `new` that differ from `old`; an empty range is a deletion before its index."""
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old, new = old[head : len(old) - tail], new[head : len(new) - tail]
    had, has = Counter(old), Counter(new)
    pairs = sum(count * had[key] for key, count in has.items())
    if pairs * min(len(old), len(new)) > MAX_DIFF_WORK:
        yield from ((head + at, head + at + 1) for at, key in enumerate(new) if key not in had)
        return
    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, _, _, start, end in matcher.get_opcodes():
        if tag != "equal":
            yield head + start, head + end


def _units(text: str, path: str) -> Iterator[_Unit]:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix == ".py":
        try:
            yield from list(_statements(text))
        except (tokenize.TokenError, SyntaxError):
            pass
        else:
            return
    style = (
        "slash" if suffix in _SLASH else "hash" if suffix in _HASH else "dash" if suffix in _DASH else "plain"
    )
    yield from _code_lines(text, _SCANNER[style])


def _statements(text: str) -> Iterator[_Unit]:
    """Python's statements, those that are only a string left out. Raises: TokenError, SyntaxError."""
    tokens: list[tokenize.TokenInfo] = []
    depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.ERRORTOKEN:
            # No Python; and one long line of such tokens would take the tokenizer minutes.
            raise tokenize.TokenError(f"line {token.start[0]}")
        # How deep a statement stands is its meaning; how many blanks that takes is layout.
        depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
        if token.type not in _LAYOUT and token.type != tokenize.NEWLINE:
            tokens.append(token)
        elif token.type == tokenize.NEWLINE:
            if any(item.type != tokenize.STRING for item in tokens):
                yield _Unit(
                    start=tokens[0].start[0],
                    end=tokens[-1].end[0],
                    tokens=(f"depth {depth}", *(item.string for item in tokens)),
                )
            tokens = []


def _code_lines(text: str, scanner: re.Pattern[str]) -> Iterator[_Unit]:
    """Lines that hold more than a comment; a token of several lines is shared out among them."""
    lines: dict[int, list[str]] = {}
    number, seen = 1, 0
    for match in scanner.finditer(text):
        number += text.count("\n", seen, match.start())
        seen = match.start()
        if match.lastgroup != "comment":
            for offset, part in enumerate(match.group().split("\n")):
                lines.setdefault(number + offset, []).append(part)
    for at, tokens in sorted(lines.items()):
        yield _Unit(start=at, end=at, tokens=tuple(tokens))
