"""Signatures as Standard Webhooks 1.0 defines them: HMAC-SHA256 over `id.timestamp.body`, in base 64 after `v1,`."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence

from workers.errors import SettingsError

#: What the specification asks of a secret at least.
LEAST_KEY_BYTES = 24
_PREFIX = "whsec_"


def signing_keys(secrets: str) -> tuple[bytes, ...]:
    """The keys in a setting: one, or while one replaces another several between spaces. `whsec_` is followed by
    base 64; anything else is a key as it stands.

    Raises: SettingsError, without a letter of the secret.
    """
    keys = tuple(_key(secret) for secret in secrets.split())
    if not keys:
        raise SettingsError(
            "holds no secret; make one with `openssl rand -base64 32` and put whsec_ before it"
        )
    if any(len(key) < LEAST_KEY_BYTES for key in keys):
        raise SettingsError(
            f"holds a secret of fewer than {LEAST_KEY_BYTES} bytes; "
            "make one with `openssl rand -base64 32` and put whsec_ before it"
        )
    return keys


def _key(secret: str) -> bytes:
    if not secret.startswith(_PREFIX):
        return secret.encode("utf-8")
    # Generators disagree about the padding.
    encoded = secret.removeprefix(_PREFIX).rstrip("=")
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:
        raise SettingsError("holds a secret that is not base 64 after whsec_") from None


def signed_headers(
    keys: Sequence[bytes], *, delivery_id: str, epoch_seconds: int, body: bytes
) -> Mapping[str, str]:
    """The three headers of a delivery; one signature a key, so that a receiver may hold the old or the new one."""
    content = b".".join((delivery_id.encode(), str(epoch_seconds).encode(), body))
    signatures = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(epoch_seconds),
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
