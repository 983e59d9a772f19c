"""Bodies with a field that nobody knows, refused with the name that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from pydantic import BaseModel, model_validator


class KnownFields(BaseModel):
    """A body that names its fields when it is sent another one."""

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, value: object) -> object:
        if isinstance(value, dict):
            _refuse_unknown(value, cls.model_fields)
        return value


def _refuse_unknown(names: Iterable[object], known: Iterable[str]) -> None:
    allowed = list(known)
    unknown = next((str(name) for name in names if name not in allowed), None)
    if unknown is None:
        return
    close = difflib.get_close_matches(unknown, allowed, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    raise ValueError(f"there is no field {unknown[:80]!r}{hint} allowed are {', '.join(allowed)}")
