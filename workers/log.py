"""Structured logs: an event name, then fields. Readable on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable
from typing import Any

import structlog

from workers.key_text import hide_keys

#: Local variables stay out of logs: they hold prompts, replies and keys.
_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)

_NARRATORS = (
    *("httpx", "httpcore", "aiohttp", "kombu", "uvicorn.access", "alembic"),
    *("celery.worker.strategy", "celery.app.trace", "celery.utils.functional"),
)


#: What is written where a secret was.
REDACTED = "[secret]"


class _Redacted(structlog.stdlib.ProcessorFormatter):
    """Finished lines, tracebacks included, without the values that must not be in them. Nothing here logs a secret;
    but libraries and providers quote what they were given."""

    def __init__(self, *args: Any, secrets: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The longest first: one may be a part of another. As JSON writes them, too.
        spellings = {spelling for secret in secrets for spelling in (secret, json.dumps(secret)[1:-1])}
        self._secrets = sorted(spellings, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        for secret in self._secrets:
            if secret in line:
                line = line.replace(secret, REDACTED)
        return hide_keys(line)


def configure(level: str, *, as_json: bool, secrets: Iterable[str] = ()) -> None:
    """Set up this process's logs on standard error, the libraries' included. None of the `secrets` is ever in them."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.processors.ExceptionRenderer(_TRACEBACKS), structlog.processors.JSONRenderer()]
        if as_json
        else [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        _Redacted(
            secrets=secrets,
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    # Warnings are lines like others.
    logging.captureWarnings(True)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Libraries that narrate every request or message; their warnings still come through.
    for name in _NARRATORS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
