"""What a killed worker leaves in the engine, and who may take it away.

Everything we make carries three labels. A leftover is what is past its deadline, or whose owner lived in this very
process table and is gone. A name or the bare label is never enough: other workers' cages look the same.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import structlog

LABEL = "consensus.cage"
OWNER = f"{LABEL}.owner"
DEADLINE = f"{LABEL}.deadline"

#: Beyond the run itself: slow engines, and clocks of several machines that differ.
MARGIN_SECONDS = 120.0

_GONE_STATUS, _CONFLICT_STATUS = 404, 409

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process, and the process table that its number belongs to (empty where that cannot be told)."""

    process_table: str
    pid: int

    def __str__(self) -> str:
        return f"{self.process_table}/{self.pid}"

    def is_gone(self, label: str, exists: Callable[[int], bool]) -> bool:
        """Whether the owner named by a label is known to be dead; False when it lives elsewhere."""
        process_table, _, pid = label.rpartition("/")
        if not self.process_table or process_table != self.process_table or not pid.isdecimal():
            return False
        return not exists(int(pid))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How many leftovers were removed."""

    containers: int
    volumes: int


def this_process() -> Owner:
    """This process. Two containers never share a process table, two boots neither."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        table = f"{boot}:{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        table = ""
    return Owner(process_table=table, pid=os.getpid())


def labels(owner: Owner, *, deadline: float) -> dict[str, str]:
    """`deadline` in seconds since the epoch."""
    return {LABEL: "1", OWNER: str(owner), DEADLINE: f"{deadline:.0f}"}


def is_leftover(found: Mapping[str, str], *, now: float, me: Owner, exists: Callable[[int], bool]) -> bool:
    """Whether what carries these labels may be removed at `now` (seconds since the epoch)."""
    if LABEL not in found:
        return False
    deadline = found.get(DEADLINE, "")
    overdue = deadline.isdecimal() and int(deadline) < now
    return overdue or me.is_gone(found.get(OWNER, ""), exists)


def sweep(client: Any, *, now: float, me: Owner, exists: Callable[[int], bool]) -> Swept:
    """Remove the leftovers of an engine, volumes after the containers that hold them.

    Raises: what the engine's client raises, when the engine does not answer.
    """
    filters = {"label": LABEL}
    containers = [
        container
        for container in client.containers.list(all=True, filters=filters, ignore_removed=True)
        if is_leftover(container.labels or {}, now=now, me=me, exists=exists)
    ]
    removed_containers = sum(remove(container, v=True, force=True) for container in containers)
    volumes = [
        volume
        for volume in client.volumes.list(filters=filters)
        if is_leftover(volume.attrs.get("Labels") or {}, now=now, me=me, exists=exists)
    ]
    swept = Swept(containers=removed_containers, volumes=sum(remove(volume) for volume in volumes))
    if swept.containers or swept.volumes:
        log.warning("cage.swept", containers=swept.containers, volumes=swept.volumes)
    return swept


def remove(thing: Any, **options: bool) -> bool:
    """Remove a container or volume. False when somebody else did, or still uses it: a later sweep sees it again."""
    from docker.errors import APIError

    try:
        thing.remove(**options)
    except APIError as error:
        if error.status_code in {_GONE_STATUS, _CONFLICT_STATUS}:
            return False
        raise
    return True
