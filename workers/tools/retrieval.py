"""Looks things up: the passages of a team's documents that are nearest to the task, by BM25.

A passage keeps its path and lines, so that a seat can point at it and a reader can look. Ranking is deterministic:
the same task and documents give the same passages to every seat, which also keeps the prompts' shared prefix shared."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from workers.core.equipment import Retrieval
from workers.errors import ManifestError
from workers.tools.glob import matches, walk
from workers.yaml_text import read_text

MAX_DOCUMENT_BYTES = 256 * 1024
MAX_DOCUMENTS = 500
#: Of all documents together; they are stored with each version of the team that runs.
MAX_LIBRARY_CHARACTERS = 1_000_000
#: A passage ends at the first blank line after this many lines, and at the second number at the latest.
PASSAGE_LINES, LONGEST_PASSAGE_LINES = 12, 40

_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Lines `start` to `end` of a document, counted from 1."""

    path: str
    start: int
    end: int
    text: str


def read_documents(root: Path, retrieval: Retrieval) -> dict[str, str]:
    """The texts beside the team file that the globs name, by path.

    Raises: ManifestError for a document that is no text or too large, and for too many of them.
    """
    documents: dict[str, str] = {}
    characters = 0
    for glob in retrieval.globs:
        try:
            paths = list(walk(root, glob))
        except ValueError as error:
            raise ManifestError(str(error)) from None
        for path in paths:
            if path in documents:
                continue
            documents[path] = read_text(root / path, max_bytes=MAX_DOCUMENT_BYTES, what="a document")
            characters += len(documents[path])
            if len(documents) > MAX_DOCUMENTS or characters > MAX_LIBRARY_CHARACTERS:
                raise ManifestError(
                    f"{glob!r} names more than {MAX_DOCUMENTS} documents or {MAX_LIBRARY_CHARACTERS:,} characters; "
                    "name fewer"
                )
    return documents


def passages_for(
    task: str, retrieval: Retrieval, documents: Mapping[str, str], submitted: Mapping[str, str]
) -> tuple[Passage, ...]:
    """The passages nearest to the task, nearest first, within the team's bounds; none that shares no word with it.

    `documents` are the team's own, `submitted` came with the task and are searched where the globs name them.
    """
    corpus = {
        **{path: text for path, text in submitted.items() if matches(path, retrieval.globs)},
        **documents,
    }
    passages = [passage for path in sorted(corpus) for passage in _cut(path, corpus[path])]
    wanted = set(words(task))
    found: list[Passage] = []
    characters = 0
    for passage in _ranked(passages, wanted):
        shown = _shortened(passage, retrieval.max_characters - characters)
        if shown is None or len(found) == retrieval.max_snippets:
            break
        found.append(shown)
        characters += len(shown.text)
    return tuple(found)


def words(text: str) -> list[str]:
    """Words in small letters; identifiers are cut at their underscores and humps."""
    return [word.lower() for word in _WORD.findall(_HUMP.sub(" ", text))]


def _cut(path: str, text: str) -> Iterator[Passage]:
    """The document in passages that end between paragraphs where they can."""
    lines = text.splitlines()
    start = 0
    for number in range(1, len(lines) + 1):
        length = number - start
        is_gap = number == len(lines) or (length >= PASSAGE_LINES and not lines[number - 1].strip())
        if is_gap or length == LONGEST_PASSAGE_LINES:
            body = "\n".join(lines[start:number])
            if body.strip():
                yield Passage(path=path, start=start + 1, end=number, text=body)
            start = number


def _ranked(passages: list[Passage], wanted: set[str]) -> list[Passage]:
    """Passages with a score above zero, best first; equals stand in the order of path and line."""
    tokens = [words(f"{passage.path} {passage.text}") for passage in passages]
    known = sorted(wanted.intersection(*[{word for line in tokens for word in line}]))
    if not known:
        return []
    import bm25s

    index = bm25s.BM25()
    index.index(tokens, show_progress=False)
    scores = index.get_scores(known)
    order = sorted(range(len(passages)), key=lambda place: (-float(scores[place]), place))
    return [passages[place] for place in order if scores[place] > 0]


def _shortened(passage: Passage, characters: int) -> Passage | None:
    """The passage's first lines that fit, None if not even one does."""
    if len(passage.text) <= characters:
        return passage
    kept: list[str] = []
    for line in passage.text.splitlines():
        characters -= len(line) + 1
        if characters < 0:
            break
        kept.append(line)
    if not kept:
        return None
    return dataclasses.replace(passage, end=passage.start + len(kept) - 1, text="\n".join(kept))
