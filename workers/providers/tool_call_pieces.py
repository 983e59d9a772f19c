"""Tool calls as they come in pieces (reference/panel.md §5.1): the id and the name once, the arguments as a
string to be joined. Nothing is parsed before the end."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from workers.core.reply import ToolCall


@dataclasses.dataclass(slots=True)
class ToolCallPieces:
    """The calls so far, by the slot that the provider gave each."""

    _arguments: list[list[str]] = dataclasses.field(default_factory=list)
    #: Id, name and whatever else came with the first piece of each.
    _heads: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    _slot_by_key: dict[tuple[str, object], int] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._arguments)

    def add(self, call: dict[str, Any]) -> None:
        """One entry of `tool_calls`, of a whole message or of a delta. Pieces of one call share an `index`; where a
        gateway leaves it out they share an `id`, and a piece with neither belongs to the latest call."""
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        slot = self._slot(call)
        arguments = function.get("arguments")
        if isinstance(arguments, str):
            self._arguments[slot].append(arguments)
        head = {"id": call.get("id"), "name": function.get("name"), "extra": call.get("extra_content")}
        for key, value in head.items():
            if value and key not in self._heads[slot]:
                self._heads[slot][key] = value

    def _slot(self, call: dict[str, Any]) -> int:
        key = next(
            ((name, call[name]) for name in ("index", "id") if isinstance(call.get(name), (int, str))), None
        )
        if key is not None and key in self._slot_by_key:
            return self._slot_by_key[key]
        if key is not None or not self._arguments:
            self._arguments.append([])
            self._heads.append({})
        slot = len(self._arguments) - 1
        if key is not None:
            self._slot_by_key[key] = slot
        return slot

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls in their order. One that came without an id gets one, so that it can be answered."""
        return tuple(
            ToolCall(
                call_id=str(head.get("id") or f"call_{slot}"),
                name=str(head.get("name") or ""),
                arguments="".join(self._arguments[slot]),
                # Sent back untouched, or a model that signs its thoughts refuses to go on (Gemini).
                extra={"extra_content": head["extra"]} if head.get("extra") else {},
            )
            for slot, head in enumerate(self._heads)
        )

    @property
    def characters(self) -> int:
        return sum(len(piece) for pieces in self._arguments for piece in pieces)

    @property
    def has_torn_arguments(self) -> bool:
        """Some call's arguments are not the JSON they should be. None at all is a call without arguments."""
        return any(not _is_json("".join(pieces)) for pieces in self._arguments)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return False
    return True
