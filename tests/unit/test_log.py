"""Log lines: what is bound to them, and what must not be in them."""

from __future__ import annotations

import io
import json
import logging
import sys
import warnings
from collections.abc import Callable

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from workers import log, settings
from workers.log import REDACTED

SECRET = 'sk-"quoted"-0001'


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, object]]]:
    """JSON logs into memory; what was written."""
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    log.configure("INFO", as_json=True, secrets=[SECRET, "longer-" + SECRET])

    def read() -> list[dict[str, object]]:
        assert SECRET not in stream.getvalue()
        assert json.dumps(SECRET)[1:-1] not in stream.getvalue()
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    return read


def test_a_secret_is_cut_out_of_events_fields_and_libraries_lines(
    lines: Callable[[], list[dict[str, object]]],
) -> None:
    structlog.get_logger().info(f"said {SECRET}", key=SECRET, nested={"deep": [f"a{SECRET}b"]})
    logging.getLogger("some.library").warning("sent %s", "longer-" + SECRET)

    ours, theirs = lines()
    assert ours["event"] == f"said {REDACTED}"
    assert ours["nested"] == {"deep": [f"a{REDACTED}b"]}
    # The longer of two that overlap goes whole.
    assert theirs["event"] == f"sent {REDACTED}"


def test_a_secret_is_cut_out_of_tracebacks(lines: Callable[[], list[dict[str, object]]]) -> None:
    try:
        raise ValueError(f"refused {SECRET}")
    except ValueError:
        structlog.get_logger().exception("it.broke")
        logging.getLogger("some.library").exception("broke")

    assert len(lines()) == 2


def test_warnings_are_lines_like_others(lines: Callable[[], list[dict[str, object]]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)
        logging.captureWarnings(True)
        warnings.warn(f"deprecated {SECRET}", stacklevel=1)

    (line,) = lines()
    assert REDACTED in str(line["event"])


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("OPENAI_API_KEY", "sk-proj-00001", {"sk-proj-00001"}),
        ("MY_TOOLS_TOKEN", "tools-00001", {"tools-00001"}),
        ("CONSENSUS_FLOWER_AUTH", "ops:pass-00001", {"ops:pass-00001", "pass-00001"}),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "api-key=otlp-00001",
            {"api-key=otlp-00001", "otlp-00001"},
        ),
        ("CONSENSUS_WEBHOOK_SECRET", "whsec_00001 whsec_00002", {"whsec_00001", "whsec_00002"}),
        # As it stands in the URL, and as it is meant.
        (
            "CONSENSUS_DATABASE_URL",
            "postgresql://u:p%40ss-0001@h/d",
            {":p%40ss-0001@", "p%40ss-0001", "p@ss-0001"},
        ),
        # Only where it cannot be a word of a sentence.
        ("CONSENSUS_REDIS_URL", "redis://:consensus@h:6379/0", {":consensus@"}),
        ("LOCAL_API_KEY", "none", set()),
        ("MONKEYS", "sk-proj-00001", set()),
        ("BROKEN_URL", "http://[::1", set()),
    ],
)
def test_secrets_of_the_environment_are_known_by_name_and_place(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, found: set[str]
) -> None:
    before = settings.secret_values()
    monkeypatch.setenv(name, value)

    known = settings.secret_values() - before

    assert found <= known
    assert known <= found | {value}


@given(st.text(min_size=8), st.text())
def test_what_is_left_of_a_line_holds_no_secret(secret: str, around: str) -> None:
    formatter = log._Redacted(secrets=[secret], processors=[lambda _, __, event: str(event["event"])])
    record = logging.LogRecord("n", logging.INFO, "p", 1, f"{around}{secret}{around}", (), None)

    left = formatter.format(record)

    assert secret not in left or secret in REDACTED or secret in f"{around}{REDACTED}{around}"
