"""Choosing the checkpoint to resume from: newest usable, never by name as text, never by file time alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.run import Run, started_at_from_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The chosen checkpoint, if any, and every newer one with the reason why it was passed over, newest first."""

    run: Run | None
    checkpoint: Checkpoint | None
    passed_over: tuple[tuple[str, str], ...] = ()


def in_run(checkpoints: Iterable[Checkpoint], stage: str | None = None) -> Choice:
    """The newest usable checkpoint of one run: the highest save_count whose content is whole and of the stage."""
    passed: list[tuple[str, str]] = []
    for checkpoint in sorted(checkpoints, key=lambda one: one.order, reverse=True):
        if stage is not None and not _may_be_of(checkpoint, stage):
            continue
        why_not = why_passed_over(checkpoint)
        if why_not is None:
            return Choice(run=None, checkpoint=checkpoint, passed_over=tuple(passed))
        passed.append((checkpoint.path, why_not))
    return Choice(run=None, checkpoint=None, passed_over=tuple(passed))


def over_runs(runs: Sequence[Run], stage: str | None = None) -> Choice:
    """The newest run (by its start) that has a usable checkpoint of the stage, and in it the highest save_count.

    save_counts are never compared over runs: each run counts for itself.
    """
    passed: list[tuple[str, str]] = []
    for run in sorted(runs, key=run_order, reverse=True):
        choice = in_run(run.checkpoints, stage)
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


def _may_be_of(checkpoint: Checkpoint, stage: str) -> bool:
    """By content; a file that can't be read is named among the passed-over ones of its name's stage."""
    if checkpoint.stage is not None:
        return (
            stage in (checkpoint.stage, checkpoint.name_stage)
            if checkpoint.name_disagrees
            else checkpoint.stage == stage
        )
    return checkpoint.name_stage in (stage, None)
