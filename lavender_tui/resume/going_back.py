"""Back before the loss jumped: the newest checkpoint that the jump hasn't reached, over the runs that led to it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import in_run, run_order, why_passed_over
from lavender_tui.model.run import LossPoint, Run
from lavender_tui.model.spikes import Spike, is_still_up, newest_spike

MOST_GENERATIONS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Back:
    """`checkpoint` None: `problem` says why. `spike` is the jump that was found, `reached` the saves made after it."""

    run: Run | None = None
    checkpoint: Checkpoint | None = None
    passed_over: tuple[tuple[str, str], ...] = ()
    spike: Spike | None = None
    problem: str = ""
    reached: frozenset[str] = frozenset()  # paths


@dataclass(frozen=True, slots=True)
class _Save:
    run: Run
    checkpoint: Checkpoint


def before_spike(
    runs: Sequence[Run],
    stage: str | None,
    *,
    find: Callable[[str], Run | None],
    bad: Callable[[Run], Mapping[str, str]],
) -> Back:
    """The newest usable checkpoint from before the newest jump, in the newest run and those that it came from.

    `find` gives the run of a directory that is none of `runs`; `bad` the known bad checkpoints of a run.
    """
    newest = next((run for run in sorted(runs, key=run_order, reverse=True) if _has_a_part(run, stage)), None)
    if newest is None:
        return Back(problem="no run has a loss or a checkpoint")
    line = _line(newest, {os.path.realpath(run.path): run for run in runs}, find)
    saves = [one for one in _saves(line) if stage is None or one.checkpoint.stage == stage]
    points, reached = _series(line, saves)
    spike = newest_spike(points)
    if spike is None:
        return Back(problem=f"the loss of {newest.name} has no jump ({len(points)} values)")
    after = frozenset(one.checkpoint.path for place, one in enumerate(saves) if reached(place, spike))
    passed: list[tuple[str, str]] = []
    for one in reversed(saves):
        why = _why_not(one, one.checkpoint.path in after, spike, bad)
        if why is None:
            return Back(run=one.run, checkpoint=one.checkpoint, passed_over=tuple(passed), spike=spike, reached=after)
        passed.append((one.checkpoint.path, why))
    problem = f"no usable checkpoint is from before the jump {spike}"
    return Back(passed_over=tuple(passed), spike=spike, problem=problem, reached=after)


def behind_a_spike(
    run: Run, checkpoint: Checkpoint, *, find: Callable[[str], Run | None], bad: Callable[[Run], Mapping[str, str]]
) -> Back | None:
    """Where to go back to, if the loss jumped in this run before the checkpoint was saved and hasn't come down again.

    None where it didn't. The runs before are looked at only where there is such a jump: reading them takes its time.
    """
    here = before_spike([run], checkpoint.stage, find=lambda _: None, bad=bad)
    if here.spike is None or checkpoint.path not in here.reached:
        return None
    if not is_still_up(here.spike, _losses_between(run, here.spike.step, checkpoint)):
        return None
    if here.checkpoint is not None or run.resumed_from is None:
        return here
    return before_spike([run], checkpoint.stage, find=find, bad=bad)


def _losses_between(run: Run, first: int, checkpoint: Checkpoint) -> list[float | None]:
    """The losses from step `first` to the checkpoint, else its own."""
    if run.losses_by == "step" and checkpoint.step is not None:
        logged = [one for one in run.losses if first <= one.step <= checkpoint.step]
        found = [one.loss for one in logged if one.loss is not None or one.is_no_number]
        if found:
            return found
    return [checkpoint.loss]


def _has_a_part(run: Run, stage: str | None) -> bool:
    return bool(run.losses) or in_run(run.checkpoints, stage).checkpoint is not None


def _line(run: Run, known: Mapping[str, Run], find: Callable[[str], Run | None]) -> list[tuple[Run, str | None]]:
    """The run and those that it came from, oldest first, each with the checkpoint at which the next one left it."""
    line: list[tuple[Run, str | None]] = [(run, None)]
    seen = {os.path.realpath(run.path)}
    while (lineage := line[-1][0].resumed_from) is not None and len(line) < MOST_GENERATIONS:
        place = os.path.realpath(lineage.run)
        before = known.get(place) or find(lineage.run)
        if before is None or place in seen or _is_of_another_stage(line[-1][0], before, lineage.checkpoint):
            break
        seen.add(place)
        line.append((before, lineage.checkpoint))
    return line[::-1]


def _is_of_another_stage(run: Run, before: Run, left_at: str | None) -> bool:
    """Then its losses compare with nothing here. A new stage counts its steps from its own start."""
    left = next((one for one in before.checkpoints if left_at and _is_same(one.path, left_at)), None)
    if left is None:
        return False
    if run.newest is not None and None not in (run.newest.stage, left.stage) and run.newest.stage != left.stage:
        return True
    return bool(run.losses) and left.step is not None and run.losses[0].step <= left.step


def _saves(line: Sequence[tuple[Run, str | None]]) -> list[_Save]:
    """Every save that the weights of the newest run went through, oldest first."""
    return [_Save(run, one) for run, left_at in line for one in run.checkpoints[: _until(run, left_at)]]


def _until(run: Run, left_at: str | None) -> int | None:
    """How many of its checkpoints were made before it was left; None: all."""
    names = [os.path.basename(one.path) for one in run.checkpoints]
    name = os.path.basename(left_at) if left_at else None
    return names.index(name) + 1 if name in names else None


def _series(
    line: Sequence[tuple[Run, str | None]], saves: Sequence[_Save]
) -> tuple[list[LossPoint], Callable[[int, Spike], bool]]:
    """(the losses, oldest first; whether a jump in them has reached the save of a place).

    By the logged steps where every save knows its step: the loss of step s + 1 is what the weights of step s make, so
    the save must be older than that. Else by the losses of the saves themselves.
    """
    if saves and all(one.checkpoint.step is not None for one in saves if one.checkpoint.is_whole):
        points: list[LossPoint] = []
        for run, left_at in line:
            last = next((one.step for one in run.checkpoints if left_at and _is_same(one.path, left_at)), None)
            points += [point for point in run.losses if last is None or point.step <= last]
        return points, lambda place, spike: (saves[place].checkpoint.step or 0) + 1 >= spike.step
    at_saves = [
        LossPoint(
            step=one.checkpoint.step or one.checkpoint.save_count or place,
            loss=one.checkpoint.loss,
            is_no_number=one.checkpoint.loss_is_no_number,
        )
        for place, one in enumerate(saves)
    ]
    return at_saves, lambda place, spike: place >= spike.index


def _is_same(path: str, other: str) -> bool:
    return os.path.basename(path) == os.path.basename(other)


def _why_not(save: _Save, is_reached: bool, spike: Spike, bad: Callable[[Run], Mapping[str, str]]) -> str | None:
    one = save.checkpoint
    unusable = why_passed_over(one)
    if unusable is not None:
        return unusable
    if is_reached:
        return f"not from before the jump of the loss {spike}"
    if one.loss is None and one.loss_text is not None:
        return f"its loss is {one.loss_text}"
    return bad(save.run).get(one.path)
