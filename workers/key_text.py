"""Keys of the API as texts: made of chance that is passed in, read, and hidden wherever they are quoted."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re

#: What `make_key` takes: 8 bytes for the part that is looked up, 32 that nobody can guess.
KEY_CHANCE_BYTES = 40

_KEY = re.compile(r"(csk_[a-z2-7]{13})_([A-Za-z0-9_-]{43})")
#: Also one that was cut short.
_TOLD = re.compile(r"(csk_[a-z2-7]{13})_[A-Za-z0-9_-]+")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyText:
    """A key as it is read or made. `key_id` may be shown; of the whole only the digest is kept, so `text` is there
    for whoever made it, once."""

    key_id: str
    digest: str
    text: str = dataclasses.field(repr=False)


def make_key(chance: bytes) -> KeyText:
    """A new key out of KEY_CHANCE_BYTES random bytes: `csk_`, what it is looked up by, `_`, the secret.

    Its digest is a plain SHA-256: a slow one protects what people think up, and nobody can try 2^256.
    """
    if len(chance) != KEY_CHANCE_BYTES:
        raise ValueError(f"a key takes {KEY_CHANCE_BYTES} random bytes, not {len(chance)}")
    looked_up = base64.b32encode(chance[:8]).decode().rstrip("=").lower()
    secret = base64.urlsafe_b64encode(chance[8:]).decode().rstrip("=")
    return _key(f"csk_{looked_up}", f"csk_{looked_up}_{secret}")


def read_key(text: str) -> KeyText | None:
    """What somebody sent as a key; None for a text that none of ours looks like."""
    match = _KEY.fullmatch(text)
    return None if match is None else _key(match[1], text)


def _key(key_id: str, text: str) -> KeyText:
    return KeyText(key_id=key_id, digest=secret_digest(text), text=text)


def secret_digest(secret: str) -> str:
    """What is kept of a secret that chance made: its SHA-256, in hexadecimal digits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def hide_keys(text: str) -> str:
    """The text with the secret of every key in it left out: what somebody sent by mistake is quoted back to them."""
    return _TOLD.sub(r"\1_[secret]", text) if "csk_" in text else text
