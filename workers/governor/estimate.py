"""What a call will probably use, learnt from what calls like it used. Pure; each process learns for itself.

A reservation that is far too high wastes the token limit, because nobody can be moved into what comes back
late; one near the mean keeps it full, and the settlement evens out the rest."""

from __future__ import annotations

import dataclasses
from typing import Final

from workers.governor.base import Spent

TOKENS_PER_CHARACTER: Final = 0.25
"""Before anything is learnt: English prose and code have about four characters to a token."""
OUTPUT_SHARE_OF_LIMIT: Final = 0.25
"""Before anything is learnt: `max_tokens` is set with room to spare."""
MEMORY_CALLS: Final = 64
"""A plain mean of the first calls, then one that forgets older calls, so that it follows a changed prompt."""


@dataclasses.dataclass(slots=True)
class _Means:
    calls: int = 0
    input_characters: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0

    def add(self, input_characters: int, spent: Spent) -> None:
        self.calls = min(self.calls + 1, MEMORY_CALLS)
        self.input_characters += (input_characters - self.input_characters) / self.calls
        self.input_tokens += (spent.input_tokens - self.input_tokens) / self.calls
        self.output_tokens += (spent.output_tokens - self.output_tokens) / self.calls


class Estimates:
    """Running means per (model, stage); a stage not yet seen borrows those of its model."""

    def __init__(self) -> None:
        self._means: dict[tuple[str, str | None], _Means] = {}

    def expect(self, model: str, stage: str, *, input_characters: int, max_tokens: int) -> Spent:
        """Tokens of a call with a prompt of `input_characters` that may write up to `max_tokens`."""
        means = self._means.get((model, stage)) or self._means.get((model, None))
        if means is None:
            return Spent(
                input_tokens=round(input_characters * TOKENS_PER_CHARACTER),
                output_tokens=round(max_tokens * OUTPUT_SHARE_OF_LIMIT),
            )
        density = (
            means.input_tokens / means.input_characters if means.input_characters else TOKENS_PER_CHARACTER
        )
        return Spent(
            input_tokens=round(input_characters * density),
            output_tokens=min(max_tokens, round(means.output_tokens)),
        )

    def learn(self, model: str, stage: str, *, input_characters: int, max_tokens: int, spent: Spent) -> None:
        """Remember what a call really used. One that says it wrote more than `max_tokens` counts as that many."""
        heard = dataclasses.replace(spent, output_tokens=min(spent.output_tokens, max_tokens))
        for stage_or_any in (stage, None):
            self._means.setdefault((model, stage_or_any), _Means()).add(input_characters, heard)
