"""The dispatcher and the sweep as tasks: beat calls the one every second or so, whoever cancels a batch the other."""

from __future__ import annotations

from collections.abc import Iterable

from workers.celery_app import app
from workers.core.shares import room_of
from workers.enqueue import submit_run
from workers.queues import TaskName
from workers.stages import dispatch
from workers.stages.dispatch import Window
from workers.wiring import runtime


@app.task(name=TaskName.DISPATCH.value, send_events=False)
def dispatch_runs() -> None:
    _submit(dispatch.tick(runtime().context, _window()))


@app.task(name=TaskName.SWEEP.value)
def sweep_batch(batch_id: str) -> None:
    dispatch.sweep(runtime().context, batch_id)


def top_up(run_id: str) -> None:
    """The run has ended: if it made room in the window, the next one goes now and not with the next tick."""
    _submit(dispatch.run_ended(runtime().context, run_id, _window()))


def _submit(run_ids: Iterable[str]) -> None:
    for run_id in run_ids:
        submit_run(app, run_id, is_batch=True)


def _window() -> Window:
    """Sized by the threads of all workers together: an installation of several is told how many by the setting."""
    config = runtime().settings
    threads = config.worker_processes * config.llm_concurrency
    room = room_of(window=config.batch_window, threads=threads)
    return Window(room=room, own_accounts=runtime().own_accounts)
