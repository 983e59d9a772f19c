"""The fast ways to a state give what the plain constructor gives."""

from __future__ import annotations

import dataclasses

import pytest

from workers.agentlens.shell import parse
from workers.agentlens.trajectory import Edit, Intent, Lines, Operation, State, make_state, with_label

PLAIN = State(
    index=3,
    tool="t",
    operation=Operation.SHELL,
    path="p",
    lines=Lines(start=1, end=2),
    scope="s",
    content_digest="c",
    command=parse("ls"),
    edits=(Edit(old="a", new="b"),),
    outcome="ok",
    exit_code=0,
    observation="o",
    thought="h",
    tokens_in=4,
    tokens_out=5,
    timestamp=6.0,
)


def test_a_fast_state_is_the_plain_one() -> None:
    values = [getattr(PLAIN, field.name) for field in dataclasses.fields(State)]
    assert make_state(*values[:-2]) == PLAIN


def test_a_labelled_copy_differs_in_the_label_alone() -> None:
    labelled = with_label(PLAIN, Intent.V, 4)
    assert labelled == dataclasses.replace(PLAIN, intent=Intent.V, rule=4)
    assert PLAIN.intent is None


def test_a_state_stays_as_it_is() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        with_label(PLAIN, Intent.V, 4).rule = 5  # type: ignore[misc]
