"""Structured logs: an event name, then fields. Readable on a terminal, one JSON object a line elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog

#: Local variables stay out of logs: they hold prompts, replies and keys.
_TRACEBACKS = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)

_NARRATORS = (
    *("httpx", "httpcore", "aiohttp", "kombu", "uvicorn.access", "alembic"),
    *("celery.worker.strategy", "celery.app.trace", "celery.utils.functional"),
)


def configure(level: str, *, as_json: bool) -> None:
    """Set up this process's logs on standard error, the libraries' included."""
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
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Libraries that narrate every request or message; their warnings still come through.
    for name in _NARRATORS:
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
