"""Every kind of fault, as data: what it does, and which runs it hit."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import random
import signal
import time
from collections.abc import Callable, Mapping

import redis
from celery import Celery

from tests.e2e.chaos.load import Load
from tests.e2e.chaos.site import SETTINGS, Site
from tests.e2e.chaos.watch import Held, Watch
from workers.celery_app import configure
from workers.cli.client import Client
from workers.core.run import Stage
from workers.enqueue import send_seat, submit_run
from workers.errors import ConsensusError
from workers.settings import Settings

#: How long a fault waits for the moment it wants to strike at; then it strikes anyway.
_PATIENCE_SECONDS = 3.0
_LEASE_SECONDS = float(SETTINGS["CONSENSUS_LEASE_SECONDS"])


@dataclasses.dataclass(frozen=True, slots=True)
class Scene:
    """All that a fault may touch."""

    site: Site
    watch: Watch
    load: Load
    dice: random.Random


#: Does the fault and says which runs it hit.
Inject = Callable[[Scene], set[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """`resource`: two faults of one resource never strike at once."""

    name: str
    resource: str
    inject: Inject


def _kill_worker_of(scene: Scene, seat: Held | None) -> set[str]:
    worker = scene.site.worker_of(seat.owner if seat else None) or scene.dice.choice(scene.site.workers)
    mark = f":{scene.site.process_id(worker)}:"
    hit = {held.run_id for held in scene.watch.held() if mark in held.owner}
    scene.site.kill(worker)
    return hit | ({seat.run_id} if seat else set())


def _worker_mid_call(scene: Scene) -> set[str]:
    calling = scene.watch.wait_for(scene.watch.calling, _PATIENCE_SECONDS)
    return _kill_worker_of(scene, scene.dice.choice(calling) if calling else None)


def _worker_in_header(scene: Scene) -> set[str]:
    """The broker stands still, so the panel's messages cannot all be out when the worker that sends them dies."""
    since = scene.watch.clock()
    scene.site.broker.freeze()
    try:
        opened = scene.watch.wait_for(
            lambda: since is not None and scene.watch.panel_just_opened(since), _PATIENCE_SECONDS
        )
        return _kill_worker_of(scene, opened or None)
    finally:
        scene.site.broker.thaw()


def _worker_settling(scene: Scene) -> set[str]:
    calling = scene.watch.wait_for(scene.watch.calling, _PATIENCE_SECONDS)
    if not calling:
        return _kill_worker_of(scene, None)
    with scene.watch.settling(scene.dice.choice(calling).run_id, _PATIENCE_SECONDS) as seat:
        return _kill_worker_of(scene, seat)


def _lease_runs_out(scene: Scene) -> set[str]:
    """A worker stands still for longer than its lease, wakes up and goes on with what is no longer its own."""
    calling = scene.watch.wait_for(scene.watch.calling, _PATIENCE_SECONDS)
    worker = scene.site.worker_of(scene.dice.choice(calling).owner) if calling else None
    worker = worker or scene.dice.choice(scene.site.workers)
    mark = f":{scene.site.process_id(worker)}:"
    scene.site.signal(worker, signal.SIGSTOP)
    try:
        hit = {held.run_id for held in scene.watch.held() if mark in held.owner}
        time.sleep(_LEASE_SECONDS)
        scene.watch.wait_for(
            lambda: not any(mark in held.owner for held in scene.watch.held()), _PATIENCE_SECONDS
        )
    finally:
        scene.site.signal(worker, signal.SIGCONT)
    return hit


def _broker_restarted(scene: Scene) -> set[str]:
    scene.site.broker.kill()
    hit = scene.watch.open_runs()
    scene.site.broker.start()
    return hit


def _broker_emptied(scene: Scene) -> set[str]:
    scene.site.broker.kill()
    hit = scene.watch.open_runs()
    scene.site.broker.wipe()
    scene.site.broker.start()
    return hit


def _broker_away(scene: Scene) -> set[str]:
    scene.site.broker.kill()
    hit = scene.watch.open_runs()
    time.sleep(scene.dice.uniform(1.5, 3.5))
    scene.site.broker.start()
    return hit


def _queue_flushed(scene: Scene) -> set[str]:
    """Every message is gone, waiting or fetched; the governor's memory stays."""
    hit = scene.watch.open_runs()
    with scene.site.broker.client() as client:
        for key in client.scan_iter(count=1000):
            if not key.startswith(b"consensus:governor") and not key.startswith(b"_kombu"):
                client.delete(key)
    return hit


def _database_restarted(scene: Scene) -> set[str]:
    hit = scene.watch.open_runs()
    scene.site.postgres.stop("fast")
    scene.site.postgres.start()
    return hit


def _database_killed(scene: Scene) -> set[str]:
    hit = scene.watch.open_runs()
    scene.site.postgres.kill()
    scene.site.postgres.start()
    return hit


def _api_in_submission(scene: Scene) -> set[str]:
    before = set(scene.load.accepted)
    futures = scene.load.burst(6)
    time.sleep(scene.dice.uniform(0.0, 0.08))
    scene.site.kill("api")
    for future in futures:
        future.result(timeout=60)
    return {run_id for number, run_id in list(scene.load.accepted.items()) if number not in before}


def _api_in_batch(scene: Scene) -> set[str]:
    before = set(scene.load.accepted_batches)
    future = scene.load.batch()
    time.sleep(scene.dice.uniform(0.0, 0.15))
    scene.site.kill("api")
    if future is None:
        return set()
    future.result(timeout=60)
    added = [batch for number, batch in list(scene.load.accepted_batches.items()) if number not in before]
    return scene.watch.runs_of(added)


def _run_cancelled(scene: Scene) -> set[str]:
    """No fault, but the other way in which a run ends, at a bad moment."""
    open_runs = sorted(scene.watch.open_runs())
    if not open_runs:
        return set()
    run_id = scene.dice.choice(open_runs)
    with contextlib.suppress(ConsensusError), Client(scene.site.url) as client:
        client.cancel(run_id)
    return {run_id}


def _api_in_stream(scene: Scene) -> set[str]:
    followed = set(scene.load.streams)
    hit = scene.watch.open_runs() & followed
    scene.site.kill("api")
    return hit


def _beat_killed(scene: Scene) -> set[str]:
    hit = scene.watch.open_runs()
    scene.site.kill("beat", down_seconds=scene.dice.uniform(0.0, 3.0))
    return hit


def _delivered_twice(scene: Scene) -> set[str]:
    """Every message that a worker holds once more, and messages for seats in whatever state they are."""
    hit = set()
    with scene.site.broker.client() as client:
        for packed in client.hvals("unacked"):
            message, _, route = json.loads(packed)
            client.lpush(route, json.dumps(message))
    held = scene.watch.held()
    # An application of its own: whatever this process's one is told lasts beyond the play.
    with Celery("chaos", set_as_current=False) as sender:
        configure(Settings(redis_url=scene.site.broker.url), sender)
        for seat in scene.dice.sample(held, min(8, len(held))):
            hit.add(seat.run_id)
            send_seat(sender, seat.run_id, 1, Stage(seat.stage), seat.seat)
            send_seat(sender, seat.run_id, 1, Stage.CODER, "coder")
            submit_run(sender, seat.run_id)
    return hit


def _tolerant(inject: Inject) -> Inject:
    """A broker that another fault has just killed cannot be told anything."""

    def injected(scene: Scene) -> set[str]:
        try:
            return inject(scene)
        except redis.RedisError:
            return set()

    return injected


_FAULTS = (
    Fault("worker killed in a call", "workers", _worker_mid_call),
    Fault("worker killed in the panel's header", "broker", _worker_in_header),
    Fault("worker killed while settling", "workers", _worker_settling),
    Fault("lease ran out, worker woke up", "workers", _lease_runs_out),
    Fault("broker killed, log kept", "broker", _broker_restarted),
    Fault("broker killed, back empty", "broker", _broker_emptied),
    Fault("broker away for seconds", "broker", _broker_away),
    Fault("queues flushed", "broker", _tolerant(_queue_flushed)),
    Fault("database restarted", "database", _database_restarted),
    Fault("database killed", "database", _database_killed),
    Fault("API killed in a submission", "api", _api_in_submission),
    Fault("API killed in a batch's submission", "api", _api_in_batch),
    Fault("API killed in a stream", "api", _api_in_stream),
    Fault("beat killed", "beat", _beat_killed),
    Fault("run cancelled meanwhile", "runs", _run_cancelled),
    Fault("messages delivered twice", "messages", _tolerant(_delivered_twice)),
)
FAULTS: Mapping[str, Fault] = {fault.name: fault for fault in _FAULTS}
