"""How often a training logs a step, and when it last did: from the lines' own times, else from the file's."""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Any

from lavender_tui.model.rhythm import (
    FEWEST_STEPS,
    STEPS_FLOOR_SECONDS,
    UNPROVED_FLOOR_SECONDS,
    Rhythm,
    rhythm_of_gaps,
)

RECENT = 200  # gaps of which the median is taken
_TIME_KEYS = ("time", "timestamp", "ts", "_timestamp", "wall_time")
_EARLIEST, _LATEST = 1e9, 1e11  # unix seconds; larger numbers are milliseconds


class StepClock:
    """Fed with each line of a metrics file, and with the file's time after each read. All instants are unix seconds.

    Only a step that moves counts: a line that repeats the last one is a heartbeat. Where lines have no time of their
    own, the gaps are those between reads, and what lies before the first read has no pauses that anybody knows.
    """

    def __init__(self) -> None:
        self.progressed_at: float | None = None  # when the step last moved, on the file server's clock
        self._gaps: deque[float] = deque(maxlen=RECENT)
        self._longest = 0.0
        self._step: int | None = None
        self._moved_own: float | None = None  # the own time of the last line that moved the step
        self._last_own: float | None = None  # of the last line at all
        self._is_dated = False  # lines have times of their own
        self._moved = 0  # since the last read
        self._steps = 0  # all that moved

    def take(self, step: int, record: dict[str, Any]) -> None:
        """One line of a step."""
        own = _own_time(record)
        self._last_own = own
        self._is_dated |= own is not None
        if step == self._step:
            return
        if own is not None and self._moved_own is not None and own > self._moved_own:
            self._note(own - self._moved_own)
        self._step, self._moved_own = step, own
        self._moved += 1
        self._steps += 1

    def begin(self) -> None:
        """The training began anew: the time until its first step is no pause."""
        self._moved_own = None

    def have_read(self, mtime: float) -> None:
        """The lines up to here are what the file had at `mtime`."""
        moved, self._moved = self._moved, 0
        if not moved:
            return
        since = self._since_last_move()
        before, self.progressed_at = self.progressed_at, mtime - since
        if not self._is_dated and before is not None and mtime > before:
            self._note((mtime - before) / moved, times=moved)

    def rhythm(self, began_at: float | None) -> Rhythm | None:
        """None for a log too short to have one. `began_at`: when the training began, for lines without times."""
        if len(self._gaps) >= FEWEST_STEPS:
            floor = STEPS_FLOOR_SECONDS if self._is_dated else UNPROVED_FLOOR_SECONDS
            return rhythm_of_gaps(self._gaps, floor, longest=self._longest)
        if self._steps < FEWEST_STEPS or began_at is None or self.progressed_at is None:
            return None
        lasted = self.progressed_at - began_at
        return rhythm_of_gaps([lasted / self._steps], UNPROVED_FLOOR_SECONDS) if lasted > 0 else None

    def _note(self, gap: float, times: int = 1) -> None:
        self._gaps.extend([gap] * min(times, RECENT))
        self._longest = max(self._longest, gap)

    def _since_last_move(self) -> float:
        """How long before the last line the step last moved."""
        if self._last_own is None or self._moved_own is None:
            return 0.0
        return max(0.0, self._last_own - self._moved_own)


def _own_time(record: dict[str, Any]) -> float | None:
    for key in _TIME_KEYS:
        value = record.get(key)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value).timestamp()
            except (ValueError, OverflowError, OSError):
                continue
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            seconds = value / 1000 if _LATEST < value < 1000 * _LATEST else value  # a far larger one is no float
            if _EARLIEST < seconds < _LATEST:
                return float(seconds)
    return None
