"""Faults in what a reply says: well-formed answers that are of no use, or say too little about themselves."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

import orjson

from workers.providers.simulator.faults.exchange import Exchange
from workers.providers.simulator.faults.kind import Fault
from workers.providers.simulator.wire import Reply, WireName, token_count

_THOUGHT = "This is a simulated thought; it used up the whole output before the first word of an answer."
_DECLINED = "This is a simulated refusal."
#: How each format says that tools are wanted; where none was offered, it is wrong.
_TOOL_FINISH: Mapping[WireName, str] = {"openai": "tool_calls", "anthropic": "tool_use"}
#: Characters of two, three and four bytes.
WIDE_CHARACTERS = "naïve 日本語 🙂"


def changed(fault: Fault, exchange: Exchange) -> Exchange:
    """What is said instead, under a fault of the group `content`, or one that needs other words to show."""
    if fault.kind == "wrong-finish":
        finish = fault.finish or _TOOL_FINISH[exchange.wire.name]
        return exchange.saying(dataclasses.replace(exchange.reply, finish=finish))
    change = _CHANGES.get(fault.kind)
    return exchange if change is None else exchange.saying(change(exchange.reply))


def _half(reply: Reply) -> Reply:
    text = reply.text[: len(reply.text) // 2]
    return dataclasses.replace(reply, text=text, output_tokens=token_count(len(text)))


def _reasoning_only(reply: Reply) -> Reply:
    tokens = token_count(len(_THOUGHT))
    return dataclasses.replace(reply, text="", reasoning=_THOUGHT, is_cut=True, output_tokens=tokens)


def _refused(reply: Reply) -> Reply:
    tokens = token_count(len(_DECLINED))
    return dataclasses.replace(reply, text=_DECLINED, is_refused=True, output_tokens=tokens)


def _truncated_tool_json(reply: Reply) -> Reply:
    """As vLLM cuts a tool call off and still says that tools are wanted."""
    half = _half(reply)
    return dataclasses.replace(half, text="", tool_arguments=half.text)


def _wide(reply: Reply) -> Reply:
    """The same reply with some characters of several bytes in it, still JSON if it was JSON."""
    try:
        answer = orjson.loads(reply.text)
    except orjson.JSONDecodeError:
        answer = None
    spoken = next((key for key in ("summary", "notes") if isinstance(answer, dict) and key in answer), None)
    if isinstance(answer, dict) and spoken is not None:
        text = orjson.dumps({**answer, spoken: f"{answer[spoken]} ({WIDE_CHARACTERS})"}).decode()
    else:
        text = f"{reply.text} ({WIDE_CHARACTERS})"
    return dataclasses.replace(reply, text=text, output_tokens=token_count(len(text)))


_CHANGES: Mapping[str, Callable[[Reply], Reply]] = {
    "no-choices": lambda reply: dataclasses.replace(reply, lacks=frozenset({"choices"})),
    "length": lambda reply: dataclasses.replace(_half(reply), is_cut=True),
    "empty": lambda reply: dataclasses.replace(reply, text="", is_cut=False, output_tokens=0),
    "reasoning-only": _reasoning_only,
    "invalid-json": lambda reply: dataclasses.replace(_half(reply), is_cut=False),
    "refusal": _refused,
    "truncated-tool-json": _truncated_tool_json,
    "no-usage": lambda reply: dataclasses.replace(reply, lacks=frozenset({"usage"})),
    "split-utf8": _wide,
    "no-end-mark": lambda reply: dataclasses.replace(reply, lacks=frozenset({"end"})),
}
