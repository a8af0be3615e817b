"""Choosing the checkpoint to resume from: newest usable, never by name as text, never by file time alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.run import Run, started_at_from_name

NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen checkpoint, if any, and every newer one with the reason why it was passed over, newest first."""

    run: Run | None
    checkpoint: Checkpoint | None
    passed_over: tuple[tuple[str, str], ...] = ()


def in_run(
    checkpoints: Iterable[Checkpoint],
    stage: str | None = None,
    *,
    but_not: str | None = None,
    bad: Mapping[str, str] = NOTHING,
) -> Choice:
    """The newest usable checkpoint of one run: the highest save_count whose content is whole and of the stage.

    `but_not` leaves a stage out. `bad` has the known bad ones, path -> why: they are passed over as long as there is
    another one in the run, for a suspicion is no reason to take an older run.
    """
    passed: list[tuple[str, str]] = []
    suspect: Choice | None = None
    for checkpoint in sorted(checkpoints, key=lambda one: one.order, reverse=True):
        if not _is_wanted(checkpoint, stage, but_not):
            continue
        why_not = why_passed_over(checkpoint)
        if why_not is None and checkpoint.path not in bad:
            return Choice(run=None, checkpoint=checkpoint, passed_over=tuple(passed))
        if why_not is None and suspect is None:
            suspect = Choice(run=None, checkpoint=checkpoint, passed_over=tuple(passed))
        passed.append((checkpoint.path, why_not or bad[checkpoint.path]))
    return suspect or Choice(run=None, checkpoint=None, passed_over=tuple(passed))


def over_runs(
    runs: Sequence[Run],
    stage: str | None = None,
    *,
    but_not: str | None = None,
    bad: Callable[[Run], Mapping[str, str]] = lambda run: NOTHING,
) -> Choice:
    """The newest run (by its start) that has a usable checkpoint of the stage, and in it the highest save_count.

    save_counts are never compared over runs: each run counts for itself. `bad` says of a run, when it is looked at,
    which of its checkpoints are known bad.
    """
    passed: list[tuple[str, str]] = []
    for run in sorted(runs, key=run_order, reverse=True):
        if not run.checkpoints:
            continue
        choice = in_run(run.checkpoints, stage, but_not=but_not, bad=bad(run))
        passed += choice.passed_over
        if choice.checkpoint is not None:
            return Choice(run=run, checkpoint=choice.checkpoint, passed_over=tuple(passed))
    return Choice(run=None, checkpoint=None, passed_over=tuple(passed))


def run_order(run: Run) -> tuple[float, str]:
    """Runs by their start: the name's instant, else the recorded start, else the first save. The path breaks a tie."""
    started = started_at_from_name(run.name)
    if started is None:
        started = run.started_at
    if started is None:
        saves = [checkpoint.facts.mtime_ns / 1e9 for checkpoint in run.checkpoints]
        started = min(saves) if saves else 0.0
    return started, run.path


def why_passed_over(checkpoint: Checkpoint) -> str | None:
    """Why this checkpoint is no default, in words; None if it may be one."""
    if not checkpoint.is_whole:
        return checkpoint.reason or checkpoint.wholeness.value
    if checkpoint.name_disagrees:
        return f"its name says {checkpoint.name_stage}, its content {checkpoint.stage}"
    if not checkpoint.has_model:
        return "holds no model weights"
    return None


def _is_wanted(checkpoint: Checkpoint, stage: str | None, but_not: str | None) -> bool:
    if but_not is not None and but_not in (checkpoint.stage, checkpoint.name_stage):
        return False
    return stage is None or _may_be_of(checkpoint, stage)


def _may_be_of(checkpoint: Checkpoint, stage: str) -> bool:
    """By content; a file that can't be read is named among the passed-over ones of its name's stage."""
    if checkpoint.stage is not None:
        return (
            stage in (checkpoint.stage, checkpoint.name_stage)
            if checkpoint.name_disagrees
            else checkpoint.stage == stage
        )
    return checkpoint.name_stage in (stage, None)
