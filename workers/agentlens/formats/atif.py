"""ATIF 1.0 to 1.8 (Harbor's trajectory format): one document, or JSONL with a document a line or a
step a line;
continuation files and sub-agents, embedded or in files beside, are read in place. Unknown keys are
ignored."""

from __future__ import annotations

import json
import re
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
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.textcalls import calls_in
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Trajectory

_VERSION = re.compile(r"(?:ATIF-v)?1\.\d+(?:\.\d+)?$")
_DEEPEST = 8
_LONGEST_CHAIN = 1000


def _is_document(value: Json) -> bool:
    return isinstance(value, dict) and "steps" in value and _is_version(value.get("schema_version"))


def _is_version(value: Json) -> bool:
    return isinstance(value, str) and _VERSION.match(value) is not None


def _is_step(value: Json) -> bool:
    return isinstance(value, dict) and "step_id" in value and "source" in value


def sniff(source: Source) -> bool:
    """A document with a version and steps; or JSONL of such documents, or of a header and steps."""
    if source.lines:
        first = source.lines[0][1]
        return (
            _is_document(first)
            or _is_step(first)
            or (isinstance(first, dict) and first.get("__header__") is True)
        )
    return _is_document(source.document)


def read(source: Source) -> Iterator[Trajectory]:
    """One run a document."""
    if source.lines and not _is_document(source.lines[0][1]):
        header, steps = {}, []
        for line, value in source.lines:
            record = as_object(source, value, f"line {line}")
            if record.get("__header__") is True or "schema_version" in record:
                header = record
            else:
                steps.append((f"line {line}", record))
        yield _run(source, header, steps, "")
        return
    documents = source.lines or ((0, source.document),)
    for line, value in documents:
        where = f"line {line}: " if line else ""
        document = as_object(source, value, where or "file")
        yield _run(source, document, _numbered(source, document, where), where)


def _numbered(source: Source, document: dict[str, Json], where: str) -> list[tuple[str, Json]]:
    if not _is_version(document.get("schema_version")):
        raise refuse(source, f"{where}schema_version", "expected ATIF-v1.0 to ATIF-v1.8")
    steps = as_list(source, document.get("steps"), f"{where}steps")
    return [(f"{where}steps[{position}]", step) for position, step in enumerate(steps)]


def _run(source: Source, document: dict[str, Json], steps: list[tuple[str, Json]], where: str) -> Trajectory:
    agent = inner(document.get("agent"))
    reader = _Reader(source, StateBuilder(root=_root(agent)))
    reader.document(document, steps, 0)
    if steps and whole(inner(steps[0][1]).get("step_id")) not in (None, 1):
        reader.builder.notices.append(f"the log starts at step {inner(steps[0][1]).get('step_id')}")
    model = agent.get("model_name") or agent.get("model")
    identifier = document.get("trajectory_id") or document.get("session_id")
    trial = _trial(source)
    problem = trial.get("task_name")
    outcome = results.beside(source, problem if isinstance(problem, str) else None)
    return Trajectory(
        trajectory_id=as_text(source, identifier, f"{where}trajectory_id") or source.stem,
        path=source.path,
        format=FORMAT.name,
        problem=problem if isinstance(problem, str) else None,
        model=model if isinstance(model, str) else None,
        outcome=outcome,
        states=tuple(reader.builder.states),
        cost_usd=number(inner(document.get("final_metrics")).get("total_cost_usd")),
        blind_signals=FORMAT.blind_signals,
        warnings=reader.builder.warnings,
    )


def _root(agent: dict[str, Json]) -> str:
    folder = inner(agent.get("extra")).get("cwd")
    return folder if isinstance(folder, str) else ""


def _trial(source: Source) -> dict[str, Json]:
    for name in ("result.json", "../result.json"):
        data = source.beside(name)
        if data is not None:
            try:
                found = inner(source.decode(data))
            except (ValueError, RecursionError):
                continue
            if "task_name" in found:
                return found
    return {}


class _Reader:
    """Walks the steps of a run, its continuations and its sub-agents."""

    def __init__(self, source: Source, builder: StateBuilder) -> None:
        self.source = source
        self.builder = builder
        self.files: set[str] = set()
        self.late: dict[str, dict[str, Json]] = {}

    def document(self, document: dict[str, Json], steps: list[tuple[str, Json]], depth: int) -> None:
        embedded = {}
        for position, item in enumerate(document.get("subagent_trajectories") or []):
            where = f"subagent_trajectories[{position}]"
            part = as_object(self.source, item, where)
            embedded[part.get("trajectory_id")] = (part, _numbered(self.source, part, f"{where}."))
        self.late = _late_results([inner(item) for _, item in steps])
        for where, item in steps:
            self.step(as_object(self.source, item, where), where, embedded, depth)
        following = document.get("continued_trajectory_ref")
        if isinstance(following, str) and following:
            self.file(following, depth, "continuation")

    def file(self, name: str, depth: int, role: str) -> None:
        if name in self.files or len(self.files) >= _LONGEST_CHAIN:
            return
        self.files.add(name)
        data = self.source.beside(name)
        if data is None:
            self.builder.notices.append(f"{role} {name} is not there")
            return
        try:
            document = self.source.decode(data)
        except (ValueError, RecursionError) as error:
            raise refuse(self.source, name, f"not JSON: {error}") from error
        part = as_object(self.source, document, name)
        self.document(part, _numbered(self.source, part, f"{name}: "), depth)

    def step(self, step: dict[str, Json], where: str, embedded: dict[Json, Json], depth: int) -> None:
        if step.get("is_copied_context") is True:
            return
        observation = inner(step.get("observation"))
        found = observation.get("results")
        given = as_list(self.source, found, f"{where}.observation.results") if found is not None else []
        answers = [as_object(self.source, item, f"{where}.observation.results") for item in given]
        calls = self._calls(step, where)
        metrics = inner(step.get("metrics"))
        for position, (name, arguments, call_id) in enumerate(calls):
            answer = _answer(answers, call_id, position, len(calls)) or self.late.get(str(call_id), {})
            extra = inner(answer.get("extra"))
            flag = extra.get("tool_result_is_error", extra.get("is_error"))
            seen = Seen(
                text=_content(answer.get("content")),
                is_error=flag if isinstance(flag, bool) else None,
                thought=join_text(step.get("message") or []),
                tokens_in=whole(metrics.get("prompt_tokens")) if position == 0 else 0 if metrics else None,
                tokens_out=whole(metrics.get("completion_tokens"))
                if position == 0
                else 0
                if metrics
                else None,
                timestamp=seconds(step.get("timestamp")),
            )
            add_call(self.builder, name, arguments, seen)
        if depth < _DEEPEST:
            for answer in answers:
                self._subagents(answer, embedded, depth)

    def _calls(self, step: dict[str, Json], where: str) -> list[tuple[str, Json, Json]]:
        if step.get("source") != "agent":
            return []
        items = step.get("tool_calls")
        if items:
            found = []
            for position, item in enumerate(as_list(self.source, items, f"{where}.tool_calls")):
                call = as_object(self.source, item, f"{where}.tool_calls[{position}]")
                name = call.get("function_name", call.get("name"))
                if not isinstance(name, str) or not name:
                    raise refuse(
                        self.source,
                        f"{where}.tool_calls[{position}].function_name",
                        "expected the tool's name",
                    )
                found.append((name, call.get("arguments"), call.get("tool_call_id", call.get("id"))))
            return found
        return [(name, arguments, None) for name, arguments in calls_in(join_text(step.get("message") or []))]

    def _subagents(self, answer: dict[str, Json], embedded: dict[Json, Json], depth: int) -> None:
        references = answer.get("subagent_trajectory_ref")
        for reference in references if isinstance(references, list) else [references]:
            part = inner(reference)
            if part.get("trajectory_id") in embedded:
                document, steps = embedded[part["trajectory_id"]]
                self.document(document, steps, depth + 1)
            elif isinstance(part.get("trajectory_path"), str):
                self.file(part["trajectory_path"], depth + 1, "sub-agent")


_LATE = re.compile(r"Tool result for (\S+)$")


def _late_results(steps: list[dict[str, Json]]) -> dict[str, dict[str, Json]]:
    """Some producers write a result as a system step of its own that names the call in its message."""
    found = {}
    for step in steps:
        message = step.get("message")
        match = _LATE.match(message) if isinstance(message, str) and step.get("source") == "system" else None
        if match:
            observation = inner(step.get("observation"))
            success = inner(observation.get("result")).get("success")
            flag = {} if not isinstance(success, bool) else {"is_error": not success}
            found[match[1]] = {"content": observation.get("content"), "extra": flag}
    return found


def _answer(answers: list[dict[str, Json]], call_id: Json, position: int, calls: int) -> dict[str, Json]:
    """A call's result: by id, else by order, else the one text that all calls of the step share."""
    for answer in answers:
        if call_id is not None and answer.get("source_call_id") == call_id:
            return answer
    anonymous = [answer for answer in answers if answer.get("source_call_id") is None]
    if len(anonymous) == calls and calls > 1:
        return anonymous[position]
    return anonymous[0] if anonymous else {}


def _content(content: Json) -> str:
    """The text of a result; some producers put an object where the format wants a text."""
    if isinstance(content, dict) and not isinstance(content.get("text"), str):
        for name in ("detailedContent", "content", "output", "stdout"):
            if isinstance(content.get(name), str):
                return str(content[name])
        return json.dumps(content, sort_keys=True, default=str)
    return join_text(content) if content is not None else ""


FORMAT = Format(
    name="atif",
    sniff=sniff,
    read=read,
    is_run=_is_document,
    blind_signals=("exit codes where the text does not show them",),
)
