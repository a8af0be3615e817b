"""Axes: where their ticks stand and what is written at them. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from itertools import pairwise

_GREAT, _SMALL = 1e6, 1e-3  # from there on, and below it, numbers are written with an exponent
_ROUND = (1, 2, 5, 10)
_LAST_POWER = sys.float_info.max_10_exp
_FEW = 4  # ticks of a log scale: with less of them nobody reads a value off


def ticks(low: float, high: float, most: int, *, is_whole: bool = False) -> list[float]:
    """Round numbers from `low` to `high`, evenly spaced, at most `most` + 1 of them; whole ones if asked for.

    Any two finite numbers will do, those as well whose distance is no float.
    """
    step = _step(low, high, most)
    if is_whole:
        step = max(1.0, step)
    if not step:
        return [low]
    if not math.isfinite(step):
        return [0.0]  # between the two: it is more than either
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return list(dict.fromkeys(number * step for number in range(first, last + 1)))  # some may be one float


def _step(low: float, high: float, most: int) -> float:
    """1, 2 or 5 times a power of ten; 0 where the span is too small for any float to divide it, infinite where it is
    too great."""
    raw = high / max(1, most) - low / max(1, most)
    if raw <= 0 or not math.isfinite(raw):
        return max(0.0, raw)
    power = 10.0 ** math.floor(math.log10(raw))
    return next((times * power for times in _ROUND if times * power >= raw * (1 - 1e-9)), 0.0)


def log_ticks(low: float, high: float, most: int) -> list[float]:
    """1, 2, 5, 10, 20 …, all of 1 to 9 where there is room; of many decades only powers of ten, of less than one the
    same numbers as on a scale that isn't logarithmic. `low` is above 0."""
    first, last = math.floor(math.log10(low)), min(_LAST_POWER, math.ceil(math.log10(high)))
    least, greatest = low * (1 - 1e-9), min(high * (1 + 1e-9), sys.float_info.max)
    found: list[float] = []
    for times in (range(1, 10), (1, 2, 5), (1,)):
        found = [one * 10.0**power for power in range(first, last + 1) for one in times]
        found = [one for one in found if least <= one <= greatest]
        if len(found) <= most + 1:
            break
    if len(found) < min(_FEW, most) and high < 10 * low:
        return ticks(low, high, most)
    return found[:: max(1, math.ceil((len(found) - 1) / max(1, most)))]


def labels(values: Sequence[float]) -> list[str]:
    """What is written at evenly spaced ticks: all with as many figures as tell them apart."""
    greatest = max(map(abs, values), default=0.0)
    gap = min((after - before for before, after in pairwise(values)), default=greatest) or 1.0
    places = math.floor(math.log10(gap) + 1e-9) if 0 < gap < math.inf else 0
    if greatest >= 10 * _GREAT or 0 < greatest < _SMALL:
        figures = max(0, min(6, math.floor(math.log10(greatest)) - places))
        return [_exponent(f"{value:.{figures}e}") if value else "0" for value in values]
    return [f"{value:,.{max(0, min(9, -places))}f}" for value in values]


def log_labels(values: Sequence[float]) -> list[str]:
    """What is written at ticks of a log scale: each number by itself, never its exponent alone."""
    gaps = [after - before for before, after in pairwise(values)]
    if len(gaps) > 1 and math.isclose(min(gaps), max(gaps), rel_tol=1e-6):
        return labels(values)
    return [f"{value:,.6g}" if _SMALL <= value < _GREAT else _exponent(f"{value:.0e}") for value in values]


def _exponent(words: str) -> str:
    """2.5e-04 as 2.5e-4."""
    mantissa, e, power = words.partition("e")
    return f"{mantissa}e{int(power)}" if e else words
