"""What a webhook is told, and when a delivery that failed is tried again (`docs/webhooks.md`)."""

from __future__ import annotations

import dataclasses
from enum import StrEnum


class WebhookEvent(StrEnum):
    """What happened; the receiver finds it as `type`."""

    RUN_FINISHED = "run.finished"
    RUN_CANCELLED = "run.cancelled"
    BATCH_FINISHED = "batch.finished"
    BATCH_CANCELLED = "batch.cancelled"
    BATCH_PAUSED = "batch.paused"


class DeliveryState(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


#: The waits double from the first on: 10 s × (2¹³ - 1) are 22.8 hours between the first try and the fourteenth.
FIRST_WAIT_SECONDS = 10.0
MOST_ATTEMPTS = 14
#: A receiver may ask for later tries, but what is older than this is no news to anybody.
LONGEST_AGE_SECONDS = 3 * 86_400.0
#: Each wait is made longer or shorter by up to this share, so that what failed together does not return together.
JITTER = 0.2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one attempt ended: with a status, or without one, because of `problem`.

    `is_refused`: our own rules forbid the address, so nothing was sent. `retry_after_seconds`: what the receiver
    asked for.
    """

    status: int | None = None
    problem: str | None = None
    is_refused: bool = False
    retry_after_seconds: float | None = None

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def is_final(self) -> bool:
        """No further try can help: it arrived, the receiver is gone for good (410), or we may not call it."""
        return self.is_success or self.status == 410 or self.is_refused


def wait_before_retry(answer: Answer, *, attempts: int, age_seconds: float, chance: float) -> float | None:
    """Seconds until the next try, None to give up; `attempts` were made, `chance` is random in [0, 1).

    A receiver's Retry-After can only lengthen the wait.
    """
    if answer.is_final or attempts >= MOST_ATTEMPTS:
        return None
    # The count comes from a row: one that is out of all bounds must not overflow.
    own = FIRST_WAIT_SECONDS * 2.0 ** (max(attempts, 1) - 1) * (1.0 + JITTER * (2.0 * chance - 1.0))
    wait = max(own, answer.retry_after_seconds or 0.0)
    return wait if age_seconds + wait <= LONGEST_AGE_SECONDS else None
