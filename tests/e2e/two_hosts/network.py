"""Two hosts and the switch between them, as network namespaces of this machine. Needs root."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Self

NETWORK = "10.231.77.0/24"
_IP = shutil.which("ip") or "/usr/sbin/ip"
HOME, AWAY = "10.231.77.1", "10.231.77.2"


class ForbiddenError(Exception):
    """This machine does not let us make network namespaces; the message says why."""


class Network:
    """`home` and `away` reach each other through a switch, and nothing else. Each has a loopback of its own."""

    def __init__(self) -> None:
        mark = f"consensus-{os.getpid()}"
        self.home, self.away, self._switch = f"{mark}-home", f"{mark}-away", f"{mark}-switch"

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _build(self) -> None:
        for name in (self._switch, self.home, self.away):
            _ip("netns", "add", name)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for name, port, address in ((self.home, "home", HOME), (self.away, "away", AWAY)):
            _ip(
                "-n", self._switch, "link", "add", port, "type", "veth", "peer", "name", "line", "netns", name
            )
            _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "line")
            _ip("-n", name, "link", "set", "line", "up")

    def _remove(self) -> None:
        for name in (self.home, self.away, self._switch):
            subprocess.run([_IP, "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)


def at(host: str) -> tuple[str, ...]:
    """What starts a program on a host of the network."""
    return ("nsenter", f"--net=/run/netns/{host}")


def cut(switch: str) -> None:
    """The switch forwards nothing any more. Nobody is told: packets are lost, as with a pulled uplink."""
    _ip("-n", switch, "link", "set", "away", "nomaster")


def heal(switch: str) -> None:
    _ip("-n", switch, "link", "set", "away", "master", "bridge")


def switch_of(host: str) -> str:
    return f"{host.rpartition('-')[0]}-switch"


def _ip(*arguments: str) -> None:
    """Raises: ForbiddenError."""
    try:
        done = subprocess.run([_IP, *arguments], capture_output=True, text=True, check=False)
    except OSError as error:
        raise ForbiddenError(f"the command ip cannot be run: {error}") from None
    if done.returncode != 0:
        raise ForbiddenError(f"ip {' '.join(arguments)}: {done.stderr.strip() or done.returncode}")
