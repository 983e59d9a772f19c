"""OpenHands 1.x: the SDK's events (a folder of one file an event, or JSONL), and benchmark lines whose
history
holds them."""

from __future__ import annotations

from collections.abc import Iterator

from workers.agentlens.formats import results
from workers.agentlens.formats.base import (
    Format,
    Json,
    Source,
    as_list,
    as_object,
    as_text,
    inner,
    join_text,
    number,
    refuse,
    seconds,
    whole,
)  # fmt: skip
from workers.agentlens.formats.chat import UPLOADED
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Trajectory

_SILENT_ENDINGS = ("Event", "Condensation", "CondensationRequest", "CondensationSummary")


def is_event(value: Json) -> bool:
    """Whether a value is an event of the SDK."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("kind"), str)
        and value["kind"].endswith((*_SILENT_ENDINGS, "Observation"))
    )


def sniff(source: Source) -> bool:
    """Records with an event's `kind`, or lines whose history holds such events."""
    rows = [value for _, value in source.lines[:3]] if source.lines else [source.document]
    for row in rows:
        events = row.get("history", [row]) if isinstance(row, dict) else row
        if isinstance(events, list) and any(is_event(item) for item in events[:3]):
            return True
    return False


def read(source: Source) -> Iterator[Trajectory]:
    """One run a conversation, or one a benchmark line."""
    if source.lines and not all("history" in inner(value) for _, value in source.lines):
        yield _run(source, {}, [(f"line {line}", value) for line, value in source.lines])
        return
    rows = list(source.lines) or [(0, source.document)]
    for line, value in rows:
        where = f"line {line}: " if line else ""
        if isinstance(value, list) or is_event(value):
            items, row = (value if isinstance(value, list) else [value]), {}
        else:
            row = as_object(source, value, where or "file")
            items = as_list(source, row.get("history"), f"{where}history")
        yield _run(
            source, row, [(f"{where}history[{position}]", item) for position, item in enumerate(items)]
        )


def _run(source: Source, row: dict[str, Json], items: list[tuple[str, Json]]) -> Trajectory:
    events = _active([(where, as_object(source, item, where)) for where, item in items])
    base = _base_state(source)
    builder = StateBuilder(root=_root(base, row, events))
    answers: dict[str, dict[str, Json]] = {}
    for _, event in events:
        answered = event.get("action_id") or event.get("tool_call_id")
        if event.get("kind") in ("ObservationEvent", "AgentErrorEvent", "UserRejectObservation") and answered:
            answers.setdefault(str(answered), event)
            answers.setdefault(str(event.get("tool_call_id")), event)
    model = inner(inner(base.get("agent")).get("llm")).get("model")
    model = model or inner(inner(row.get("metadata")).get("llm")).get("model")
    for where, event in events:
        if event.get("kind") == "ActionEvent":
            answer = answers.get(str(event.get("id"))) or answers.get(str(event.get("tool_call_id"))) or {}
            _action(source, builder, where, event, answer)
        elif not is_event(event):
            raise refuse(source, f"{where}.kind", f"expected an event's kind, found {event.get('kind')!r}")
    instance, attempt = row.get("instance_id"), whole(row.get("attempt"))
    problem = instance if isinstance(instance, str) else None
    name = f"{problem}#{attempt}" if problem and attempt is not None else problem
    outcome = results.from_report(row, problem)
    return Trajectory(
        trajectory_id=str(base.get("id") or name or source.stem),
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        model=model if isinstance(model, str) else None,
        outcome=outcome if outcome != "unknown" else results.beside(source, problem),
        states=tuple(builder.states),
        cost_usd=_cost(row, events),
        blind_signals=FORMAT.blind_signals,
        warnings=builder.warnings,
    )


def _active(events: list[tuple[str, dict[str, Json]]]) -> list[tuple[str, dict[str, Json]]]:
    """The events of the active branch: where events name their parent, the chain that ends at the last
    one."""
    if not any(event.get("parent_id") for _, event in events):
        return events
    by_id = {event.get("id"): (where, event) for where, event in events}
    chain: list[tuple[str, dict[str, Json]]] = []
    step: tuple[str, dict[str, Json]] | None = events[-1]
    seen: set[int] = set()
    while step is not None and id(step[1]) not in seen:
        chain.append(step)
        seen.add(id(step[1]))
        step = by_id.get(step[1].get("parent_id"))
    return chain[::-1]


def _base_state(source: Source) -> dict[str, Json]:
    for name in ("base_state.json", "../base_state.json"):
        data = source.beside(name)
        if data is not None:
            try:
                return inner(source.decode(data))
            except (ValueError, RecursionError):
                return {}
    return {}


def _root(base: dict[str, Json], row: dict[str, Json], events: list[tuple[str, dict[str, Json]]]) -> str:
    texts = [row.get("instruction")]
    texts += [join_text(inner(event.get("llm_message")).get("content") or []) for _, event in events[:5]]
    for text in texts:
        match = UPLOADED.search(text) if isinstance(text, str) else None
        if match:
            return match[1].rstrip("/")
    folder = inner(base.get("workspace")).get("working_dir")
    return folder if isinstance(folder, str) else ""


def _action(
    source: Source, builder: StateBuilder, where: str, event: dict[str, Json], answer: dict[str, Json]
) -> None:
    observation = inner(answer.get("observation"))
    failed = (
        answer.get("kind") in ("AgentErrorEvent", "UserRejectObservation")
        or observation.get("is_error") is True
    )
    content = observation.get("content", answer.get("error", answer.get("rejection_reason")))
    code = whole(observation.get("exit_code", inner(observation.get("metadata")).get("exit_code")))
    seen = Seen(
        text=join_text(content or observation.get("output") or []),
        exit_code=code if code is not None and code >= 0 else None,
        is_error=True if failed else None,
        thought=join_text(event.get("thought") or []),
        timestamp=seconds(event.get("timestamp")),
    )
    action = event.get("action")
    arguments = action if isinstance(action, dict) else inner(event.get("tool_call")).get("arguments")
    if isinstance(arguments, dict):
        arguments = {key: value for key, value in arguments.items() if key != "kind" and value is not None}
    add_call(builder, as_text(source, event.get("tool_name"), f"{where}.tool_name"), arguments, seen)


def _cost(row: dict[str, Json], events: list[tuple[str, dict[str, Json]]]) -> float | None:
    cost = number(inner(row.get("metrics")).get("accumulated_cost"))
    for _, event in events:
        if event.get("kind") == "ConversationStateUpdateEvent" and event.get("key") == "stats":
            metrics = inner(inner(event.get("value")).get("usage_to_metrics"))
            cost = sum(number(inner(part).get("accumulated_cost")) or 0.0 for part in metrics.values())
    return cost


def is_run(record: Json) -> bool:
    """Whether a record is a benchmark's line, with the whole conversation in it."""
    return isinstance(record, dict) and "history" in record


FORMAT = Format(
    name="openhands-v1", sniff=sniff, read=read, is_run=is_run, blind_signals=("tokens of a step",)
)
