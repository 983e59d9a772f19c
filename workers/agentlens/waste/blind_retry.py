"""Blind retry: the same action again, although nothing was learnt since it failed or said the same."""

from __future__ import annotations

from collections import Counter
from typing import Final

from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent, State
from workers.agentlens.waste.finding import Finding

# Bound once: looking a member up in its enum costs three times as much as a global.
_I = Intent.I

CATEGORY: Final = "blind_retry"
_SIMILAR_EDIT: Final = 0.9


def find(trace: Trace) -> list[Finding]:
    """A state is a blind retry of an earlier one if it repeats its action, the earlier one failed or both
    observed the same, and no state between them changed a source, read a new file or met a new error.

    The same action is equal content at the same path, or an edit of the same file whose text is similar by
    at least 0.9 to an edit that failed."""
    latest: dict[str, int] = {}
    failed_edits: dict[str | None, int] = {}
    chains: dict[str, list[int]] = {}
    known_files: set[str] = set()
    known_errors: set[str] = set()
    words: dict[int, list[str]] = {}
    learnt = -1
    for index, signature in zip(trace.acting, trace.signatures, strict=True):
        state = trace.states[index]
        key, path = str(signature.exact), signature.path
        earlier = latest.get(key)
        is_failed_edit = signature.kind == "edit" and state.outcome == "error"
        if earlier is None and signature.kind == "edit" and path in failed_edits:
            before = failed_edits[path]
            for edit in (before, index):
                if edit not in words:
                    words[edit] = _words(trace.states[edit])
            if _similar(words[before], words[index]):
                earlier = before
        if earlier is not None and learnt <= earlier and _same_end(trace.states[earlier], state):
            chains.setdefault(signature.action, []).append(index)
        if _is_news(state, signature.kind, path, known_files, known_errors):
            learnt = index
        latest[key] = index
        if is_failed_edit and path is not None:
            failed_edits[path] = index
    return [
        Finding(
            category=CATEGORY,
            steps=tuple(steps),
            pattern=action,
            repeats=len(steps),
            evidence=f"{action.replace('|', ' ', 1)} was tried {len(steps)} more time(s) without news",
            hint="read the error or look at something new before trying again",
        )
        for action, steps in chains.items()
    ]


def _same_end(earlier: State, later: State) -> bool:
    return earlier.outcome == "error" or earlier.observation_digest == later.observation_digest


def _similar(a: list[str], b: list[str]) -> bool:
    """Whether two edits share at least 0.9 of their words (Dice's coefficient of the two multisets)."""
    total = len(a) + len(b)
    if 2 * min(len(a), len(b)) < _SIMILAR_EDIT * total:
        return False
    return a == b or 2 * (Counter(a) & Counter(b)).total() >= _SIMILAR_EDIT * total


def _words(state: State) -> list[str]:
    return [word for edit in state.edits for word in (*edit.old.split(), "\0", *edit.new.split())]


def _is_news(
    state: State, kind: str, path: str | None, known_files: set[str], known_errors: set[str]
) -> bool:
    news = state.intent is _I and state.outcome != "error"
    if kind == "view" and path is not None and state.outcome != "error" and path not in known_files:
        known_files.add(path)
        news = True
    if state.outcome == "error" and state.observation_digest not in known_errors:
        known_errors.add(state.observation_digest)
        news = True
    return news
