"""The cage on a Docker engine: one fresh container a run, gone afterwards.

The engine may be anywhere: nothing of this machine is mounted, the workspace travels as an archive into a volume that
the cage sees read-only. A slot is a container *name*, which an engine gives away once; so workers in any number of
processes and containers share one bound, and no two cages that live at the same time have the same uid.
"""

from __future__ import annotations

import dataclasses
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psutil
import structlog

from workers.errors import CageError, InputError
from workers.sandbox.base import WORKSPACE, CageResult, Ending, Limits, Reason, Unprovable, Workspace
from workers.sandbox.confinement import confinement, uid_of
from workers.sandbox.engine import Connect, Engine, as_cage_errors, failures, sentence_of
from workers.sandbox.leftovers import MARGIN_SECONDS, Owner, Swept, labels, remove, sweep, this_process
from workers.sandbox.probe import PROBE, PROBE_LIMITS, faults
from workers.sandbox.recipe import default_image
from workers.sandbox.stream import Demultiplexer
from workers.sandbox.workspace import pack

#: How long a run waits for one of the engine's slots before it is tried again another time.
SLOT_WAIT_SECONDS = 120.0
_SLOT_POLL_SECONDS = 0.1
_SWEEP_EVERY_SECONDS = 5.0
_EXIT_SECONDS = 15
_READ_BYTES = 65_536
_CONFLICT_STATUS = 409
_KILLED_EXIT = 137

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Ready:
    """An engine that answers, and the image there."""

    client: Any
    cores: int
    digest: str


class DockerCage:
    """A `Cage`. Connects when first used; safe to use from several threads, not across a fork."""

    def __init__(
        self,
        connect: Connect,
        *,
        image: str | None = None,
        parallel: int | None = None,
        slot_wait_seconds: float = SLOT_WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`image`: None for the one of this version's recipe. `parallel`: cages at once on the engine, None for as
        many as it has cores. `wall_clock` counts from the epoch.
        """
        self._engine = Engine(connect)
        self.image = image or default_image()
        self._parallel = parallel
        self._slot_wait_seconds = slot_wait_seconds
        self._clock = clock
        self._wall_clock = wall_clock
        self._wait = wait or threading.Event().wait
        self._owner: Owner = this_process()
        self._lock = threading.Lock()
        #: Images in which the canary found a cage.
        self._proved: set[str] = set()

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        if not command or not command[0] or any("\0" in word for word in command):
            raise InputError("a cage needs a command: a program's name, then its arguments, none with a NUL")
        archive = pack(workspace) if workspace else None
        ready = self._admit()
        if isinstance(ready, Unprovable):
            return ready
        return self._run(ready, archive, command, limits)

    def check(self) -> Unprovable | None:
        """None when programs can be run: an engine, the image, and a canary that saw every limit hold.

        Raises: CageError when the engine failed on the way.
        """
        ready = self._admit()
        return ready if isinstance(ready, Unprovable) else None

    def _admit(self) -> _Ready | Unprovable:
        ready = self._ready()
        if isinstance(ready, _Ready):
            with self._lock:
                if ready.digest not in self._proved:
                    refused = self._probe(ready)
                    if refused is None:
                        self._proved.add(ready.digest)
                    else:
                        ready = refused
        if isinstance(ready, Unprovable):
            log.warning("cage.unprovable", reason=ready.reason.value, why=ready.sentence)
        return ready

    def sweep(self) -> Swept:
        """Remove what killed workers left behind. Raises: CageError when the engine does not answer."""
        with as_cage_errors("looking for leftovers"):
            client, _ = self._engine.open()
            return self._sweep(client)

    def close(self) -> None:
        """Give the connections to the engine back."""
        self._engine.close()

    def _sweep(self, client: Any) -> Swept:
        return sweep(client, now=self._wall_clock(), me=self._owner, exists=psutil.pid_exists)

    def _ready(self) -> _Ready | Unprovable:
        from docker.errors import ImageNotFound

        away: tuple[type[Exception], ...] = (CageError, *failures())
        try:
            client, cores = self._engine.open()
            digest = str(client.images.get(self.image).id)
        except ImageNotFound:
            return Unprovable(
                reason=Reason.NO_IMAGE,
                sentence=f"no sandbox: the engine has no image {self.image}; `consensus sandbox build` makes it",
            )
        except away as error:
            return Unprovable(reason=Reason.NO_ENGINE, sentence=f"no sandbox: {sentence_of(error)}")
        return _Ready(client=client, cores=cores, digest=digest)

    def _probe(self, ready: _Ready) -> Unprovable | None:
        """Raises: CageError when the engine failed on the way."""
        with as_cage_errors("looking for leftovers"):
            self._sweep(ready.client)
        seen: list[int] = []
        result = self._run(ready, None, ("python", "-c", PROBE), PROBE_LIMITS, seen.append)
        found = faults(result, uid=uid_of(seen[0]))
        if not found:
            return None
        return Unprovable(
            reason=Reason.NOT_CONFINED,
            sentence=f"no sandbox: a program in {self.image} is not confined: {'; '.join(found)}",
        )

    def _run(
        self,
        ready: _Ready,
        archive: bytes | None,
        command: Sequence[str],
        limits: Limits,
        told_slot: Callable[[int], None] = lambda _: None,
    ) -> CageResult:
        # An engine refuses to promise more cores than it has.
        limits = dataclasses.replace(limits, cpus=min(limits.cpus, ready.cores))
        with as_cage_errors("running a program"), self._volume(ready, archive, limits) as volume:
            container, slot = self._claim(ready, command, volume, limits)
            told_slot(slot)
            try:
                result = self._follow(container, ready.digest, limits)
            finally:
                _remove_quietly(container, v=True, force=True)
        log.info(
            "cage.ran",
            ending=result.ending.value,
            exit_code=result.exit_code,
            seconds=round(result.duration_seconds, 3),
            slot=slot,
            stdout_bytes=result.stdout.size_bytes,
            stderr_bytes=result.stderr.size_bytes,
            image=ready.digest,
        )
        return result

    @contextmanager
    def _volume(self, ready: _Ready, archive: bytes | None, limits: Limits) -> Iterator[str | None]:
        """A volume with the workspace in it; its name. The container that receives the archive is never started."""
        if archive is None:
            yield None
            return
        from docker.types import Mount

        found = self._labels(limits, wait_seconds=self._slot_wait_seconds)
        volume = ready.client.volumes.create(name=f"consensus-cage-{secrets.token_hex(8)}", labels=found)
        try:
            porter = ready.client.containers.create(
                ready.digest,
                command=["never-started"],
                name=f"{volume.name}-porter",
                labels=found,
                network_disabled=True,
                mounts=[Mount(WORKSPACE, volume.name, type="volume")],
            )
            try:
                porter.put_archive(WORKSPACE, archive)
            finally:
                _remove_quietly(porter, force=True)
            yield str(volume.name)
        finally:
            _remove_quietly(volume)

    def _labels(self, limits: Limits, *, wait_seconds: float = 0.0) -> dict[str, str]:
        lifetime_seconds = wait_seconds + limits.timeout_seconds + MARGIN_SECONDS
        return labels(self._owner, deadline=self._wall_clock() + lifetime_seconds)

    def _claim(
        self, ready: _Ready, command: Sequence[str], volume: str | None, limits: Limits
    ) -> tuple[Any, int]:
        """(container not yet started, its slot). Raises: CageError when every slot stays busy."""
        slots = self._parallel or ready.cores
        began = self._clock()
        swept_at = began - _SWEEP_EVERY_SECONDS
        while True:
            for slot in range(slots):
                container = self._create(ready, command, slot, volume, limits)
                if container is not None:
                    return container, slot
            now = self._clock()
            if now - began >= self._slot_wait_seconds:
                raise CageError(f"all {slots} cages of the engine were busy for {now - began:.0f} s")
            if now - swept_at >= _SWEEP_EVERY_SECONDS:
                self._sweep(ready.client)
                swept_at = now
            self._wait(_SLOT_POLL_SECONDS)

    def _create(
        self, ready: _Ready, command: Sequence[str], slot: int, volume: str | None, limits: Limits
    ) -> Any | None:
        """The container, or None when the slot's name is taken."""
        from docker.errors import APIError

        try:
            return ready.client.containers.create(
                name=f"consensus-cage-slot-{slot}",
                **confinement(
                    image=ready.digest,
                    command=command,
                    slot=slot,
                    volume=volume,
                    limits=limits,
                    labels=self._labels(limits),
                ),
            )
        except APIError as error:
            if error.status_code == _CONFLICT_STATUS:
                return None
            raise

    def _follow(self, container: Any, digest: str, limits: Limits) -> CageResult:
        """Start, read until it ends or must end, and ask how it ended."""
        # Attached before the start: nothing is missed, and there is no log to read later.
        handle = container.attach_socket(params={"stdout": 1, "stderr": 1, "stream": 1, "logs": 0})
        stream: socket.socket = getattr(handle, "_sock", handle)
        output = Demultiplexer(keep_bytes=limits.tail_bytes, most_bytes=limits.output_bytes)
        try:
            container.start()
            started = self._clock()
            ending = self._read(stream, output, started + limits.timeout_seconds)
            seconds = self._clock() - started
            if ending is not Ending.EXITED:
                # The engine cannot kill or remove a container while a reader of its output has stopped reading.
                stream.shutdown(socket.SHUT_RDWR)
                _kill(container)
            exit_code = int(container.wait(timeout=_EXIT_SECONDS)["StatusCode"])
        finally:
            stream.close()
            handle.close()
        container.reload()
        oom_killed = bool(container.attrs["State"]["OOMKilled"])
        if ending is Ending.EXITED and exit_code == _KILLED_EXIT:
            if oom_killed:
                ending = Ending.OUT_OF_MEMORY
            elif seconds >= limits.timeout_seconds:  # process 1 was faster than we were
                ending = Ending.TIMED_OUT
        return CageResult(
            ending=ending,
            exit_code=exit_code,
            oom_killed=oom_killed,
            duration_seconds=seconds,
            stdout=output.stdout.output(),
            stderr=output.stderr.output(),
            image_digest=digest,
            limits=limits,
        )

    def _read(self, stream: socket.socket, output: Demultiplexer, deadline: float) -> Ending:
        while (left := deadline - self._clock()) > 0:
            stream.settimeout(left)
            try:
                data = stream.recv(_READ_BYTES)
            except TimeoutError:
                break
            if not data:
                return Ending.EXITED
            if not output.feed(data):
                return Ending.OUTPUT_LIMIT
        return Ending.TIMED_OUT


def _kill(container: Any) -> None:
    from docker.errors import APIError

    try:
        container.kill()
    except APIError as error:
        # It ended by itself in this very moment.
        if error.status_code not in {404, _CONFLICT_STATUS}:
            raise


def _remove_quietly(thing: Any, **options: bool) -> None:
    """The result is more than its container: what cannot be removed now is left to the sweep."""
    try:
        remove(thing, **options)
    except failures() as error:
        log.warning("cage.left_behind", name=thing.name, why=sentence_of(error))
