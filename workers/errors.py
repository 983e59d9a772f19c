"""The error tree. A class says who is at fault and whether trying again can help; the message says
what was wrong, where, and what would be right. Nothing here knows HTTP statuses or exit codes."""

from __future__ import annotations


class ConsensusError(Exception):
    """Every error that Consensus raises on purpose."""


class InputError(ConsensusError):
    """The caller's input is wrong; the message says what would be right."""


class SpecError(InputError):
    """A spec is empty, too large or not text."""


class SpecLinesError(InputError):
    """Lines of a batch cannot be used, so none is. `faults`: the first of them by number; `count`: all."""

    def __init__(self, message: str, *, faults: tuple[tuple[int, str], ...], count: int) -> None:
        super().__init__(message)
        self.faults = faults
        self.count = count


class MediaTypeError(InputError):
    """A body is of a kind that cannot be read; the message names those that can."""


class BodyTooLargeError(InputError):
    """A body is larger than is accepted; the message says how much is."""


class ManifestError(InputError):
    """A team file is invalid; each of `faults` names file, line, field and the allowed values."""

    def __init__(self, *faults: str) -> None:
        others = len(faults) - 1
        more = f" (and {others} more: `consensus teams validate` lists them)" if others else ""
        super().__init__(faults[0] + more)
        self.faults = faults


class UnknownTeamError(InputError):
    """No team answers to that name; the message lists those that exist."""


class SettingsError(InputError):
    """A setting in the environment cannot be used."""


class KeyRefusedError(ConsensusError):
    """No key came with the request, or one that does not hold (any more)."""


class ForbiddenError(ConsensusError):
    """Who asks is known, and may not do this; the message says what would be needed."""


class TooManyRequestsError(ConsensusError):
    """A key asks more often than it may."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class NotFoundError(ConsensusError):
    """No such run, call or payload for this tenant."""


class IdempotencyConflictError(ConsensusError):
    """The same Idempotency-Key came with another body."""


class StateError(ConsensusError):
    """The run is not in a state that allows this."""


class TrajectoryError(InputError):
    """A trajectory file cannot be read; names file, position and field."""


class SarifError(InputError):
    """A file of alarms is no SARIF; names the place in it."""


class AddressRefusedError(InputError):
    """A URL leads where we do not go; the message is a clause without its subject, the URL."""

    def __init__(self, message: str, *, is_private: bool = False) -> None:
        super().__init__(message)
        #: The operator of this installation could allow it.
        self.is_private = is_private


class UnavailableError(ConsensusError):
    """A service we need (database, broker, API) does not answer; trying later can help."""


class DeadlockError(UnavailableError):
    """The database broke this transaction off so that another could go on; the same again will do."""


class CageError(UnavailableError):
    """The cage broke, not the program in it; a later attempt can help."""


class GovernorError(ConsensusError):
    """No slot was granted."""


class SlotTimeoutError(GovernorError):
    """The wait for a slot would be longer than the caller can sit through."""

    def __init__(self, message: str, *, wait_seconds: float, is_held: bool = False) -> None:
        """`is_held`: nobody can be asked at all, so that coming back costs the seat none of its tries."""
        super().__init__(message)
        self.wait_seconds = wait_seconds
        self.is_held = is_held


class StoreLostError(GovernorError):
    """The shared store does not answer; the governor falls back to this process's share."""
