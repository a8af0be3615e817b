"""What checkpoints cost, how long the disk lasts, and which of them could go. Pure: runs in, decisions out.

Nothing here deletes; what is kept is kept for a reason that can be said. Never to go: the newest whole checkpoint of
each stage of a run, what another run was resumed from, and every file that wasn't read as a whole checkpoint, for what
isn't understood isn't ours to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.lineage import Family
from lavender_tui.model.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """How many of a run's whole checkpoints stay: the newest `last`, and the `best` of lowest loss, of each stage."""

    last: int = 1
    best: int = 0

    def __post_init__(self) -> None:
        if self.last < 1 or self.best < 0:
            raise ValueError("at least the newest checkpoint is kept, and no negative number of best ones")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """One checkpoint: may it go, and why not. `why` is "" for what may go."""

    run: Run
    checkpoint: Checkpoint
    why: str = ""

    @property
    def may_go(self) -> bool:
        return not self.why

    @property
    def size_bytes(self) -> int:
        """Of the checkpoint's own file; the rank files beside it come on top."""
        return self.checkpoint.facts.size_bytes


def fates(runs: Iterable[Run], rules: KeepRules) -> list[Fate]:
    """Of every checkpoint of the runs, oldest first in each run. All runs must be given: who was resumed from whom
    decides."""
    runs = tuple(runs)
    sources = _sources(runs)
    return [
        Fate(run=run, checkpoint=checkpoint, why=why)
        for run in runs
        for checkpoint, why in _of_run(run, rules, sources)
    ]


def _sources(runs: Sequence[Run]) -> dict[str, str]:
    """Path of each checkpoint that a run was resumed from → that run's name."""
    family = Family(runs)
    found = {}
    for run in runs:
        if run.resumed_from is None or run.resumed_from.checkpoint is None:
            continue
        found[run.resumed_from.checkpoint] = run.name
        parent = family.parent(run)  # a root that was moved: the same file, under its parent's path of today
        if parent is not None:
            found[f"{parent.path}/{run.resumed_from.checkpoint.rpartition('/')[2]}"] = run.name
    return found


def _of_run(run: Run, rules: KeepRules, sources: dict[str, str]) -> list[tuple[Checkpoint, str]]:
    kept = {**_kept_best(run, rules), **_kept_last(run, rules)}
    return [(one, _why_kept(one, sources, kept)) for one in run.checkpoints]


def _why_kept(one: Checkpoint, sources: dict[str, str], kept: dict[str, str]) -> str:
    if not one.is_usable:
        return f"not a whole checkpoint ({one.wholeness.value}): look at it yourself"
    if one.path in sources:
        return f"{sources[one.path]} was resumed from it"
    return kept.get(one.path, "")


def _by_stage(run: Run) -> dict[str | None, list[Checkpoint]]:
    stages: dict[str | None, list[Checkpoint]] = {}
    for one in sorted(run.checkpoints, key=lambda one: one.order):
        if one.is_usable:
            stages.setdefault(one.stage, []).append(one)
    return stages


def _kept_last(run: Run, rules: KeepRules) -> dict[str, str]:
    kept = {}
    for stage, saved in _by_stage(run).items():
        for place, one in enumerate(reversed(saved[-rules.last :])):
            of_stage = f" of {stage}" if stage else ""
            kept[one.path] = f"newest {rules.last}{of_stage}" if place else f"newest whole{of_stage}"
    return kept


def _kept_best(run: Run, rules: KeepRules) -> dict[str, str]:
    kept = {}
    for stage, saved in _by_stage(run).items():
        known = sorted((one for one in saved if one.loss is not None), key=lambda one: (one.loss, one.order))
        of_stage = f" of {stage}" if stage else ""
        for one in known[: rules.best]:
            kept[one.path] = f"best {rules.best}{of_stage}"
    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run's checkpoints take now (bytes), and what it adds (bytes a second; 0 where it doesn't save)."""

    run: Run
    size_bytes: int
    could_free_bytes: int
    bytes_per_second: float


def costs(runs: Iterable[Run], rules: KeepRules, judged: Iterable[Fate] | None = None) -> list[Cost]:
    """Of each run, the dearest first. `judged`: the fates, where more is known of them than `fates` tells."""
    runs = tuple(runs)
    freed: dict[str, int] = {}
    for fate in fates(runs, rules) if judged is None else judged:
        if fate.may_go:
            freed[fate.run.key] = freed.get(fate.run.key, 0) + fate.size_bytes
    found = [
        Cost(
            run=run,
            size_bytes=sum(one.facts.size_bytes for one in run.checkpoints),
            could_free_bytes=freed.get(run.key, 0),
            bytes_per_second=_rate(run),
        )
        for run in runs
    ]
    return sorted(found, key=lambda cost: (-cost.size_bytes, cost.run.name))


def _rate(run: Run) -> float:
    """Only a living run adds; as much as its newest whole checkpoint takes, each of its own save intervals."""
    whole = [one for one in run.checkpoints if one.is_whole]
    if not run.is_alive or not whole or not run.save_interval_seconds:
        return 0.0
    return whole[-1].facts.size_bytes / run.save_interval_seconds


def seconds_until_full(free_bytes: int, found: Iterable[Cost]) -> float | None:
    """How long the free space lasts at this rate; None where nothing is being added."""
    rate = sum(cost.bytes_per_second for cost in found)
    return free_bytes / rate if rate > 0 else None
