"""Canonical JSON, content digests and the hash chain, as plain functions (no database)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

#: What the first event of a run points back to.
GENESIS = "0" * 64


def canonical(value: Any) -> bytes:
    """The one byte form of a JSON value: sorted keys, no blanks, UTF-8, no NaN.

    Lone surrogates, which a JSON reply may smuggle in, become U+FFFD: PostgreSQL and UTF-8 refuse them.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", errors="replace")


def digest(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def chain_hash(*, run_id: str, seq: int, kind: str, at: str, payload_digest: str, previous_hash: str) -> str:
    """The hash of one event. It covers the payload by digest only, so a payload can be redacted later
    without breaking the chain. `at` is ISO 8601 in UTC."""
    return digest(
        canonical(
            {
                "at": at,
                "kind": kind,
                "payload": payload_digest,
                "previous": previous_hash,
                "run": run_id,
                "seq": seq,
            }
        )
    )
