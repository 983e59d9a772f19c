"""What of the candidate a seat is shown: all of it, or the slices that fit into its models' windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workers.core.artefact import Files, Span
from workers.core.budget import likely_tokens
from workers.core.run import Stage
from workers.core.slices import DEFAULT_CONTEXT_TOKENS, Selection, choose, view
from workers.errors import SettingsError
from workers.providers.base import ProviderError
from workers.stages.seat import Work

#: The role's own prompt, persona, hints and tags.
_PROMPT_TOKENS = 2_000


def shown_to(
    work: Work, files: Files, *, first: Sequence[Span] = (), beside: Sequence[str] = ()
) -> tuple[dict[str, str], Selection]:
    """The files as the seat is shown them, numbered, and what was chosen.

    `first`: the lines that matter most to this seat; `beside`: other texts that the prompt must hold.
    """
    existing = work.material.existing
    parts = existing.parts if existing else {}
    removed = existing.removed if existing else {}
    tests = list(work.material.tests.values())
    taken = sum(map(likely_tokens, [work.material.spec, *tests, *beside]))
    room = max(0, context_tokens(work) - taken)
    selection = choose(files, room, parts=parts, first=(*first, *_named(files, work.material.spec)))
    texts = {
        path: view(files[path], selection.shown[path], removed.get(path, ()))
        for path in sorted(selection.shown)
    }
    return texts, selection


def to_rewrite(
    work: Work, *, first: Sequence[Span] = (), beside: Sequence[str] = ()
) -> tuple[dict[str, str], frozenset[str]]:
    """The candidate as a seat that writes it anew is shown it, and the paths whose text it may not change.

    A file that the seat has seen only in part would come back as that part. What a coder wrote is shown whole and bare.
    """
    files = work.results[Stage.CODER, "coder"]["files"]
    existing = work.material.existing
    if existing is None:
        return dict(files), frozenset()
    texts, selection = shown_to(work, files, first=first, beside=beside)
    return texts, frozenset(
        path for path, text in files.items() if path in existing.parts or not selection.is_whole(path, text)
    )


def _named(files: Files, spec: str) -> list[Span]:
    """The files that the spec speaks of."""
    return [
        Span(path=path, start=1, end=max(1, len(text.splitlines())))
        for path, text in files.items()
        if path.rpartition("/")[2] in spec
    ]


def context_tokens(work: Work) -> int:
    """Tokens of material that every model of the seat's chain can take, and the team's policy allows."""
    models, place = work.context.models, work.place
    try:
        links = models.chain(place.seat, place.index, is_lead=work.key.stage is Stage.LEAD).links
    except (SettingsError, ProviderError):
        links = ()  # nobody can be asked; `ask` says why
    windows = [window for link in links if (window := models.window(link)) is not None]
    window = min(windows, default=DEFAULT_CONTEXT_TOKENS)
    # A window too small for the seat's own answer is used to a quarter rather than not at all.
    room = max(window // 4, window - place.seat.max_tokens - _PROMPT_TOKENS)
    allowed = work.team.policy.context_tokens
    return room if allowed is None else min(room, allowed)


def left_out_data(selection: Selection) -> dict[str, Any]:
    """What the seat was not shown, for its result; nothing where it was shown everything."""
    if not selection.left_out:
        return {}
    return {"left_out": [[span.path, span.start, span.end] for span in selection.left_out]}


def hidden_from(result: dict[str, Any]) -> tuple[Span, ...]:
    """The lines that the seat of this result was not shown."""
    return tuple(Span(path=path, start=start, end=end) for path, start, end in result.get("left_out", ()))
