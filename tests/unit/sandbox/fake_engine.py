"""An engine in memory that speaks as the `docker` package does, and fails where a real one cannot be made to."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

import requests
from docker.errors import APIError, ImageNotFound, NotFound

from workers.sandbox.probe import PROBE

IMAGE = "cage:test"
DIGEST = "sha256:" + "0" * 64


def refusal(status: int, sentence: str) -> APIError:
    response = requests.Response()
    response.status_code = status
    return APIError(sentence, response=response, explanation=sentence)


class FakeContainer:
    """`exit_code` None: runs until it is killed."""

    def __init__(self, engine: FakeEngine, name: str, arguments: dict[str, Any]) -> None:
        self.engine, self.name, self.arguments = engine, name, arguments
        self.labels = arguments["labels"]
        self.attrs = {"State": {"OOMKilled": engine.oom_killed}}
        self._ours, self._theirs = socket.socketpair()
        self._exit_code = 137

    @property
    def is_canary(self) -> bool:
        return PROBE in self.arguments["command"]

    def attach_socket(self, params: dict[str, int]) -> socket.socket:
        assert (params["stream"], params["logs"]) == (1, 0)
        self.engine.did("attach", self)
        return self._theirs

    def start(self) -> None:
        self.engine.did("start", self)
        if self.is_canary:
            self.engine.canaries += 1
            self._say(json.dumps(self._canary()).encode())
            self._end(0)
            return
        self._say(self.engine.says)
        self.engine.on_start()
        if self.engine.exit_code is not None:
            self._end(self.engine.exit_code)

    def _say(self, text: bytes) -> None:
        self._ours.sendall(struct.pack(">BxxxI", 1, len(text)) + text)

    def _end(self, exit_code: int) -> None:
        self._exit_code = exit_code
        self._ours.close()

    def _canary(self) -> dict[str, Any]:
        told = self.arguments
        return {
            "uid": int(told["user"].split(":")[0]),
            "capabilities": ["0"],
            "no_new_privileges": "1",
            "seccomp": "2",
            "filters": self.engine.filters,
            "interfaces": ["lo"],
            "root": ["ro"],
            "scratch": ["noexec", "nosuid", "nodev"],
            "scratch_bytes": 1,
            "writable": [],
            "processes": str(told["pids_limit"]),
            "memory_bytes": str(told["mem_limit"]),
        }

    def kill(self) -> None:
        # A real engine hangs here while somebody is attached who does not read.
        self._ours.settimeout(1)
        assert self._ours.recv(1) == b"", "killed before the stream was let go"
        self.engine.did("kill", self)

    def wait(self, timeout: float) -> dict[str, int]:
        self.engine.did("wait", self)
        return {"StatusCode": self._exit_code}

    def reload(self) -> None:
        self.engine.did("reload", self)

    def put_archive(self, path: str, data: bytes) -> None:
        self.engine.did("put_archive", self)
        self.engine.received[path] = data

    def remove(self, *, force: bool = False, v: bool = False) -> None:
        self.engine.did("remove", self)
        if self.engine.living.pop(self.name, None) is None:
            raise NotFound("no such container", response=refusal(404, "").response)
        self._ours.close()
        self._theirs.close()


class FakeVolume:
    def __init__(self, engine: FakeEngine, name: str, labels: dict[str, str]) -> None:
        self.engine, self.name, self.attrs = engine, name, {"Labels": labels}

    def remove(self) -> None:
        del self.engine.stored[self.name]


class FakeEngine:
    """The client. `fail` maps a call's name to what it raises, once for each in the list."""

    def __init__(self, *, cores: int = 2) -> None:
        self.cores = cores
        self.canaries = 0
        self.calls: list[tuple[str, str]] = []
        self.living: dict[str, FakeContainer] = {}
        self.stored: dict[str, FakeVolume] = {}
        self.received: dict[str, bytes] = {}
        self.fail: dict[str, list[Exception]] = {}
        self.says, self.exit_code, self.oom_killed, self.filters = b"hello\n", 0, False, "2"
        self.on_start: Callable[[], None] = lambda: None
        self.containers = self.images = self.volumes = self

    exit_code: int | None

    def connect(self) -> FakeEngine:
        self.did("connect")
        return self

    def did(self, call: str, container: FakeContainer | None = None) -> None:
        if container is None or not container.is_canary:
            self.calls.append((call, container.name if container else ""))
            if self.fail.get(call):
                raise self.fail[call].pop(0)

    def names(self) -> list[str]:
        return [call for call, _ in self.calls]

    def info(self) -> dict[str, int]:
        return {"NCPU": self.cores}

    def close(self) -> None:
        self.calls.append(("close", ""))

    def get(self, name: str) -> FakeEngine:
        self.did("image")
        if name != IMAGE:
            raise ImageNotFound("no such image")
        return self

    id = DIGEST

    def create(self, image: str | None = None, *, name: str, **arguments: Any) -> Any:
        if "command" not in arguments:
            self.stored[name] = FakeVolume(self, name, arguments["labels"])
            return self.stored[name]
        if name in self.living:
            raise refusal(409, f"Conflict. The name {name} is already in use")
        container = FakeContainer(self, name, {"image": image, **arguments})
        self.did("create", container)
        self.living[name] = container
        return container

    def list(self, *, filters: dict[str, str], **_: bool) -> list[Any]:
        self.did("list")
        return [*self.living.values()] if _ else [*self.stored.values()]
