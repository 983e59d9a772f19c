"""Tools in the live view of a run: a missing server is a line, a call is a note at its seat."""

from __future__ import annotations

from typing import Any

from workers.cli.client import RunEvent
from workers.cli.view import RunView


def event(kind: str, **payload: Any) -> RunEvent:
    return RunEvent(seq=1, kind=kind, at="", payload={"stage": "panel", "seat": "left", **payload})


def test_a_missing_server_is_told_and_a_call_is_noted() -> None:
    view = RunView(title="t")
    view.apply(event("stage.opened", seats=["left"]))

    line = view.apply(event("tool.missing", server="glossary", cause="did not answer within 20 s"))
    silent = view.apply(event("tool.called", server="glossary", tool="lookup"))

    assert line == "panel left: no tools of glossary (did not answer within 20 s)"
    assert silent is None
    assert [seat.note for seat in view.reviewers()] == ["called glossary.lookup"]
