"""How providers of one wire format differ, as data. A provider that refuses a field is learned from: see
`without`."""

from __future__ import annotations

import dataclasses
import re


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """What may be sent. The defaults suit a server that speaks plain OpenAI chat.

    `max_tokens_fields`: names to try for the output limit, best first; the first is sent. `max_temperature`:
    the top of the accepted range (larger values are cut to it), None where temperature is refused.
    `fixed_temperature_models`: names of models that think, and refuse to be given one.
    `system_role`: the role of instructions. `has_stream_usage_option`: `stream_options.include_usage` is
    understood (servers without it either send usage unasked or not at all). `wants_reasoning_back`: the thoughts
    that led to a tool call must come back with it.
    """

    max_tokens_fields: tuple[str, ...] = ("max_tokens", "max_completion_tokens")
    max_temperature: float | None = 2.0
    fixed_temperature_models: re.Pattern[str] | None = None
    system_role: str = "system"
    has_stream_usage_option: bool = True
    has_json_mode: bool = True
    has_tools: bool = True
    wants_reasoning_back: bool = False

    def temperature_for(self, model: str, wanted: float | None) -> float | None:
        """What to send, None for nothing."""
        if wanted is None or self.max_temperature is None:
            return None
        if self.fixed_temperature_models is not None and self.fixed_temperature_models.match(model):
            return None
        return min(wanted, self.max_temperature)

    def without(self, field: str) -> Compat:
        """The same, without a field that was refused. Unknown fields change nothing.

        A refused name for the output limit is replaced by the other name before the limit is given up:
        reasoning models refuse `max_tokens` and take `max_completion_tokens`, older servers the reverse.
        """
        match field:
            case "temperature":
                return dataclasses.replace(self, max_temperature=None)
            case "response_format":
                return dataclasses.replace(self, has_json_mode=False)
            case "tools" | "tool_choice":
                return dataclasses.replace(self, has_tools=False)
            case "stream_options":
                return dataclasses.replace(self, has_stream_usage_option=False)
            case _:
                names = tuple(name for name in self.max_tokens_fields if name != field)
                return dataclasses.replace(self, max_tokens_fields=names)
