"""The mark on the tags around material in a prompt, by which no text can close its own fence (PANEL).

Escaping would change what reviewers quote, and quotes are compared word for word. So the text stays as it is and
every opening and closing tag carries a mark that stands nowhere between them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

MARK_DIGITS = 16

#: Texts of a prompt: a text, or a mapping from path to text, nested as the templates have them.
Fenced = str | Mapping[str, str]


def fence(material: Iterable[Fenced]) -> str:
    """16 hex digits that occur in none of the texts; the same material gives the same mark.

    It is worked out from the material, so that the prompts of all seats share a prefix that a provider can cache;
    who writes the material can work it out too, but then it stands in the text and the next one is taken.
    """
    texts = list(_texts(material))
    body = hashlib.blake2b(digest_size=32)
    for text in texts:
        body.update(f"{len(text)}:".encode())
        body.update(text.encode("utf-8", "surrogatepass"))
    number = 0
    while True:
        mark = hashlib.blake2b(
            body.digest() + number.to_bytes(8, "big"), digest_size=MARK_DIGITS // 2
        ).hexdigest()
        if not any(mark in text.lower() for text in texts):
            return mark
        number += 1


def label(name: str) -> str:
    """A file's name as it may stand in a tag: whatever could end the attribute, the tag or the line is escaped."""
    return "".join(
        character if character.isprintable() and character not in '"<>&\\' else f"\\u{{{ord(character):x}}}"
        for character in name
    )


def _texts(material: Iterable[Fenced]) -> Iterator[str]:
    for part in material:
        if isinstance(part, str):
            yield part
        else:
            for path, text in part.items():
                yield path
                yield text
