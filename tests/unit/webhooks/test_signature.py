"""Signatures, against the specification's own example."""

from __future__ import annotations

import base64

import pytest

from workers.errors import SettingsError
from workers.settings import load
from workers.webhooks.signature import signed_headers, signing_keys

#: The example of Standard Webhooks 1.0: this secret, id, time and body give this signature.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
TEXT = "a plain secret of 27 bytes."


def signed(secrets: str) -> str:
    headers = signed_headers(
        signing_keys(secrets),
        delivery_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        epoch_seconds=1614265330,
        body=b'{"test": 2432232314}',
    )
    assert headers["webhook-id"] == "msg_p5jXN8AQM9LWM0D4loKWxJek"
    assert headers["webhook-timestamp"] == "1614265330"
    return headers["webhook-signature"]


def test_the_example_of_the_specification_is_signed_as_there() -> None:
    assert signed(SECRET) == SIGNATURE


def test_while_a_secret_is_replaced_both_sign() -> None:
    first, second = signed(f"{TEXT.replace(' ', '-')} {SECRET}").split(" ")
    assert second == SIGNATURE
    assert first == signed(TEXT.replace(" ", "-"))


def test_text_is_a_key_as_it_stands() -> None:
    assert signing_keys("x" * 24) == (b"x" * 24,)


@pytest.mark.parametrize("padding", ["", "=", "=="])
def test_base_64_is_read_with_and_without_padding(padding: str) -> None:
    encoded = base64.b64encode(b"k" * 25).decode().rstrip("=")
    assert signing_keys(f"whsec_{encoded}{padding}") == (b"k" * 25,)


@pytest.mark.parametrize(
    ("secrets", "sentence"),
    [
        ("x" * 23, "fewer than 24 bytes"),
        # 24 characters of base 64 are 18 bytes.
        ("whsec_" + "A" * 24, "fewer than 24 bytes"),
        (SECRET + " short", "fewer than 24 bytes"),
        ("whsec_" + "é" * 40, "not base 64"),
        ("whsec_" + "!" * 40, "not base 64"),
        ("   ", "holds no secret"),
    ],
)
def test_a_secret_that_cannot_be_used_is_refused_and_never_repeated(secrets: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence) as refused:
        signing_keys(secrets)
    assert not any(part in str(refused.value) for part in secrets.split())


def test_the_setting_is_refused_with_its_name() -> None:
    with pytest.raises(SettingsError, match=r"^CONSENSUS_WEBHOOK_SECRET: holds a secret of fewer than 24"):
        load(webhook_secret="short")


def test_the_setting_does_not_show_the_secret() -> None:
    settings = load(webhook_secret=SECRET)
    assert settings.webhook_keys == signing_keys(SECRET)
    assert "MfKQ" not in repr(settings)


def test_without_a_secret_there_are_no_keys() -> None:
    assert load().webhook_keys == ()
    assert load(webhook_secret=" ").webhook_keys == ()
