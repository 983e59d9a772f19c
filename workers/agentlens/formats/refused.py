"""Logs that are recognised and refused: each with the sentence that says why and what would be right."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workers.agentlens.formats.base import Format, Json, Source, inner, refuse
from workers.agentlens.trajectory import Trajectory


def _first(source: Source) -> dict[str, Json]:
    if source.lines:
        return inner(source.lines[0][1])
    document = source.document
    return inner(document[0]) if isinstance(document, list) and document else inner(document)


def _is_codex_tui(source: Source) -> bool:
    first = _first(source)
    return "dir" in first and "kind" in first and "ts" in first


def _is_copilot(source: Source) -> bool:
    first = _first(source)
    return str(first.get("type")).startswith(("session.", "assistant.", "user.", "tool.")) and "data" in first


def _is_cursor(source: Source) -> bool:
    first = _first(source)
    if str(first.get("source_format")).startswith("cursor"):
        return True
    return "role" in first and "message" in first and "type" not in first


def _is_inspect(source: Source) -> bool:
    first = _first(source)
    metadata = inner(first.get("metadata"))
    return (
        "eval_log_url" in metadata or ("eval" in first and "samples" in first) or "eval_sample_id" in metadata
    )


def _is_spans(source: Source) -> bool:
    first = _first(source)
    return (
        ("spans" in first and "trace_id" in first)
        or "resourceSpans" in first
        or "span_id" in first
        or ("trace" in first and "labels" in first and isinstance(first["trace"], str))
    )


def _is_own(source: Source) -> bool:
    first = _first(source)
    return "scoring_version" in first and not {"assessments", "donors", "wasted_steps"}.isdisjoint(first)


def _read(sentence: str, source: Source) -> Iterator[Trajectory]:
    raise refuse(source, "file", sentence)


REFUSED = (
    Format(
        name="own",
        sniff=_is_own,
        read=partial(
            _read,
            "a report, reference or export that was made from runs is no run; give the logs themselves",
        ),
    ),
    Format(
        name="codex-tui",
        sniff=_is_codex_tui,
        read=partial(
            _read,
            "a recording of Codex's screen holds fragments of calls; use the session's rollout file instead",
        ),
    ),
    Format(
        name="copilot",
        sniff=_is_copilot,
        read=partial(
            _read,
            "a Copilot CLI event log does not keep what edits changed; convert the session to ATIF instead",
        ),
    ),
    Format(
        name="cursor",
        sniff=_is_cursor,
        read=partial(
            _read,
            "a Cursor transcript keeps calls without their results; convert the session to ATIF instead",
        ),
    ),
    Format(
        name="inspect",
        sniff=_is_inspect,
        read=partial(
            _read,
            "an Inspect log holds evaluations of any kind; export the sample's messages as chat rows instead",
        ),
    ),
    Format(
        name="spans",
        sniff=_is_spans,
        read=partial(
            _read,
            "OpenTelemetry spans do not say which calls belong to the agent; export the messages as "
            "chat rows instead",
        ),
    ),
)
