"""The learning rate's schedules that a checkpoint holds, and what torch's own do after their end.

A state dict names no class. What comes next is told only of one with exactly the keys of a class of torch (measured
with torch 2.13): a class of one's own may clamp, or fall to something else than 0.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from lavender_tui.checkpoints.scalars import plain

SCHEDULER_KEYS = ("scheduler_state_dict", "lr_scheduler_state_dict", "lr_scheduler", "scheduler", "lr_schedulers")
_LENGTHS = ("T_max", "total_steps", "total_iters")
# What every scheduler of torch has, of one version or another.
_COMMON = frozenset(
    ("base_lrs", "last_epoch", "verbose", "_step_count", "_last_lr", "_get_lr_called_within_step", "_is_initial")
)
_PARTS, _MILESTONES = "_schedulers", "_milestones"
_DEEPEST = 4  # a schedule of schedules in a list; what a file holds may also lead back into itself
_MOST_PARTS = 10_000  # looked at: what is larger was made to be, and is no schedule


class End(StrEnum):
    """What the next step does once the length is reached."""

    SWINGS = "CosineAnnealingLR is periodic"
    RAISES = "OneCycleLR knows no step more"
    ZERO = "PolynomialLR stays at 0, and LinearLR where it ends there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`end`: None where nobody can say, or where it merely stays as it is. `where`: which of several it is."""

    counter: int
    length: tuple[str, int] | None
    end: End | None
    where: str = ""

    @property
    def is_over(self) -> bool:
        """And its next step is worth a word."""
        return self.end is not None and self.length is not None and self.counter >= self.length[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """`key`: what holds them, None where nothing does. `is_too_large`: to be schedules, so that none are told."""

    key: str | None = None
    schedules: tuple[Schedule, ...] = ()
    is_too_large: bool = False


def saved_schedules(top: dict[Any, Any]) -> Saved:
    """Those of a checkpoint that count."""
    for key in SCHEDULER_KEYS:
        value = top.get(key)
        if type(value) in (dict, list, tuple) and value:
            search = _Search()
            found = tuple(search.found(value, _DEEPEST))
            return Saved(key=key, is_too_large=True) if search.is_over else Saved(key=key, schedules=found)
    return Saved()


@dataclass(slots=True)
class _Search:
    """Each object is looked at once: a few that refer to each other over and over are a number of paths without end."""

    seen: set[int] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return len(self.seen) > _MOST_PARTS

    def found(self, value: Any, depth: int) -> Iterator[Schedule]:
        if depth == 0 or id(value) in self.seen or self.is_over:
            return
        self.seen.add(id(value))
        if type(value) in (list, tuple):
            yield from self._each(value, "schedule", depth)
        elif type(value) is dict and value:
            yield from self._in_dict(value, depth)

    def _in_dict(self, value: dict[Any, Any], depth: int) -> Iterator[Schedule]:
        counter = whole(value.get("last_epoch"))
        own = frozenset(value) - _COMMON
        if own == {_PARTS, _MILESTONES} and counter is not None:
            yield from self._active(value, counter, depth)
        elif own == {_PARTS}:
            yield from self._each(value[_PARTS], "part", depth)
        elif counter is not None:
            length = _length(value)
            yield Schedule(counter=counter, length=length, end=_end(value, own))
        else:
            for inner in value.values():
                if type(inner) is dict:
                    yield from self.found(inner, depth - 1)

    def _each(self, values: Any, kind: str, depth: int) -> Iterator[Schedule]:
        """Of several that all count at once."""
        if type(values) not in (list, tuple):
            return
        for at, one in enumerate(values, 1):
            if type(one) is dict:
                where = f", {kind} {at} of {len(values)}" if len(values) > 1 else ""
                yield from (replace(found, where=f"{where}{found.where}") for found in self.found(one, depth - 1))

    def _active(self, value: dict[Any, Any], counter: int, depth: int) -> Iterator[Schedule]:
        """Of a SequentialLR the part that counts now: nothing is told of its end where the next step begins another."""
        parts, milestones = value[_PARTS], value[_MILESTONES]
        if type(parts) not in (list, tuple) or type(milestones) not in (list, tuple):
            return
        if not all(type(one) is int for one in milestones):
            return
        at = bisect_right(milestones, counter)
        if at >= len(parts) or type(parts[at]) is not dict:
            return
        is_last_step = bisect_right(milestones, counter + 1) != at
        for found in self.found(parts[at], depth - 1):
            where = f", part {at + 1} of {len(parts)}{found.where}"
            yield replace(found, where=where, end=None if is_last_step else found.end)


def _length(value: dict[Any, Any]) -> tuple[str, int] | None:
    lengths = ((key, whole(value.get(key))) for key in _LENGTHS)
    return next(((key, length) for key, length in lengths if length is not None and length > 0), None)


def _end(value: dict[Any, Any], own: frozenset[Any]) -> End | None:
    if own == {"T_max", "eta_min"}:
        return End.SWINGS
    if own - {"use_beta1"} == {"total_steps", "_schedule_phases", "_anneal_func_type", "cycle_momentum"}:
        return End.RAISES
    if own == {"total_iters", "power"}:
        return End.ZERO
    is_linear = own == {"total_iters", "start_factor", "end_factor"}
    return End.ZERO if is_linear and plain(value["end_factor"]) == 0 else None


def whole(value: Any) -> int | None:
    """Also one that a division left as a float: 100 / 10."""
    value = plain(value)
    if type(value) is float and value.is_integer() and abs(value) < 1e15:
        return int(value)
    return value if type(value) is int else None
