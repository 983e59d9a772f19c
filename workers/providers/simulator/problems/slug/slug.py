"""Slugs for addresses."""

import re
import unicodedata


def slugify(text: str, longest: int = 60) -> str:
    """The words of `text` in small ASCII letters, joined by dashes, at most `longest` characters."""
    if longest < 1:
        raise ValueError(f"longest must be 1 or more, not {longest}")
    parts = unicodedata.normalize("NFKD", text)
    plain = "".join(part for part in parts if not unicodedata.combining(part))
    slug = ""
    for word in re.findall(r"[a-z0-9]+", plain.lower()):
        longer = f"{slug}-{word}" if slug else word[:longest]
        if len(longer) > longest:
            break
        slug = longer
    return slug
