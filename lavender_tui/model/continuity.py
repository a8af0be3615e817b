"""Does a curve go on where it was cut? The curve's own noise is the measure, and no single value decides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lavender_tui.model.run import LossPoint

LEAST = 3  # so many new losses at least: their median outvotes one unlucky value
FEW = 5  # and no more than these count: a model that has to learn again soon looks like one that never stopped
LOOKED_BACK = 200  # points of the old curve; what came long before tells nothing of the noise now
NORMAL_MAD = 1.4826  # a normal distribution's standard deviation, from its median absolute deviation
SIGMAS = 6.0
HABIT = 1.5  # a step up that much larger than any in the old curve itself


@dataclass(frozen=True, slots=True)
class Judged:
    agrees: bool
    words: str


def compare(
    before: Sequence[float | None],
    after: Sequence[float | None],
    *,
    reference: float | None = None,
    both_ways: bool = True,
) -> Judged | None:
    """The first losses after the cut against the last ones before it; None where there is nothing to compare.

    The median of the first few against the median of the last few. They may differ by 6 standard deviations of the
    old curve's noise (from the median absolute deviation of its differences), by one and a half times what the same
    two medians differ by anywhere else in it, or by a few percent: by the largest of these. `reference` stands for a
    curve that isn't there (the loss in the checkpoint). Downwards it takes twice as much, and `both_ways`.
    """
    old, new = _finite(before)[-LOOKED_BACK:], _finite(after[:FEW])
    level = median(old[-FEW:]) if old else reference
    if level is None or not math.isfinite(level):
        return None
    if 2 * len(new) <= min(len(after), FEW):
        return Judged(False, f"jumped: loss {shown(level)} → no number")
    now = median(new)
    noise = old if len(old) >= LEAST else [*old, *new]  # better the new curve's noise than none
    up, down = tolerances(noise, level, is_known=len(old) >= LEAST)
    if level - (2 * down if both_ways else math.inf) <= now <= level + up:
        return Judged(True, f"loss {shown(level)} → {shown(now)}")
    return Judged(False, f"jumped: loss {shown(level)} → {shown(now)}")


def tolerances(values: Sequence[float], level: float, *, is_known: bool = True) -> tuple[float, float]:
    """(how far up, how far down) the median of the next few values may lie."""
    steps = [later - earlier for earlier, later in itertools.pairwise(values)]
    slope = median(steps) if steps else 0.0
    spread = median([abs(step - slope) for step in steps]) if steps else 0.0
    sigma = NORMAL_MAD * spread / math.sqrt(2)  # of a difference of two values to that of one
    count = max(1, len(values))
    floor = abs(level) * (0.05 + 0.4 / count if is_known else 0.3)
    noise = max(SIGMAS * sigma * (1 + 6 / count), floor)
    moves = habits(values)
    up = max([noise, 2 * FEW * max(0.0, slope), *(HABIT * move for move in moves)])
    down = max([noise, 2 * FEW * max(0.0, -slope), *(-HABIT * move for move in moves)])
    return up, down


def habits(values: Sequence[float]) -> list[float]:
    """What the medians before and after differ by, for every place at which the old curve itself could be cut."""
    return [
        median(values[cut : cut + FEW]) - median(values[cut - FEW : cut]) for cut in range(FEW, len(values) - LEAST + 1)
    ]


def stride(points: Sequence[LossPoint]) -> int:
    """How many steps lie between two logged ones, usually; 0 for less than two points."""
    gaps = [later.step - earlier.step for earlier, later in itertools.pairwise(points) if later.step > earlier.step]
    return int(median(gaps)) if gaps else 0


def median(values: Sequence[float]) -> float:
    """Own, since the statistics module is slow to import. At least one value."""
    ordered, middle = sorted(values), len(values) // 2
    return ordered[middle] if len(ordered) % 2 else ordered[middle - 1] / 2 + ordered[middle] / 2


def shown(loss: float) -> str:
    """Short, as one says it: "2.1", "0.043"."""
    return f"{loss:.1f}" if 1 <= abs(loss) < 1000 else f"{loss:.2g}"


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
