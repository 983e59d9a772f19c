from __future__ import annotations

from typing import Any

import pytest

from workers.providers.tool_call_pieces import ToolCallPieces


def pieces(*calls: dict[str, Any]) -> ToolCallPieces:
    got = ToolCallPieces()
    for call in calls:
        got.add(call)
    return got


def piece(arguments: Any, **keys: Any) -> dict[str, Any]:
    return {"function": {"arguments": arguments}, **keys}


@pytest.mark.parametrize(
    "calls",
    [
        # Two calls, interleaved: by index; by id, where the index is missing; the id only in the first piece.
        [piece('{"a":', index=0), piece("[", index=1), piece("1}", index=0), piece("]", index=1)],
        [piece('{"a":', id="x"), piece("[", id="y"), piece("1}", id="x"), piece("]", id="y")],
        [piece('{"a":', id="x"), piece("1}"), piece("[", id="y"), piece("]")],
        # A gateway that gives every piece an id of its own, and the index that counts.
        [piece('{"a":', index=0, id="p"), piece("1}", index=0, id="q"), piece("[]", index=1, id="p")],
    ],
)
def test_pieces_of_one_call_find_each_other(calls: list[dict[str, Any]]) -> None:
    got = pieces(*calls)
    assert not got.has_torn_arguments
    assert got.characters == len('{"a":1}[]')


def test_new_ids_without_an_index_are_new_calls() -> None:
    assert pieces(piece("{}", id="x"), piece("{", id="y")).has_torn_arguments
    assert not pieces(piece("{}", id="x"), piece("{}", id="y")).has_torn_arguments


def test_a_call_without_arguments_is_whole_and_odd_ones_are_no_text() -> None:
    assert not pieces(piece(None, id="x"), {"function": 7}, {}).has_torn_arguments
    assert pieces({})
    assert not ToolCallPieces()
