"""Signed session tokens: who may stay logged in, and until when."""

import hashlib
import hmac
import re

_TOKEN = re.compile(r"((?:[0-9a-f]{2})+)\.([0-9]{1,15})\.([0-9a-f]{64})")


def issue(user: str, key: bytes, expires_at: int) -> str:
    """A token that names `user` and is valid before `expires_at`, in seconds."""
    _check_key(key)
    if not user:
        raise ValueError("a session needs a user")
    name = user.encode().hex()
    return f"{name}.{expires_at}.{_signature(name, expires_at, key)}"


def verify(token: str, key: bytes, now: float) -> str:
    """The user whom the token names, if it is ours and still valid."""
    _check_key(key)
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        raise ValueError("invalid token")
    name, expires_at = parts[1], int(parts[2])
    if not hmac.compare_digest(parts[3], _signature(name, expires_at, key)):
        raise ValueError("invalid token")
    if now >= expires_at:
        raise ValueError("invalid token")
    return bytes.fromhex(name).decode()


def _signature(name: str, expires_at: int, key: bytes) -> str:
    signed = f"{name}.{expires_at}"
    return hmac.new(key, signed.encode(), hashlib.sha256).hexdigest()


def _check_key(key: bytes) -> None:
    if len(key) < 16:
        raise ValueError("the key must have 16 bytes or more")
