"""A model provider that does as it is told: each model answers well, fails, hangs or babbles, and counts."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

CANDIDATE = {"a.py": "def add(a, b):\n    return a + b\n"}

#: What a role answers when nothing else is asked of its model.
GOOD: dict[str, dict[str, Any]] = {
    "coder": {"files": CANDIDATE, "tests": {}, "notes": "plain"},
    "reviewer": {"findings": [], "summary": "nothing wrong"},
    "consensus": {"merges": [], "summary": "nothing to merge"},
    "refuter": {"verdict": "cannot_tell", "ground": None, "reason": "no idea", "evidence": []},
    "prover": {
        "test": "from a import add\n\ndef test_adds():\n    assert add(1, 2) == 3\n",
        "spec_quote": "Add two numbers.",
        "reason": "the sum",
    },
    "control": {"files": {"a.py": "def add(a, b):\n    return b + a\n"}, "reason": "mended"},
    "lead": {"files": CANDIDATE, "rulings": [], "summary": "signed as it is"},
}

#: (role, request body, how many requests this model had before) → the reply's text, or a whole response.
Behaviour = Callable[[str, dict[str, Any], int], "str | Response"]


def good(role: str, _: dict[str, Any], __: int) -> str:
    return json.dumps(GOOD[role])


def garbage(_: str, __: dict[str, Any], ___: int) -> str:
    return "I would rather not answer in JSON today."


def error_500(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "boom", "type": "server_error"}}, status_code=500)


def error_429(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "slow down"}}, status_code=429, headers={"retry-after-ms": "1"})


@dataclasses.dataclass
class ModelServer:
    """`behave[model]` decides what a model does; `HANG` never answers until the caller goes away.

    Every answer takes `answer_seconds`, and waits besides while `holding`; `most_running` is the most that were being
    written at once."""

    url: str
    behave: dict[str, Behaviour | str] = dataclasses.field(default_factory=dict)
    requests: Counter[str] = dataclasses.field(default_factory=Counter)
    bodies: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    marks_simulated: bool = False
    answer_seconds: float = 0.0
    holding: bool = False
    running: int = 0
    most_running: int = 0
    gone: threading.Event = dataclasses.field(default_factory=threading.Event)
    hanging: threading.Event = dataclasses.field(default_factory=threading.Event)

    def reset(self) -> None:
        self.behave.clear()
        self.requests.clear()
        self.bodies.clear()
        self.marks_simulated = False
        self.answer_seconds = 0.0
        self.holding = False
        self.most_running = 0
        self.gone.clear()
        self.hanging.clear()

    async def answer(self, request: Request) -> Response:
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        try:
            return await self._answer(request)
        finally:
            self.running -= 1

    async def _answer(self, request: Request) -> Response:
        body = await request.json()
        model = body["model"]
        before = self.requests[model]
        self.requests[model] += 1
        self.bodies.append(body)
        role = body["messages"][0]["content"].splitlines()[0].removeprefix("# Role: ")
        behaviour = self.behave.get(model, good)
        if behaviour == HANG:
            return await self._hang(request)
        assert callable(behaviour)
        await asyncio.sleep(self.answer_seconds)
        while self.holding:
            await asyncio.sleep(0.01)
        reply = behaviour(role, body, before)
        return reply if isinstance(reply, Response) else self.reply(model, reply)

    def reply(self, model: str, text: str, *, finish: str = "stop") -> Response:
        """A chat completion that bills 10 tokens in and 5 out."""
        marker = {"simulated": True} if self.marks_simulated else {}
        return JSONResponse(
            {
                "model": model,
                "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5},
                **marker,
            }
        )

    async def _hang(self, request: Request) -> Response:
        self.hanging.set()
        while not await request.is_disconnected():
            await asyncio.sleep(0.02)
        self.gone.set()
        return Response(status_code=499)


HANG = "hang"


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve on a free port of 127.0.0.1 in a thread."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = ModelServer(url=f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
    app = Starlette(routes=[Route("/v1/chat/completions", server.answer, methods=["POST"])])
    running = uvicorn.Server(
        uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    )
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        running.should_exit = True
        thread.join(timeout=5)
        listening.close()
