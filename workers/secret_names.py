"""Which variables hold secrets, by their names, and what of their values must not be written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

_SECRET = re.compile(
    r"(^|_)(API_?KEYS?|KEYS?|TOKENS?|SECRETS?|PASSWORDS?|PASSWD|AUTH|CREDENTIALS|HEADERS)(_|$)", re.I
)
#: Shorter ones, and short plain words, could be part of any text.
_SHORTEST, _SURELY_NO_WORD = 8, 16


def names_a_secret(name: str) -> bool:
    """By a word of the name, also those of tools and exporters that are not ours."""
    return _SECRET.search(name) is not None


def secrets_in(variables: Mapping[str, str]) -> frozenset[str]:
    """Keys, tokens and passwords, also those in URLs; whole, and their telling parts."""
    found: set[str] = set()
    for name, value in variables.items():
        if names_a_secret(name):
            # Several between spaces or commas; user:password; header=value.
            pieces = re.split(r"[\s,]+", value)
            found.update((value, *pieces, *(re.split(r"[:=]", piece, maxsplit=1)[-1] for piece in pieces)))
        if "://" in value:
            found.update(_passwords(value))
    return frozenset(secret for secret in map(str.strip, found) if _is_telling(secret))


def _passwords(url: str) -> list[str]:
    """As they stand in the URL, with what surrounds them there, and as they are meant."""
    try:
        password = urlsplit(url).password
    except ValueError:
        return []
    return [f":{password}@", password, unquote(password)] if password else []


def _is_telling(secret: str) -> bool:
    return len(secret) >= _SURELY_NO_WORD or (len(secret) >= _SHORTEST and not secret.isalpha())
