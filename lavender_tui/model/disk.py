"""What checkpoints cost, how long the disk lasts, and which of them could go. Pure: runs in, decisions out.

Nothing here deletes; what is kept is kept for a reason that can be said. Never to go: the newest whole checkpoint of
each stage of a run, the newest sound one (which a resume would take), what another run was resumed from, and every file
that wasn't read as a whole checkpoint, for what isn't understood isn't ours to judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from posixpath import normpath

from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.choosing import why_passed_over
from lavender_tui.model.run import Run

_LOOK = "look at it yourself"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepRules:
    """How many of a run's sound checkpoints stay: the newest `last`, and the `best` of lowest loss, of each stage."""

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
    def wants_a_look(self) -> bool:
        """Does it stay for the one reason that nobody can tell what it is worth?"""
        return self.why.endswith(_LOOK)

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


def tail(path: str) -> tuple[str, str]:
    """(its run's name, its own): what stays of a checkpoint's path when a root is moved, or seen under another name."""
    directory, _, name = normpath(path).rpartition("/")
    return directory.rpartition("/")[2], name


def _sources(runs: Sequence[Run]) -> dict[tuple[str, str], str]:
    """`tail` of each checkpoint that a run was resumed from → that run's name."""
    told = ((run.resumed_from, run.name) for run in runs)
    return {tail(source.checkpoint): name for source, name in told if source is not None and source.checkpoint}


def _of_run(run: Run, rules: KeepRules, sources: dict[tuple[str, str], str]) -> list[tuple[Checkpoint, str]]:
    sound = sound_ones(run)
    kept = {**_kept_best(sound, rules), **_kept_last(run, sound, rules)}
    return [(one, _why_kept(one, sources, kept) or _why_alone(one, sound)) for one in run.checkpoints]


def _why_kept(one: Checkpoint, sources: dict[tuple[str, str], str], kept: dict[str, str]) -> str:
    if one.wholeness is Wholeness.UNREAD:
        return one.wholeness.value
    if not one.is_usable:
        return f"not a whole checkpoint ({one.wholeness.value}): {_LOOK}"
    if (source := sources.get(tail(one.path))) is not None:
        return f"resumed as {source}"
    return kept.get(one.path, "")


def _why_alone(one: Checkpoint, sound: Mapping[str | None, Sequence[Checkpoint]]) -> str:
    return "" if sound.get(one.stage) else f"no checkpoint of its stage is sound: {_LOOK}"


def sound_ones(run: Run) -> dict[str | None, list[Checkpoint]]:
    """By stage, oldest first: what a resume would take without a word, its loss a number or not told."""
    bad = dict(run.known_bad)
    return _by_stage(
        one
        for one in run.checkpoints
        if why_passed_over(one) is None and one.path not in bad and not one.loss_is_no_number
    )


def _by_stage(saved: Iterable[Checkpoint]) -> dict[str | None, list[Checkpoint]]:
    stages: dict[str | None, list[Checkpoint]] = {}
    for one in sorted(saved, key=lambda one: one.order):
        stages.setdefault(one.stage, []).append(one)
    return stages


def _kept_last(run: Run, sound: Mapping[str | None, Sequence[Checkpoint]], rules: KeepRules) -> dict[str, str]:
    """The newest ones by both counts: what looks wrong now takes no sound one's place, and may prove right."""
    kept: dict[str, str] = {}
    for saved in (_by_stage(one for one in run.checkpoints if one.is_usable), sound):
        for stage, ones in saved.items():
            for place, one in enumerate(reversed(ones[-rules.last :])):
                of_stage = f" of {stage}" if stage else ""
                kept.setdefault(one.path, f"newest {rules.last}{of_stage}" if place else f"newest whole{of_stage}")
    return kept


def _kept_best(sound: Mapping[str | None, Sequence[Checkpoint]], rules: KeepRules) -> dict[str, str]:
    kept = {}
    for stage, saved in sound.items():
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """All that is said of the checkpoints of many runs, worked out once: no key waits for a sum over thousands.

    `fates`: of each run, by its key, oldest first. `doomed`: those that may go. `free_bytes`: None if nobody knows.
    """

    costs: Sequence[Cost]
    fates: Mapping[str, Sequence[Fate]]
    doomed: Sequence[Fate]
    size_bytes: int
    doomed_bytes: int
    free_bytes: int | None
    seconds_left: float | None

    def doomed_of(self, key: str | None) -> list[Fate]:
        """Those of one run."""
        return [fate for fate in self.fates.get(key or "", ()) if fate.may_go]


def account(runs: Iterable[Run], rules: KeepRules, judged: Sequence[Fate], free_bytes: int | None) -> Account:
    """What the fates of these runs come to."""
    by_run: dict[str, list[Fate]] = {}
    for fate in judged:
        by_run.setdefault(fate.run.key, []).append(fate)
    found, doomed = costs(runs, rules, judged), [fate for fate in judged if fate.may_go]
    return Account(
        costs=found,
        fates=by_run,
        doomed=doomed,
        size_bytes=sum(cost.size_bytes for cost in found),
        doomed_bytes=sum(fate.size_bytes for fate in doomed),
        free_bytes=free_bytes,
        seconds_left=None if free_bytes is None else seconds_until_full(free_bytes, found),
    )
