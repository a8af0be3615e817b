"""How long a training will still take, where the script doesn't say it itself."""

from __future__ import annotations

import time
from typing import Any


class Pace:
    """Seconds a step, pauses for saving included, since the first step of this process."""

    def __init__(self) -> None:
        self._first: tuple[float, int] | None = None

    def stepped(self, step: int) -> None:
        """Call once a step; the first one, which waits for the data to come, is only the start."""
        if self._first is None:
            self._first = (time.monotonic(), step)

    def seconds_a_step(self, step: int) -> float | None:
        """None before the second step."""
        if self._first is None or step <= self._first[1]:
            return None
        return (time.monotonic() - self._first[0]) / (step - self._first[1])


def remaining_hours(content: dict[str, Any], seconds_a_step: float | None) -> float | None:
    """From what the checkpoint holds: the rows left of this epoch and of those after it, at the pace so far.

    None where the epochs, the rows or the pace aren't known, and in packed mode, where a step is no number of rows.
    """
    epoch, epochs, data = content.get("epoch"), content.get("epochs"), content.get("data") or {}
    states, batch, rows = content.get("dataset"), (content.get("batch") or {}).get("global"), data.get("num_rows")
    if type(epoch) is not int or type(epochs) is not int or not (states and batch and rows and seconds_a_step):
        return None
    if "pack_buffers" in states[0]:
        return None
    splits = int(states[0]["num_splits"])
    usable = rows // splits * splits
    done = usable if content.get("epoch_complete") else min(usable, sum(states[0]["samples_consumed_per_split"]))
    left = usable - done + max(0, epochs - epoch) * usable
    return left / batch * seconds_a_step / 3600
