"""An error that the simulator answers with, in terms that both wire formats can write down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RequestError(Exception):
    """`kind` is the error's type in Anthropic's format, `openai_type` in OpenAI's, whose `param` names the
    field at fault and whose `code` (a word, or a status inside a 200) tells errors of a type apart. `extra`
    goes into the error object as it is, for hints that only some gateways write. `instead` is the whole body
    in OpenAI's format, for providers with a grammar of their own."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        openai_type: str = "invalid_request_error",
        param: str | None = None,
        code: str | int | None = None,
        extra: Mapping[str, Any] | None = None,
        instead: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.openai_type = openai_type
        self.param = param
        self.code = code
        self.extra = extra or {}
        self.instead = instead
