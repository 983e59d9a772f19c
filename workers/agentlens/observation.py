"""What a call answered, told apart without what changes from run to run (AGENTLENS §1)."""

from __future__ import annotations

import re
from hashlib import blake2b

# Addresses, colours and durations, each behind a literal that a plain search finds fast.
_VOLATILE = (
    ("\x1b", re.compile(r"\x1b\[[0-9;]*[A-Za-z]")),
    ("0x", re.compile(r"0x[0-9a-fA-F]+")),
    (" in ", re.compile(r"(?:ed|s) in \d+(?:\.\d+)?\s?(?:s|ms|seconds?)\b")),
)


def text_digest(text: str) -> str:
    """The digest of an observation without what changes from run to run; "" for none."""
    if not text:
        return ""
    for sign, pattern in _VOLATILE:
        if sign in text:
            text = pattern.sub("", text)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
