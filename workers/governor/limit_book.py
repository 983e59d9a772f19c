"""Which limits hold for a bucket: what an operator has set, else what the provider is known to allow.

Workers read what is set from the database with every heartbeat, so a change holds everywhere within seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from workers.governor.base import Limits

#: The family under which limits for all models of a provider are set.
ANY_FAMILY = "*"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LimitsSet:
    """What an operator has set for a provider's family, or for all of them (`ANY_FAMILY`)."""

    provider: str
    family: str
    limits: Limits


class LimitBook:
    """`defaults` by provider. Reading and replacing are single steps, so any thread may do either."""

    def __init__(self, defaults: Mapping[str, Limits]) -> None:
        self._defaults = defaults
        self._set: Mapping[tuple[str, str], Limits] = {}

    def replace(self, entries: Iterable[LimitsSet]) -> None:
        """Everything that is set now."""
        self._set = {(entry.provider, entry.family): entry.limits for entry in entries}

    def of(self, provider: str, family: str) -> Limits:
        """The family's own, else the provider's, else the default."""
        found = self._set.get((provider, family)) or self._set.get((provider, ANY_FAMILY))
        return found or self._defaults.get(provider, Limits())

    def of_key(self, key: str) -> Limits:
        """The limits of a bucket `provider:key digest:family`."""
        provider, _, family = key.split(":", 2)
        return self.of(provider, family)
