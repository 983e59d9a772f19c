"""Ed25519 keys that sign the heads of ledgers: read from a setting, several at once while one replaces another.

A signature names its key by id, so that what an older key signed is still verified with that key."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_pem_public_key,
)

from workers.errors import SettingsError
from workers.provenance.digest import canonical, digest

#: What the signatures are for goes into what is signed: none can be taken for another.
HEAD, EXPORT, ANCHOR = "consensus-ledger-head/1", "consensus-export/1", "consensus-anchor/1"

_PREFIX = "ed25519:"
_PEM = re.compile("-----BEGIN ([A-Z ]+)-----.*?-----END \\1-----", re.DOTALL)
_MAKE_ONE = "make a key with `consensus provenance keygen`"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """`key_id` says with which key; `value` is base 64."""

    key_id: str
    value: str


class Signer:
    """Private keys: the first one signs, all of them verify."""

    def __init__(self, keys: tuple[Ed25519PrivateKey, ...]) -> None:
        self._key = keys[0]
        self._key_id = key_id(_public_bytes(keys[0].public_key()))
        #: Public keys by id.
        self.trusted: Mapping[str, bytes] = {
            key_id(public): public for public in (_public_bytes(key.public_key()) for key in keys)
        }

    def sign(self, purpose: str, value: Mapping[str, Any]) -> Signature:
        signed = self._key.sign(_message(purpose, value))
        return Signature(key_id=self._key_id, value=base64.b64encode(signed).decode())

    @property
    def key_id(self) -> str:
        """The id of the key that signs."""
        return self._key_id


def key_id(public: bytes) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the raw public key."""
    return digest(public)[:16]


def is_good(
    signature: Signature, purpose: str, value: Mapping[str, Any], keys: Mapping[str, bytes]
) -> bool | None:
    """Whether the signature is that of its key over this; None for a key that is not among these."""
    public = keys.get(signature.key_id)
    if public is None:
        return None
    try:
        raw = base64.b64decode(signature.value, validate=True)
        # Base 64 has several spellings of the same bytes, and only one of them is what was written.
        if base64.b64encode(raw).decode() != signature.value:
            return False
        Ed25519PublicKey.from_public_bytes(public).verify(raw, _message(purpose, value))
    except (InvalidSignature, ValueError):
        return False
    return True


def read_signer(setting: str) -> Signer:
    """Private keys of a setting: PEM blocks, or base 64 of each (32 bytes), with or without `ed25519:`, between spaces.

    Raises: SettingsError, without a letter of the key.
    """
    blocks = [match.group(0) for match in _PEM.finditer(setting)]
    try:
        if blocks:
            loaded = [load_pem_private_key(block.encode(), password=None) for block in blocks]
            keys = [key for key in loaded if isinstance(key, Ed25519PrivateKey)]
            if len(keys) < len(loaded):
                raise SettingsError(f"holds a key that is not of the kind Ed25519; {_MAKE_ONE}")
        else:
            keys = [Ed25519PrivateKey.from_private_bytes(_raw(word)) for word in setting.split()]
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise SettingsError(f"holds no Ed25519 private key that can be read; {_MAKE_ONE}") from None
    if not keys:
        raise SettingsError(f"holds no key; {_MAKE_ONE}")
    return Signer(tuple(keys))


def read_public_keys(setting: str) -> dict[str, bytes]:
    """Public keys by id: PEM blocks, or `ed25519:` and base 64 of each between spaces.

    Raises: SettingsError.
    """
    blocks = [match.group(0) for match in _PEM.finditer(setting)]
    found: list[bytes] = []
    try:
        for block in blocks:
            key = load_pem_public_key(block.encode())
            if not isinstance(key, Ed25519PublicKey):
                raise SettingsError("holds a public key that is not of the kind Ed25519")
            found.append(_public_bytes(key))
        if not blocks:
            for word in setting.split():
                found.append(_public_bytes(Ed25519PublicKey.from_public_bytes(_raw(word))))
    except (ValueError, UnsupportedAlgorithm):
        raise SettingsError(
            "holds no Ed25519 public key that can be read; `consensus provenance keys` prints those of an installation"
        ) from None
    return {key_id(public): public for public in found}


def public_text(public: bytes) -> str:
    """As `read_public_keys` reads it."""
    return _PREFIX + base64.b64encode(public).decode()


def new_private_key() -> tuple[str, bytes]:
    """A key from the system's randomness as PEM, and its public half."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return pem, _public_bytes(key.public_key())


def _raw(word: str) -> bytes:
    try:
        return base64.b64decode(word.removeprefix(_PREFIX), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from None


def _public_bytes(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw)


def _message(purpose: str, value: Mapping[str, Any]) -> bytes:
    return canonical({**value, "purpose": purpose})
