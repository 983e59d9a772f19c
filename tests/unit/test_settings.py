"""What settings make of what they are given."""

from __future__ import annotations

import pytest

from workers.settings import Settings


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("rediss://:pw@host:6380/0", "rediss://:pw@host:6380/0?ssl_cert_reqs=required"),
        (
            "rediss://host/0?ssl_ca_certs=/etc/ca.crt",
            "rediss://host/0?ssl_ca_certs=/etc/ca.crt&ssl_cert_reqs=required",
        ),
        ("rediss://host/0?ssl_cert_reqs=none", "rediss://host/0?ssl_cert_reqs=none"),
        ("redis://host:6379/0", "redis://host:6379/0"),
    ],
)
def test_a_brokers_certificate_is_checked_unless_somebody_says_otherwise(given: str, used: str) -> None:
    assert Settings(redis_url=given).redis_url == used
