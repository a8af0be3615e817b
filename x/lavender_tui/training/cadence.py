"""When to save and which step it is: a clock that only rank 0 looks at, and a count that follows the script's own."""

from __future__ import annotations

import time

RETRY_SECONDS = 60.0  # after a save that failed: sooner than the next one, not at once again


class Cadence:
    """Due `every_seconds` after the last save. Uses the monotonic clock: a clock set back delays no save."""

    def __init__(self, every_seconds: float) -> None:
        self.every_seconds = every_seconds
        self._next = time.monotonic() + every_seconds

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._next

    def saved(self) -> None:
        self._next = time.monotonic() + self.every_seconds

    def failed(self) -> None:
        self._next = time.monotonic() + min(RETRY_SECONDS, self.every_seconds)


class StepCount:
    """The global_step at a save: what the script says, else its last `log(step=)`, else its `maybe_save` calls.

    `is_exact` tells what may be held against the data: a step named for this save, or logged since the last call.
    `is_untouched`: nothing has happened yet, so that the value is the start itself.
    """

    def __init__(self, start: int = 0) -> None:
        self.value = start
        self.is_exact = False
        self.is_untouched = True
        self._logged_since_call = False

    def logged(self, step: int) -> None:
        self.named(step)
        self._logged_since_call = True

    def called(self) -> None:
        """One `maybe_save`, which a script calls once a step, after `log` where it logs that step."""
        if not self._logged_since_call:
            self.value, self.is_exact = self.value + 1, False
        self._logged_since_call = self.is_untouched = False

    def named(self, step: int) -> None:
        self.value, self.is_exact, self.is_untouched = step, True, False
