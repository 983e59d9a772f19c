"""The Celery application and its delivery settings, each with its reason (`reference/celery.md` §3.3)."""

from __future__ import annotations

from typing import Any

from celery import Celery

from workers.broker_loss import PatientTask, install
from workers.errors import SettingsError
from workers.queues import PRIORITY_STEPS, Queue, TaskName, message_priority, queue_of
from workers.settings import Settings

install()
app = Celery("consensus", task_cls=PatientTask)


def configure(settings: Settings, target: Celery = app) -> Celery:
    """Apply the settings to this process's application, or to another one. Raises: SettingsError if no broker is
    known."""
    if settings.redis_url is None:
        raise SettingsError(
            "CONSENSUS_REDIS_URL is not set; `consensus up` starts an embedded broker, or point it at yours"
        )
    target.conf.update(
        broker_url=settings.redis_url,
        # Only the chord's join uses it: no result is kept or waited for.
        result_backend=f"workers.chord_join:JoinBackend+{settings.redis_url}",
        task_ignore_result=True,
        result_chord_expires=86_400,
        result_expires=86_400,
        # msgpack corrupts groups inside chains (celery #4710); messages carry ids only, so JSON is small.
        task_serializer="json",
        accept_content=["json"],
        enable_utc=True,
        # A message is acknowledged when its work is done; work done twice writes once.
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        task_default_queue=Queue.LLM.value,
        task_create_missing_queues=True,
        task_routes={name.value: {"queue": queue_of(name).value} for name in TaskName},
        broker_transport_options={
            # Long, because a redelivery repeats work in progress; the rescue finds lost work in seconds.
            "visibility_timeout": 1800,
            # A killed worker would otherwise leave the restore lock held for 300 s.
            "unacked_mutex_expire": 30,
            "unacked_restore_interval": 5,
            "unacked_restore_throttle": 1,
            "queue_order_strategy": "priority",
            "priority_steps": list(PRIORITY_STEPS),
            "socket_keepalive": True,
            "health_check_interval": 25,
        },
        # A run whose message could not be sent is in the database all the same; the rescue sends it again.
        task_publish_retry_policy={"max_retries": 2, "interval_start": 0, "interval_step": 0.2},
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_eta_task_limit=1000,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        # For Flower. They carry ids and names; what a run is about is in no message. What beat calls every second or so
        # sends none (`send_events` of the task): it would bury the rest.
        worker_send_task_events=True,
        beat_scheduler="workers.broker_loss:Scheduler",
        beat_schedule=beat_schedule(settings),
    )
    return target


def beat_schedule(settings: Settings) -> dict[str, dict[str, Any]]:
    """What beat sends, by name; webhooks only where they can be signed."""
    schedule = {
        TaskName.RESCUE.value: _periodic(TaskName.RESCUE, settings.rescue_seconds),
        TaskName.DISPATCH.value: _periodic(TaskName.DISPATCH, settings.dispatch_seconds),
        TaskName.SCORE_TEND.value: _periodic(TaskName.SCORE_TEND, settings.rescue_seconds),
    }
    if settings.webhook_keys:
        schedule[TaskName.WEBHOOKS.value] = _periodic(TaskName.WEBHOOKS, settings.webhook_seconds)
    return schedule


def _periodic(task: TaskName, every_seconds: float) -> dict[str, Any]:
    """A task that beat sends; a message that found no worker in time is replaced by the next."""
    return {
        "task": task.value,
        "schedule": every_seconds,
        "options": {
            "priority": message_priority(task),
            "queue": queue_of(task).value,
            "expires": every_seconds * 2,
        },
    }
