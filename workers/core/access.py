"""Who may do what."""

from __future__ import annotations

from enum import StrEnum


class Scope(StrEnum):
    """What a key is for. Each includes those before it."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"

    def includes(self, needed: Scope) -> bool:
        """Whether who holds this may do what needs the other."""
        order = tuple(Scope)
        return order.index(self) >= order.index(needed)
