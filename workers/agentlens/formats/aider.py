"""aider: the chat transcript (Markdown), alone or beside the result record of its benchmark runs.

aider is not a tool loop: its steps are the files it took into the chat, the edits it applied, and the
lint and
test runs it made itself. The record's own verdicts about edits, lint and tests are not read."""

from __future__ import annotations

import re
from collections.abc import Iterator

from workers.agentlens.formats import results
from workers.agentlens.formats.base import Format, Source, inner, number, refuse
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Trajectory

_START = "# aider chat started at"
_BLOCK = re.compile(
    r"^(?P<path>[^\s`][^\n`]*?)\n```[\w+-]*\n<{5,9} SEARCH\n(?P<old>.*?)^={5,9}\n(?P<new>.*?)^>{5,9} REPLACE",
    re.DOTALL | re.MULTILINE,
)
_NOTE = re.compile(r"^> ?(.*?) *$", re.MULTILINE)
_ADDED = re.compile(r"(?:Add|Added) (\S+) to the chat\.?$")
_APPLIED = re.compile(r"Applied edit to (\S+)$")
_ASKED = "Add these files to the chat? yes"
_CHECKS = {"test": "pytest", "lint": "flake8"}
_TESTED = re.compile(r"Attempt to fix (test|lint) errors\?")


def sniff(source: Source) -> bool:
    """A transcript, or a result record with edited files."""
    if source.text.lstrip().startswith(_START):
        return True
    document = inner(source.document)
    return "edited_files" in document and "model_patch" in document


def read(source: Source) -> Iterator[Trajectory]:
    """The file's one run."""
    record = inner(source.document)
    transcript = source.text
    if record:
        name = source.stem + ".md"
        data = source.beside(name)
        if data is None:
            raise refuse(source, "file", f"its chat transcript {name} is not beside it")
        transcript = data.decode("utf-8", "replace")
    builder = StateBuilder()
    _walk(builder, transcript)
    problem, model = record.get("instance_id"), record.get("model")
    problem = problem if isinstance(problem, str) else None
    outcome = results.verdict(record.get("resolved"))
    yield Trajectory(
        trajectory_id=source.stem,
        path=source.path,
        format=FORMAT.name,
        problem=problem,
        model=model if isinstance(model, str) else None,
        outcome=outcome if outcome != "unknown" else results.beside(source, problem),
        states=tuple(builder.states),
        cost_usd=number(record.get("cost")),
        blind_signals=FORMAT.blind_signals,
        warnings=builder.warnings,
    )


def _walk(builder: StateBuilder, transcript: str) -> None:
    """The transcript from top to bottom: what the model wrote collects until aider's notes say what
    was done."""
    written: list[str] = []
    said: list[str] = []
    pending: dict[str, list[tuple[str, str]]] = {}
    for line in transcript.split("\n"):
        if not line.startswith(">") or line.startswith((">>>>", ">=")):
            said = []
            written.append(line)
            continue
        note = line[1:].strip()
        if written:
            for match in _BLOCK.finditer("\n".join(written)):
                pending.setdefault(match["path"].strip(), []).append((match["old"], match["new"]))
            written = []
        applied, added = _APPLIED.match(note), _ADDED.match(note)
        if applied:
            pairs = pending.pop(applied[1], [("", "")])
            builder.replace("edit", applied[1], pairs, Seen(text=note))
        elif added:
            builder.view("add", added[1], Seen(text=note))
        elif note == _ASKED and said:
            builder.view("add", said.pop(), Seen(text=note))
        elif checked := _TESTED.match(note):
            # A lint or test run that aider made: the block of notes before shows its output.
            seen = Seen(text="\n".join(said).strip(), is_error=True)
            builder.shell(checked[1], _CHECKS[checked[1]], seen)
            said = []
        else:
            said.append(note)


FORMAT = Format(
    name="aider",
    sniff=sniff,
    read=read,
    blind_signals=(
        "exit codes",
        "reads of files",
        "checks that passed",
        "line ranges",
        "time stamps",
        "tokens of a step",
    ),
)
