"""Where a loss jumped: found against the noise that it had before, so that noise alone is never taken for a jump.

A running median and its median absolute deviation (MAD) say what is usual; both stay what they are while single
values go wild. A jump is above both what the noise can do and a share of the usual loss, and it lasts: of the values
that follow at least half must stay there. To come down again has to last as well: what dips below the bound while most
around it is up is noise of the new level. A value that is no number is a jump by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lavender_tui.model.continuity import median
from lavender_tui.model.run import LossPoint

WINDOW = 64  # values before that say what is usual
LEAST = 4  # fewer say nothing
FOLLOWING = 7  # values, the first of the jump among them, of which most must be high
SURE = 3  # so many must be there for the usual measure; at the end of a series with fewer the share is larger
SIGMA = 1.4826  # MAD of normal noise × this = its standard deviation
DEVIATIONS, SHARE = 8.0, 0.25
STRICTER = 2.0
OF_THE_WAY = 0.05  # of the range since the beginning: near a loss of 0 a share of it means nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Spike:
    """A jump of the loss at `step`: from the usual `before` to `after`, None where that was no finite number.

    `index` is the place of its first value in the series; values above `limit` count as still up.
    """

    step: int
    index: int
    before: float
    after: float | None
    limit: float

    def __str__(self) -> str:
        after = "no number" if self.after is None else f"{self.after:.4g}"
        return f"at step {self.step} ({self.before:.4g} → {after})"


def newest_spike(points: Sequence[LossPoint]) -> Spike | None:
    """The last jump of the series, oldest value first; None where there is none.

    A loss that stays up has one jump, where it went up: what is high already doesn't say what is usual. Values after
    which it came down again do, so that a later jump is found as well.
    """
    found = spikes(points)
    return found[-1] if found else None


def spikes(points: Sequence[LossPoint]) -> tuple[Spike, ...]:
    """Every jump, oldest first."""
    values = [(index, point) for index, point in enumerate(points) if point.loss is not None or point.is_no_number]
    usual: list[float] = []
    lowest, highest = math.inf, -math.inf
    found: list[Spike] = []
    is_up = False
    for place, (index, point) in enumerate(values):
        bounds = _Bounds(usual, highest - lowest) if len(usual) >= LEAST else None
        above = bounds is not None and bounds.is_above(point.loss)
        if point.loss is None and not usual:
            continue  # never was a number: nothing to go back to
        if point.loss is None or (above and is_up) or _lasts(values[place : place + FOLLOWING], bounds, is_up, above):
            if not is_up:
                middle = median(usual)
                highest_usual = bounds.usual if bounds is not None else middle + SHARE * abs(middle)
                found.append(Spike(step=point.step, index=index, before=middle, after=point.loss, limit=highest_usual))
            is_up = True
            continue
        is_up = False
        if above:
            continue  # alone: noise, which says nothing of what is usual
        usual = [*usual[1 - WINDOW :], point.loss]
        lowest, highest = min(lowest, point.loss), max(highest, point.loss)
    return tuple(found)


def is_still_up(spike: Spike, values: Sequence[float | None]) -> bool:
    """Are most of the last of these values, oldest first, as high as the jump, or no numbers?"""
    last = values[-FOLLOWING:]
    return 2 * sum(value is None or value > spike.limit for value in last) > len(last)


class _Bounds:
    """How high a value has to be to be up, by what was usual before."""

    def __init__(self, usual: Sequence[float], way: float) -> None:
        middle = median(usual)
        noise = DEVIATIONS * SIGMA * median([abs(value - middle) for value in usual])
        share = max(SHARE * abs(middle), OF_THE_WAY * way)
        self.usual = middle + max(noise, share)
        self.at_the_end = middle + max(noise, STRICTER * share)

    def is_above(self, value: float | None) -> bool:
        return value is None or value > self.usual


def _lasts(following: Sequence[tuple[int, LossPoint]], bounds: _Bounds | None, is_up: bool, above: bool) -> bool:
    """Is most of what follows up? That begins a jump with a value that is up, and goes on over one that dips.

    At the very end, where too little follows to say so, all there is must be far up.
    """
    if bounds is None or not (above or is_up):
        return False
    if len(following) < SURE:
        return all(point.loss is None or point.loss > bounds.at_the_end for _, point in following)
    return 2 * sum(bounds.is_above(point.loss) for _, point in following) > len(following)
