"""Bodies with a field that nobody knows, refused with the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from typing import ClassVar

from pydantic import BaseModel, model_validator


class KnownFields(BaseModel):
    """A body that names its fields when it is sent another one, but for those that it only knows to refuse."""

    unlisted: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, value: object) -> object:
        if isinstance(value, dict):
            _refuse_unknown(value, cls.model_fields, cls.unlisted)
        return value


def _refuse_unknown(names: Iterable[object], known: Collection[str], unlisted: Collection[str]) -> None:
    allowed = [name for name in known if name not in unlisted]
    unknown = next((str(name) for name in names if name not in known), None)
    if unknown is None:
        return
    close = difflib.get_close_matches(unknown, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    raise ValueError(f"there is no field {unknown[:80]!r}{hint} allowed are {', '.join(allowed)}")
