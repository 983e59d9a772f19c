"""How a client speaks and hears each of the simulator's wire formats, written by hand for its tests."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import httpx

from tests.unit.simulator.rehearsal import ask, example_specs, material, system_prompt

MODEL = "sim-alder-large"
SYSTEM = system_prompt("coder")
USER = material(example_specs()["roman"])
WHOLE_ANSWER = ask("coder", USER, model=MODEL)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Heard:
    """A reply as a client of either format understands it."""

    text: str
    finish: str
    input_tokens: int
    output_tokens: int


class Client(Protocol):
    """How the tests speak one wire format."""

    name: str
    path: str
    stop: str
    cut: str

    def body(self, *, stream: bool, max_tokens: int = 4096, **fields: Any) -> dict[str, Any]: ...

    def hear(self, document: Mapping[str, Any]) -> Heard: ...

    def hear_stream(self, documents: Sequence[Mapping[str, Any]]) -> Heard: ...

    def fault(self, document: Mapping[str, Any]) -> tuple[str, str]:
        """The word for what was wrong, and the sentence."""
        ...


class OpenAi:
    name = "openai"
    path = "/v1/chat/completions"
    stop, cut = "stop", "length"

    def body(self, *, stream: bool, max_tokens: int = 4096, **fields: Any) -> dict[str, Any]:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": USER}]
        body: dict[str, Any] = {"model": MODEL, "messages": messages, "max_tokens": max_tokens}
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body | fields

    def hear(self, document: Mapping[str, Any]) -> Heard:
        (choice,) = document["choices"]
        usage = document["usage"]
        assert document["object"] == "chat.completion"
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        return Heard(
            text=choice["message"]["content"],
            finish=choice["finish_reason"],
            input_tokens=usage["prompt_tokens"],
            output_tokens=usage["completion_tokens"],
        )

    def hear_stream(self, documents: Sequence[Mapping[str, Any]]) -> Heard:
        *chunks, last = documents
        assert {chunk["object"] for chunk in documents} == {"chat.completion.chunk"}
        assert len({(chunk["id"], chunk["created"]) for chunk in documents}) == 1
        assert last["choices"] == []
        assert all(chunk["usage"] is None for chunk in chunks)
        choices = [choice for chunk in chunks for choice in chunk["choices"]]
        assert choices[0]["delta"]["role"] == "assistant"
        (finish,) = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
        return Heard(
            text="".join(choice["delta"].get("content", "") for choice in choices),
            finish=finish,
            input_tokens=last["usage"]["prompt_tokens"],
            output_tokens=last["usage"]["completion_tokens"],
        )

    def fault(self, document: Mapping[str, Any]) -> tuple[str, str]:
        error = document["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error["code"] or error["type"], error["message"]


class Anthropic:
    name = "anthropic"
    path = "/v1/messages"
    stop, cut = "end_turn", "max_tokens"

    def body(self, *, stream: bool, max_tokens: int = 4096, **fields: Any) -> dict[str, Any]:
        body = {
            "model": MODEL,
            "system": SYSTEM,
            "messages": [{"role": "user", "content": USER}],
            "max_tokens": max_tokens,
        }
        return body | ({"stream": True} if stream else {}) | fields

    def hear(self, document: Mapping[str, Any]) -> Heard:
        assert (document["type"], document["role"]) == ("message", "assistant")
        assert [block["type"] for block in document["content"]] == ["text"]
        return Heard(
            text="".join(block["text"] for block in document["content"]),
            finish=document["stop_reason"],
            input_tokens=document["usage"]["input_tokens"],
            output_tokens=document["usage"]["output_tokens"],
        )

    def hear_stream(self, documents: Sequence[Mapping[str, Any]]) -> Heard:
        kinds = [document["type"] for document in documents]
        deltas = [document for document in documents if document["type"] == "content_block_delta"]
        assert kinds[:3] == ["message_start", "content_block_start", "ping"]
        assert kinds[3:-3] == ["content_block_delta"] * len(deltas)
        assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
        start, end = documents[0]["message"], documents[-2]
        assert (start["content"], start["stop_reason"], start["usage"]["output_tokens"]) == ([], None, 1)
        return Heard(
            text="".join(document["delta"]["text"] for document in deltas),
            finish=end["delta"]["stop_reason"],
            input_tokens=start["usage"]["input_tokens"],
            output_tokens=end["usage"]["output_tokens"],
        )

    def fault(self, document: Mapping[str, Any]) -> tuple[str, str]:
        assert document["type"] == "error"
        return document["error"]["type"], document["error"]["message"]


CLIENTS: tuple[Client, ...] = (OpenAi(), Anthropic())


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """The JSON of each event; an `event:` line must repeat the type inside."""
    assert response.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in response.text.removesuffix("\n\n").split("\n\n"):
        name, data = None, ""
        for line in block.split("\n"):
            field, _, value = line.partition(": ")
            name, data = (value, data) if field == "event" else (name, value)
        if data != "[DONE]":
            found.append(json.loads(data))
            assert name is None or name == found[-1]["type"]
    return found
