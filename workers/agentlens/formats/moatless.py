"""moatless-tools: `steps` of June 2024, `transitions` of its state machine, and the `nodes` of its
search tree."""

from __future__ import annotations

import dataclasses
import json
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
    whole,
)
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Lines, Operation, Trajectory

_SEARCHED = ("query", "code_snippet", "class_name", "function_name")


def _list_of(source: Source, name: str) -> list[Json] | None:
    document = source.document
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, list) else None


def _trajectory(source: Source, builder: StateBuilder, form: Format, model: Json, cost: Json) -> Trajectory:
    document = source.document
    about = inner(document.get("info")) or inner(document.get("metadata"))
    problem = about.get("instance_id")
    problem = problem if isinstance(problem, str) else None
    return Trajectory(
        trajectory_id=source.stem,
        path=source.path,
        format=form.name,
        problem=problem,
        model=model if isinstance(model, str) else None,
        outcome=results.beside(source, problem),
        states=tuple(builder.states),
        cost_usd=number(cost),
        blind_signals=form.blind_signals,
        warnings=builder.warnings,
    )


def _search(builder: StateBuilder, tool: str, given: dict[str, Json], seen: Seen) -> None:
    """A code search: what is looked for, in which files."""
    wanted = [str(given[name]) for name in _SEARCHED if given.get(name)]
    where = given.get("file_pattern")
    where = where if isinstance(where, str) else ""
    if wanted:
        builder.search(tool, " ".join(wanted), "" if "*" in where else where, seen)
    else:
        builder.search(tool, where, "", seen, program="find")


def _spans(files: Json) -> list[tuple[str, str | None]]:
    """The files (and the one span, if it is one) that a list of `files_with_spans` names."""
    found = []
    for item in files if isinstance(files, list) else []:
        part = inner(item)
        spans = part.get("span_ids")
        only = spans[0] if isinstance(spans, list) and len(spans) == 1 else part.get("span_id")
        if isinstance(part.get("file_path"), str):
            found.append((part["file_path"], only if isinstance(only, str) else None))
    return found


def _replaced(
    builder: StateBuilder, tool: str, given: dict[str, Json], new: str, *, output: dict[str, Json], seen: Seen
) -> None:
    """A change of a line range; its diff says what really changed."""
    path, span = given.get("file_path"), given.get("span_id")
    diff = output.get("diff")
    start, end = whole(given.get("start_line")), whole(given.get("end_line"))
    if isinstance(diff, str) and diff:
        builder.patch_file(tool, str(path), diff, span if isinstance(span, str) else None, seen)
    elif start is not None and end is not None:
        builder.replace_lines(tool, str(path), Lines(start=start, end=end), new, seen)
    else:
        builder.replace(tool, str(path), [("", new)], seen)


def sniff_steps(source: Source) -> bool:
    """Steps whose actions have a name and an input."""
    steps = _list_of(source, "steps")
    return bool(steps) and all(
        "actions" in inner(step) and "name" in inner(step) for step in (steps or [])[:3]
    )


def read_steps(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    builder = StateBuilder()
    for position, item in enumerate(as_list(source, source.document.get("steps"), "steps")):
        step = as_object(source, item, f"steps[{position}]")
        where = f"steps[{position}].actions"
        for number_, entry in enumerate(as_list(source, step.get("actions"), where)):
            action = as_object(source, entry, f"{where}[{number_}]")
            _step_action(source, builder, action, f"{where}[{number_}]")
    info = inner(source.document.get("info"))
    yield _trajectory(source, builder, STEPS, None, info.get("total_cost"))


def _step_action(source: Source, builder: StateBuilder, action: dict[str, Json], where: str) -> None:
    name = as_text(source, action.get("name"), f"{where}.name")
    given, output = inner(action.get("input")), inner(action.get("output"))
    seen = Seen(
        text=_text_of(output),
        thought=str(given.get("thoughts") or given.get("reasoning") or given.get("description") or ""),
    )
    if name == "search":
        _search(builder, name, given, seen)
    elif name == "identify":
        builder.views(name, _spans(given.get("files_with_spans")), seen)
    elif name in ("request_for_change", "specify_lines"):
        span = given.get("span_id")
        start, end = whole(given.get("start_line")), whole(given.get("end_line"))
        path = given.get("file_path")
        if isinstance(path, str):
            builder.views(name, [(path, span if isinstance(span, str) else None)], seen)
        else:
            builder.note(name, Operation.PLAN, seen, f"{start}-{end}")
    elif name == "search_replace":
        seen.is_error = output.get("updated") is False or bool(output.get("error"))
        _replaced(builder, name, given, str(given.get("replacement_code") or ""), output=output, seen=seen)
    elif name in ("finish", "reject"):
        builder.note(name, Operation.FINISH if name == "finish" else Operation.MESSAGE, seen)
    else:
        builder.other(name, json.dumps(given, sort_keys=True, default=str), seen)


def _text_of(output: dict[str, Json]) -> str:
    for name in ("message", "response", "error"):
        if isinstance(output.get(name), str) and output[name]:
            return str(output[name])
    return json.dumps(output, sort_keys=True, default=str) if output else ""


def sniff_transitions(source: Source) -> bool:
    """Transitions of named states."""
    transitions = _list_of(source, "transitions")
    return transitions is not None and all("actions" in inner(item) for item in transitions[:3])


def read_transitions(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    builder = StateBuilder()
    model: Json = None
    for position, item in enumerate(as_list(source, source.document.get("transitions"), "transitions")):
        where = f"transitions[{position}]"
        transition = as_object(source, item, where)
        settings = inner(transition.get("state"))
        model = model or settings.get("model")
        state = as_text(source, transition.get("name"), f"{where}.name")
        for number_, entry in enumerate(as_list(source, transition.get("actions"), f"{where}.actions")):
            action = as_object(source, entry, f"{where}.actions[{number_}]")
            _transition(builder, state, settings, action)
    info = inner(source.document.get("info"))
    yield _trajectory(source, builder, TRANSITIONS, model, info.get("total_cost"))


def _transition(
    builder: StateBuilder, state: str, settings: dict[str, Json], action: dict[str, Json]
) -> None:
    given, output = inner(action.get("action")), inner(action.get("output"))
    retry = action.get("retry_message")
    seen = Seen(
        text=retry if isinstance(retry, str) else _text_of(output),
        is_error=True if retry else None,
        thought=str(given.get("scratch_pad") or given.get("thoughts") or ""),
        tokens_in=whole(action.get("input_tokens")),
        tokens_out=whole(action.get("output_tokens")),
    )
    if state == "SearchCode":
        requests = given.get("search_requests")
        for request in requests if isinstance(requests, list) and requests else [given]:
            _search(builder, state, inner(request), seen)
            seen = dataclasses.replace(seen, tokens_in=None, tokens_out=None)
    elif state == "IdentifyCode":
        builder.views(state, _spans(given.get("identified_spans") or given.get("files_with_spans")), seen)
    elif state in ("PlanToCode", "ClarifyCodeChange"):
        _planned(builder, state, settings, given, seen)
    elif state == "EditCode":
        seen.is_error = True if retry or output.get("diff") is None else None
        content = given.get("content")
        _replaced(
            builder, state, settings, content if isinstance(content, str) else "", output=output, seen=seen
        )
    else:
        builder.note(state, Operation.PLAN, seen)


def _planned(
    builder: StateBuilder, state: str, settings: dict[str, Json], given: dict[str, Json], seen: Seen
) -> None:
    """The planner names the span to change, which shows it; or it ends the run."""
    plan = (
        given if isinstance(given.get("action"), str) or "start_line" in given else inner(given.get("action"))
    )
    if given.get("action") == "finish" or "finish" in plan or "reason" in plan:
        builder.note("finish", Operation.FINISH, seen)
        return
    path = plan.get("file_path") or settings.get("file_path")
    span = plan.get("span_id") or settings.get("span_id")
    if isinstance(path, str):
        start, end = whole(plan.get("start_line")), whole(plan.get("end_line"))
        lines = (start, end) if start is not None and end is not None else None
        builder.views(state, [(path, span if isinstance(span, str) else None)], seen, lines)
    else:
        builder.note(state, Operation.PLAN, seen)


def sniff_nodes(source: Source) -> bool:
    """Nodes with an action and an observation."""
    nodes = _list_of(source, "nodes")
    return nodes is not None and all("node_id" in inner(node) for node in nodes[:2])


def read_nodes(source: Source) -> Iterator[Trajectory]:
    """The file's one run: its nodes in order."""
    builder = StateBuilder()
    cost = 0.0
    for position, item in enumerate(as_list(source, source.document.get("nodes"), "nodes")):
        node = as_object(source, item, f"nodes[{position}]")
        action = node.get("action")
        usage = inner(inner(inner(node.get("completions")).get("build_action")).get("usage"))
        cost += number(usage.get("completion_cost")) or 0.0
        if action is not None:
            _node(
                builder,
                as_object(source, action, f"nodes[{position}].action"),
                inner(node.get("observation")),
                usage,
            )
    completion = inner(inner(source.document.get("agent")).get("completion"))
    yield _trajectory(source, builder, NODES, completion.get("model"), cost or None)


def _node(
    builder: StateBuilder, action: dict[str, Json], observation: dict[str, Json], usage: dict[str, Json]
) -> None:
    name = str(action.get("action_args_class", "")).rpartition(".")[2].removesuffix("Args")
    properties = inner(observation.get("properties"))
    failed = bool(properties.get("fail_reason")) or observation.get("expect_correction") is True
    seen = Seen(
        text=join_text(observation.get("message") or []),
        is_error=True if failed else None,
        thought=str(action.get("scratch_pad") or ""),
        tokens_in=whole(usage.get("prompt_tokens")),
        tokens_out=whole(usage.get("completion_tokens")),
    )
    if name in ("SemanticSearch", "FindClass", "FindFunction", "FindCodeSnippet"):
        _search(builder, name, action, seen)
    elif name == "ViewCode":
        builder.views(name, _spans(action.get("files")), seen)
    elif name == "EditActionArguments":
        add_call(builder, "str_replace_editor", action, seen)
    elif name == "Finish":
        builder.note(name, Operation.FINISH, seen)
    elif name in ("Reject", "Message", "SendMessage"):
        builder.note(name, Operation.MESSAGE, seen)
    else:
        arguments = {
            key: value for key, value in action.items() if key not in ("scratch_pad", "action_args_class")
        }
        add_call(builder, name, arguments, seen)


_NO_SHELL = ("exit codes", "shell commands", "time stamps")
STEPS = Format(
    name="moatless-v0",
    sniff=sniff_steps,
    read=read_steps,
    blind_signals=(*_NO_SHELL, "what searches showed", "tokens of a step"),
)
TRANSITIONS = Format(
    name="moatless-v1",
    sniff=sniff_transitions,
    read=read_transitions,
    blind_signals=(*_NO_SHELL, "what searches showed"),
)
NODES = Format(name="moatless-v2", sniff=sniff_nodes, read=read_nodes, blind_signals=_NO_SHELL)
