"""Keys of ledgers: how they are given, and what a signature is worth."""

from __future__ import annotations

import base64
import dataclasses

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from workers.errors import SettingsError
from workers.provenance.signing import (
    EXPORT,
    HEAD,
    Signature,
    is_good,
    key_id,
    new_private_key,
    public_text,
    read_public_keys,
    read_signer,
)

#: RFC 8032, section 7.1, test 1: a secret key and its public half.
SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
PUBLIC = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
WORD = base64.b64encode(SECRET).decode()
OTHER = base64.b64encode(bytes(32)).decode()


def test_a_key_gives_the_public_half_that_the_standard_says() -> None:
    signer = read_signer(WORD)
    assert signer.trusted == {key_id(PUBLIC): PUBLIC}
    assert read_public_keys(public_text(PUBLIC)) == {key_id(PUBLIC): PUBLIC}


def test_pem_and_base_64_are_the_same_key() -> None:
    pem, public = new_private_key()
    signer = read_signer(pem)
    assert signer.trusted == {key_id(public): public}
    assert read_signer(f"ed25519:{WORD}").key_id == read_signer(WORD).key_id
    assert len(read_signer(pem + new_private_key()[0]).trusted) == 2


def test_the_first_of_several_keys_signs_and_all_verify() -> None:
    both, old = read_signer(f"{OTHER} {WORD}"), read_signer(WORD)
    value = {"seq": 1}
    assert both.key_id == read_signer(OTHER).key_id
    assert is_good(old.sign(HEAD, value), HEAD, value, both.trusted) is True
    assert is_good(both.sign(HEAD, value), HEAD, value, old.trusted) is None


def test_a_signature_holds_for_its_purpose_and_value_alone() -> None:
    signer, value = read_signer(WORD), {"seq": 1}
    signature = signer.sign(HEAD, value)
    assert is_good(signature, HEAD, value, signer.trusted) is True
    assert is_good(signature, EXPORT, value, signer.trusted) is False
    assert is_good(signature, HEAD, {"seq": 2}, signer.trusted) is False
    # One spelling of base 64: the last digit before the padding has four bits that mean nothing.
    raw = signature.value
    twin = next(
        raw[:-3] + letter + raw[-2:]
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
        if letter != raw[-3] and base64.b64decode(raw[:-3] + letter + raw[-2:]) == base64.b64decode(raw)
    )
    for spoilt in ("", "%", raw[:-4], twin, raw + "\n"):
        assert is_good(dataclasses.replace(signature, value=spoilt), HEAD, value, signer.trusted) is False
    assert is_good(Signature(key_id="0" * 16, value=raw), HEAD, value, signer.trusted) is None


RSA = generate_private_key(65537, 2048)
RSA_PEM = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
RSA_PUBLIC = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


@pytest.mark.parametrize(
    "setting",
    [
        "hunter2-hunter2",
        base64.b64encode(b"hunter2").decode(),
        f"{WORD} hunter2",
        "-----BEGIN PRIVATE KEY-----\nhunter2\n-----END PRIVATE KEY-----",
        RSA_PEM,
        "  ",
    ],
)
def test_a_wrong_key_is_refused_without_a_letter_of_it(setting: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_signer(setting)
    assert "consensus provenance keygen" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert WORD not in str(caught.value)


@pytest.mark.parametrize("setting", ["ed25519:AAAA", "nothing", RSA_PUBLIC])
def test_a_wrong_public_key_is_refused(setting: str) -> None:
    with pytest.raises(SettingsError, match="public key"):
        read_public_keys(setting)
