"""What a claim about providers is made in: one mode, one client, one server.

Sleeps are recorded, not slept. The clock stands at 1_999_999_993: seven seconds before
2033-05-18T03:33:20Z, which is 2_000_000_000."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.contract.providers.dialects import Mode
from tests.contract.providers.fault_server import Act, FaultServer, Script
from workers.core.reply import Completion, CompletionRequest, Message
from workers.governor.base import Headroom
from workers.providers.attempts import AttemptCounter
from workers.providers.base import ProviderError
from workers.providers.compat import Compat
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig
from workers.providers.wire_provider import WireProvider

NOW = 1_999_999_993.0
KEY = "sk-secret-0123456789"
RETRIES = 2  # N: every link may send N+1 = 3 requests


@dataclasses.dataclass
class World:
    """One mode, one client whose sleeps are only written down, one server. It is the providers' observer, too."""

    server: FaultServer
    mode: Mode
    http: HttpClient
    sleeps: list[float]
    blocks: list[float] = dataclasses.field(default_factory=list)
    overloads: list[str] = dataclasses.field(default_factory=list)
    headrooms: list[Headroom] = dataclasses.field(default_factory=list)

    def provider(self, script: Script, **overrides: Any) -> WireProvider:
        config = ProviderConfig(
            name="tested", wire=self.mode.dialect.wire, base_url=script.base_url, compat=Compat(), api_key=KEY
        )
        return WireProvider(dataclasses.replace(config, **overrides), self.http, observer=self)

    def request(self, **overrides: Any) -> CompletionRequest:
        request = CompletionRequest(
            model="asked-1",
            messages=(Message(role="system", content="be brief"), Message(role="user", content="why?")),
            max_tokens=100,
            temperature=0.5,
            timeout_seconds=30.0,
            stream=self.mode.is_stream,
        )
        return dataclasses.replace(request, **overrides)

    async def ask(self, *acts: Act, limit: int = RETRIES + 1, **overrides: Any) -> tuple[Completion, Script]:
        script = self.server.script(*acts)
        return await self.provider(script).complete(self.request(**overrides), AttemptCounter(limit)), script

    async def fail(self, *acts: Act, limit: int = 1, **overrides: Any) -> tuple[ProviderError, Script]:
        script = self.server.script(*acts)
        with pytest.raises(ProviderError) as caught:
            await self.provider(script).complete(self.request(**overrides), AttemptCounter(limit))
        return caught.value, script

    async def rate_limited(self, model: str, seconds: float) -> None:
        assert model == "asked-1"
        self.blocks.append(seconds)

    async def overloaded(self, model: str) -> None:
        self.overloads.append(model)

    async def headroom(self, model: str, headroom: Headroom) -> None:
        assert model == "asked-1"
        self.headrooms.append(headroom)


@asynccontextmanager
async def open_world(server: FaultServer, mode: Mode) -> AsyncIterator[World]:
    sleeps: list[float] = []

    async def sleep(seconds: float) -> None:
        sleeps.append(seconds)

    async with HttpClient(sleep=sleep, jitter=lambda: 0.0, clock=lambda: NOW, idle_seconds=2.0) as http:
        yield World(server, mode, http, sleeps)
