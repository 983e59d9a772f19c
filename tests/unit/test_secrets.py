"""Secrets out of files, and keys as texts."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.api.keys import any_key
from workers.core.access import Scope
from workers.errors import SettingsError
from workers.key_text import KEY_CHANCE_BYTES, hide_keys, make_key, read_key
from workers.providers.registry import enabled
from workers.secret_files import MAX_BYTES, read_secret
from workers.settings import (
    child_environment,
    environment,
    load,
    secret_settings,
    secret_values,
)

ROOT = Path(__file__).parents[2]
DATABASE = "postgresql://me:a-planted-password@db/consensus"


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return tmp_path / "secret"


def test_the_settings_page_lists_every_setting_that_a_file_may_hold() -> None:
    page = (ROOT / "docs/settings.md").read_text(encoding="utf-8").split("## Secrets from files")[1]
    listed = set(re.findall(r"`(CONSENSUS_\w+)`", page.split("## ")[0]))
    assert listed == set(secret_settings())
    assert {"CONSENSUS_DATABASE_URL", "CONSENSUS_API_KEY", "CONSENSUS_WEBHOOK_SECRET"} <= listed


def test_a_setting_is_what_its_file_holds_without_the_lines_end(
    monkeypatch: pytest.MonkeyPatch, secret: Path
) -> None:
    secret.write_text(f"{DATABASE}\n", encoding="utf-8")
    monkeypatch.setenv("CONSENSUS_DATABASE_URL_FILE", str(secret))
    assert load().database_url == DATABASE.replace("postgresql:", "postgresql+psycopg:")
    assert "a-planted-password" in secret_values()
    assert "a-planted-password" not in repr(load())


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbfsk-a-key", b"\xef\xbb\xbfsk-a-key\r\n", b"sk-a-key\r\n\r\n"]
)
def test_marks_that_an_editor_wrote_around_a_secret_are_not_part_of_it(secret: Path, content: bytes) -> None:
    secret.write_bytes(content)
    assert read_secret("A_KEY", {"A_KEY_FILE": str(secret)}) == "sk-a-key"


def test_a_file_and_a_value_at_once_are_refused(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    secret.write_text(any_key(), encoding="utf-8")
    monkeypatch.setenv("CONSENSUS_API_KEY_FILE", str(secret))
    monkeypatch.setenv("CONSENSUS_API_KEY", any_key())
    with pytest.raises(SettingsError, match=r"^CONSENSUS_API_KEY and CONSENSUS_API_KEY_FILE are both set; "):
        load()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "cannot be read: No such file or directory"),
        (b" \n", "is empty"),
        (b"\xff\xfe", "is not UTF-8 text"),
        (b"x" * (MAX_BYTES + 1), "has more than 65,536 bytes"),
    ],
)
def test_a_file_that_holds_no_secret_is_told_by_its_name(
    monkeypatch: pytest.MonkeyPatch, secret: Path, content: bytes | None, sentence: str
) -> None:
    if content is not None:
        secret.write_bytes(content)
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(secret))
    with pytest.raises(SettingsError, match=f"^OPENAI_API_KEY_FILE: .*{sentence}"):
        enabled(environment())


def test_a_provider_is_on_when_a_file_holds_its_key(monkeypatch: pytest.MonkeyPatch, secret: Path) -> None:
    secret.write_text("sk-planted-in-a-file\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY_FILE", str(secret))
    assert enabled(environment())["openai"].api_key == "sk-planted-in-a-file"
    assert "sk-planted-in-a-file" in secret_values()


def test_a_file_of_somebody_else_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDITION_FILE", "/nowhere")
    assert "EDITION" not in environment()
    assert environment()["EDITION_FILE"] == "/nowhere"


def test_a_child_gets_our_change_and_not_the_file_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_DATABASE_URL_FILE", "/nowhere")
    given_to_child = child_environment({"CONSENSUS_DATABASE_URL": DATABASE})
    assert given_to_child["CONSENSUS_DATABASE_URL"] == DATABASE
    assert "CONSENSUS_DATABASE_URL_FILE" not in given_to_child


def test_a_setting_that_is_no_key_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_API_KEY", "sk-of-another-service")
    with pytest.raises(SettingsError, match=r"^CONSENSUS_API_KEY: holds no API key") as told:
        load()
    assert "another" not in str(told.value)


@given(st.binary(min_size=KEY_CHANCE_BYTES, max_size=KEY_CHANCE_BYTES))
def test_a_key_is_read_as_it_was_made_and_shows_no_secret(chance: bytes) -> None:
    made = make_key(chance)
    assert read_key(made.text) == made
    secret = made.text.removeprefix(made.key_id)
    # 32 bytes are 43 digits of base 64.
    assert len(secret) == 1 + 43
    assert secret not in repr(made)
    assert secret not in made.digest


@given(st.text())
def test_another_text_is_no_key(text: str) -> None:
    assert read_key(text) is None
    assert read_key(f"csk_{text}") is None


@pytest.mark.parametrize(
    ("held", "may"),
    [
        (Scope.READ, {Scope.READ}),
        (Scope.SUBMIT, {Scope.READ, Scope.SUBMIT}),
        (Scope.ADMIN, {Scope.READ, Scope.SUBMIT, Scope.ADMIN}),
    ],
)
def test_each_scope_includes_those_before_it(held: Scope, may: set[Scope]) -> None:
    assert {needed for needed in Scope if held.includes(needed)} == may


@given(st.binary(min_size=KEY_CHANCE_BYTES, max_size=KEY_CHANCE_BYTES), st.integers(1, 43), st.text())
def test_a_key_that_is_quoted_keeps_what_names_it_and_loses_its_secret(
    chance: bytes, letters: int, around: str
) -> None:
    made = make_key(chance)
    cut_short = made.text[: len(made.key_id) + 1 + letters]
    assert hide_keys(f"?key={cut_short}&{around}") == f"?key={made.key_id}_[secret]&{hide_keys(around)}"
