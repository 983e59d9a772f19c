"""Counting what calls cost without passing a counter around (DESIGN §4).

A scope travels with the context: `asyncio.run_coroutine_threadsafe` copies the context of the thread that
submits, so a Celery thread opens a scope and the loop thread counts into it. A scope sees one process only;
a run's total across workers is the sum of its call rows in the database."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from workers.core.reply import Usage


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelUsage:
    """What one model was asked inside a scope: finished calls (failed ones that cost tokens included)."""

    calls: int = 0
    usage: Usage = dataclasses.field(default_factory=Usage)


class UsageScope:
    """Totals of the calls that finished inside one `usage_scope()`. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_model: dict[tuple[str, str], ModelUsage] = {}

    def add(self, provider: str, model: str, usage: Usage) -> None:
        with self._lock:
            before = self._by_model.get((provider, model), ModelUsage())
            self._by_model[provider, model] = ModelUsage(calls=before.calls + 1, usage=before.usage + usage)

    @property
    def by_model(self) -> dict[tuple[str, str], ModelUsage]:
        """A copy, keyed by (provider, model as asked for)."""
        with self._lock:
            return dict(self._by_model)

    @property
    def total(self) -> Usage:
        return sum((entry.usage for entry in self.by_model.values()), Usage())

    @property
    def calls(self) -> int:
        return sum(entry.calls for entry in self.by_model.values())


_open_scopes: ContextVar[tuple[UsageScope, ...]] = ContextVar("open_usage_scopes", default=())


@contextmanager
def usage_scope() -> Iterator[UsageScope]:
    """Count every call made inside the block, whichever task makes it. Nested scopes all count."""
    scope = UsageScope()
    token = _open_scopes.set((*_open_scopes.get(), scope))
    try:
        yield scope
    finally:
        _open_scopes.reset(token)


def record(provider: str, model: str, usage: Usage) -> None:
    """Add one finished call to every open scope. Providers call this; nobody else needs to."""
    for scope in _open_scopes.get():
        scope.add(provider, model, usage)
