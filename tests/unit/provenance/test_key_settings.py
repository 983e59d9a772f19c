"""The signing key as settings give it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from workers.errors import SettingsError
from workers.provenance.signing import public_text, read_signer
from workers.settings import load

ONE, TWO = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))


def test_without_a_key_nothing_is_signed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", " ")
    assert load().signer is None
    assert load().trusted == {}


def test_a_key_comes_from_the_variable_or_from_a_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "key"
    path.write_text(f"{ONE}\n")
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY_FILE", str(path))
    from_file = load().signer
    monkeypatch.delenv("CONSENSUS_SIGNING_KEY_FILE")
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", ONE)
    from_variable = load().signer
    assert from_file is not None
    assert from_variable is not None
    assert from_file.key_id == from_variable.key_id == read_signer(ONE).key_id


def test_own_keys_and_those_that_are_named_are_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    other = read_signer(TWO).trusted
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", ONE)
    monkeypatch.setenv("CONSENSUS_TRUSTED_KEYS", " ".join(map(public_text, other.values())))
    assert load().trusted == {**read_signer(ONE).trusted, **other}


def test_a_key_is_nowhere_in_what_is_said_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", ONE)
    assert ONE not in repr(load())
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", f"{ONE}=")
    with pytest.raises(SettingsError) as caught:
        load()
    assert str(caught.value).startswith("CONSENSUS_SIGNING_KEY: holds no Ed25519 private key")
    assert ONE not in str(caught.value)


@pytest.mark.parametrize("content", [None, b"", b"nonsense", b"\xff\xfe"])
def test_a_file_without_a_key_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY_FILE", str(path))
    with pytest.raises(SettingsError, match=f"CONSENSUS_SIGNING_KEY_FILE: {path}"):
        assert load().signer


def test_two_ways_to_give_a_key_are_one_too_many(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY", ONE)
    monkeypatch.setenv("CONSENSUS_SIGNING_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SettingsError, match="both set"):
        assert load().signer


def test_a_wrong_public_key_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONSENSUS_TRUSTED_KEYS", "nonsense")
    with pytest.raises(SettingsError, match="CONSENSUS_TRUSTED_KEYS: holds no Ed25519 public key"):
        load()
