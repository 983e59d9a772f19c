"""Data that a page hands to its modules, in an element that no browser runs."""

from __future__ import annotations

import json

from markupsafe import Markup
from pydantic import BaseModel


def for_script(value: BaseModel | object) -> Markup:
    """A value as JSON for `<script type="application/json">`: whatever a log says, it cannot end the element."""
    text = value.model_dump_json() if isinstance(value, BaseModel) else json.dumps(value)
    escaped = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return Markup(escaped)  # noqa: S704 # nosec B704 # no character that HTML could read is left
