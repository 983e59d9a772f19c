"""Canonical JSON, content digests and the hash chain, as plain functions (no database)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

#: What the first event of a run points back to.
GENESIS = "0" * 64

_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


def canonical(value: Any) -> bytes:
    """The one byte form of a JSON value: sorted keys, no blanks, UTF-8, no NaN.

    Lone surrogates, which a JSON reply may smuggle in, become U+FFFD: UTF-8 does not have them. What is read
    back has the same byte form, so that a digest can be recomputed from it.
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    if _SURROGATES.search(text):
        # Replacing changes how keys sort and which are equal, so the order is made once more.
        return canonical(json.loads(_SURROGATES.sub(_REPLACEMENT, text)))
    return text.encode()


def keepable(text: str) -> str:
    """The text as a text column can hold it: NUL and lone surrogates, which it cannot, become U+FFFD."""
    return _SURROGATES.sub(_REPLACEMENT, text).replace("\x00", _REPLACEMENT)


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
