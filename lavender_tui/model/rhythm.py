"""A training's own rhythm, of its saves or its logged steps, and from when on a silence is more than one of its pauses.

Pure: instants and gaps in, seconds out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

STALL_INTERVALS = 3  # a silence of more than that many of its own usual intervals is a stall
PAUSE_FACTOR = 1.5  # an evaluation or a compile may last that much longer than the longest pause so far
SAVES_FLOOR_SECONDS = 6.0  # whatever the rhythm, a shorter silence than this says nothing
STEPS_FLOOR_SECONDS = 60.0  # a data loader that waits for a network mount, a save of a large model
UNPROVED_FLOOR_SECONDS = 300.0  # where the pauses of its past aren't known, only how many steps there were
FEWEST_STEPS = 8  # intervals between steps that make a rhythm


@dataclass(frozen=True, slots=True)
class Rhythm:
    """`usual_seconds` is the median interval, `longest_seconds` the longest pause that it came back from."""

    usual_seconds: float
    longest_seconds: float
    floor_seconds: float

    @property
    def patience_seconds(self) -> float:
        """A silence longer than this is a stall."""
        by_usual, by_longest = STALL_INTERVALS * self.usual_seconds, PAUSE_FACTOR * self.longest_seconds
        return max(self.floor_seconds, by_usual, by_longest)


def rhythm_of_gaps(gaps: Sequence[float], floor_seconds: float, *, longest: float = 0.0) -> Rhythm | None:
    """None without gaps; `longest` is that of older gaps that aren't among them."""
    if not gaps:
        return None
    return Rhythm(median(gaps), max(longest, *gaps), floor_seconds)


def rhythm_of_saves(instants: Sequence[float | None], *, begun_at: float | None = None) -> Rhythm | None:
    """From when each save was made, oldest first. A gap in which the process began anew (`begun_at`) is no pause."""
    pairs = [(a, b) for a, b in itertools.pairwise(instants) if a is not None and b is not None and b > a]
    lived = [b - a for a, b in pairs if begun_at is None or not a < begun_at <= b]
    return rhythm_of_gaps(lived or [b - a for a, b in pairs], SAVES_FLOOR_SECONDS)


def median(values: Sequence[float]) -> float:
    """Own, since the statistics module costs the first frame more than all that it is needed for."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
