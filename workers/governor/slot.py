"""What the holder of a slot says about its call; sent when the slot ends. No I/O."""

from __future__ import annotations

from workers.governor.base import Settlement, Spent


class Slot:
    """One call's permission to start. Say at most how it ended; saying nothing leaves the estimate standing.

    `waited_seconds`: from asking for the slot to holding it."""

    def __init__(self, waited_seconds: float) -> None:
        self.waited_seconds = waited_seconds
        self._spent: Spent | None = None
        self._is_sent = True
        self._is_served = True

    def settle(self, spent: Spent) -> None:
        """The call really used this much; the difference to the estimate is booked with the release."""
        self._spent = spent

    def not_sent(self) -> None:
        """The call failed before a byte was sent: everything it took comes back with the release."""
        self._is_sent = False

    def refused(self) -> None:
        """The provider did not serve the call, and bills nothing for it."""
        self._spent, self._is_served = Spent(input_tokens=0, output_tokens=0), False

    def settlement(self, *, ended_well: bool) -> Settlement:
        """`ended_well`: the body raised nothing, so the provider served it."""
        if not self._is_sent:
            return Settlement(is_sent=False)
        return Settlement(spent=self._spent, is_success=ended_well and self._is_served)
