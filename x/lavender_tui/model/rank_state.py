"""Rank states: what one rank says of its data position, and whether a set of them may be merged.

A rank state is one rank's `StreamingDataset.state_dict()` (lancedb >= 0.36). Only what a rank says of the splits it
OWNS is true. The library's merge takes maxima and in row mode compares no more than seed, num_splits and epoch: a
missing, doubled or stale state goes through it unnoticed, and rows are then read twice or never. These rules notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lavender_tui.errors import BadState
from lavender_tui.model import state_rules
from lavender_tui.model.checkpoint import RankStatesSummary
from lavender_tui.model.plan import Check, Verdict
from lavender_tui.model.state_rules import SaveFacts, owners_merge, refuse, warn
from lavender_tui.model.state_shapes import RankState, has_positions, normalise, owned_splits
from lavender_tui.model.text import clean, plural
from lavender_tui.model.topology import allowed_world_sizes

__all__ = [
    "MERGED_MARK", "Found", "RankState", "SaveFacts", "StateSet", "check_set", "examine", "has_positions", "normalise",
    "owned_splits", "owners_merge", "summarise",
]  # fmt: skip

MERGED_MARK = "lavender_merged_ranks"  # in a state that we merged and wrote: the number of ranks that went into it
SAVE_WORLD_SIZE = "save `world_size` with the checkpoint, or name the files <stem>.rank<k>-of-<w>.pt"


class Found(Protocol):
    """A state as it was found: `rank` and `world_size` None where nothing says them, `state` as it was read."""

    @property
    def rank(self) -> int | None: ...
    @property
    def world_size(self) -> int | None: ...
    @property
    def origin(self) -> str: ...
    @property
    def state(self) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSet:
    """The states of one save, one a rank and in rank order, with every check made on them.

    `world_size` is the number of owners (1 for a merged state); `recorded_ranks` how many ranks saved, where known.
    `is_lone`: one state without a rank.
    """

    found: int = 0
    states: tuple[RankState, ...] = ()
    world_size: int | None = None
    recorded_ranks: int | None = None
    is_lone: bool = False
    merged: bool = False
    checks: tuple[Check, ...] = ()

    @property
    def is_complete(self) -> bool:
        """May be merged: nothing was refused."""
        return bool(self.states) and not any(check.verdict is Verdict.REFUSE for check in self.checks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranks:
    """How many ranks there were: a number, whether it is written down somewhere, and what is wrong with it."""

    count: int | None
    is_recorded: bool
    checks: tuple[Check, ...] = ()


def examine(found: Iterable[Found], facts: SaveFacts | None = None) -> StateSet:
    """Normalise, put in rank order, and check: everything that decides whether the states may be merged.

    Never raises for what the states hold: what is wrong with them stands in the checks, with rank, file and values.
    """
    facts = facts or SaveFacts()
    here = [one for one in found if one.rank is not None or one.state is not None]
    if not here:
        return StateSet(recorded_ranks=facts.world_size)
    states, bad = _read(here)
    if not states:
        return StateSet(found=len(here), recorded_ranks=facts.world_size, checks=tuple(bad))
    singles = [state for state in states if state.rank < 0]
    if singles and len(states) == len(singles) and all(one.rank is None for one in here):
        return _examine_single(singles, facts, bad, len(here))
    return _examine_ranks(here, states, facts, bad)


def check_set(states: Sequence[RankState], *, world_size: int, facts: SaveFacts | None = None) -> tuple[Check, ...]:
    """All checks on the states of `world_size` ranks: each rank once, one save, agreement, owners, counts, progress."""
    facts = facts or SaveFacts()
    checks = [*_missing_and_strays([state.rank for state in states], world_size, _splits(states), True)]
    unique, doubled = _without_duplicates(states)
    checks += doubled
    if any(check.verdict is Verdict.REFUSE for check in checks):
        return (*checks, *state_rules.agreement(states))
    return (*checks, *state_rules.all_of(unique, world_size, facts))


def summarise(found: Iterable[Found], world_size: int | None = None) -> RankStatesSummary:
    """What a list of runs shows of the states of one save; the deeper checks need facts of the save (`examine`)."""
    result = examine(found, SaveFacts(world_size=world_size))
    expected = result.recorded_ranks or (None if result.is_lone else result.world_size)
    problems = tuple(_sentence(check) for check in result.checks if check.verdict is Verdict.REFUSE)
    if not result.states:
        return RankStatesSummary(found=result.found, expected=expected, problems=problems)
    first = result.states[0]
    counts = owners_merge(result.states, result.world_size)["samples_consumed_per_split"] if result.is_complete else []
    return RankStatesSummary(
        found=result.found,
        expected=expected,
        complete=result.is_complete,
        merged=result.merged,
        num_splits=first.num_splits,
        dataset_epoch=first.state["epoch"],
        mode=first.mode,
        consumed=sum(counts) if result.is_complete else None,
        least=min(counts, default=None),
        most=max(counts, default=None),
        files=tuple(state.origin for state in result.states),
        problems=problems,
    )


def _read(found: Sequence[Found]) -> tuple[list[RankState], list[Check]]:
    """The readable states; rank -1 stands for "not said"."""
    states: list[RankState] = []
    bad: list[Check] = []
    for one in found:
        rank = -1 if one.rank is None else one.rank
        try:
            state = normalise(one.state)
        except BadState as error:
            who = "the state" if rank < 0 else f"rank {rank}"
            bad.append(
                refuse(
                    "states.shape",
                    f"{who} can't be read: {error.what}",
                    f"{clean(one.origin)}",
                    "take another checkpoint, or start the epoch again (replay-epoch)",
                )
            )
            continue
        states.append(RankState(rank=rank, origin=one.origin, state=state, has_positions=has_positions(one.state)))
    return states, bad


def _examine_single(singles: list[RankState], facts: SaveFacts, bad: list[Check], found: int) -> StateSet:
    state = RankState(rank=0, origin=singles[0].origin, state=singles[0].state, has_positions=singles[0].has_positions)
    marked = state.state.get(MERGED_MARK)
    merged = type(marked) is int and marked > 0
    checks = [*bad]
    if len(singles) > 1:
        origins = ", ".join(clean(one.origin) for one in singles)
        checks.append(
            refuse(
                "states.complete", f"{len(singles)} states, and nothing says of which rank", origins, SAVE_WORLD_SIZE
            )
        )
    elif not merged:
        checks += _alone(state, facts.world_size)
    if not any(check.verdict is Verdict.REFUSE for check in checks):
        checks += state_rules.all_of([state], 1, facts)
    ranks = facts.world_size if facts.world_size is not None else (int(marked) if merged else None)  # type: ignore[arg-type]
    return StateSet(
        found=found,
        states=(state,),
        world_size=1,
        recorded_ranks=ranks,
        is_lone=True,
        merged=merged,
        checks=tuple(checks),
    )


def _alone(state: RankState, recorded: int | None) -> list[Check]:
    """One state and no rank: right for one rank, a part for more; unrecorded it must show that nothing is missing."""
    evidence = clean(state.origin)
    if recorded == 1:
        return [state_rules.passed("states.complete", "1 of 1 rank states", evidence)]
    if recorded is not None:
        what = f"one state for {recorded} ranks: the others are missing, and nothing says that it is merged"
        return [
            refuse(
                "states.complete", what, evidence, "save every rank's state, or start the epoch again (replay-epoch)"
            )
        ]
    uneven = state_rules.unevenness(state)
    if uneven:
        what = "one state of an unknown number of ranks, and it looks like one rank's part"
        return [refuse("states.complete", what, f"{evidence}: {uneven}", SAVE_WORLD_SIZE)]
    what = "one state for all ranks: how many there were is not recorded, but every split is equally far"
    return [warn("states.complete", what, evidence, SAVE_WORLD_SIZE)]


def _examine_ranks(here: Sequence[Found], states: list[RankState], facts: SaveFacts, bad: list[Check]) -> StateSet:
    ranked = [state for state in states if state.rank >= 0]
    named = sorted({one.rank for one in here if one.rank is not None})
    splits = _splits(ranked or states)
    ranks = _count_ranks(here, named, splits, facts.world_size)
    checks = [*_beside_the_good(bad, ranked), *ranks.checks]
    if ranks.count is None:
        return StateSet(found=len(here), states=tuple(ranked), recorded_ranks=facts.world_size, checks=tuple(checks))
    checks += _missing_and_strays(named, ranks.count, splits, ranks.is_recorded)
    unique, doubled = _without_duplicates(ranked)
    inside = [state for state in unique if state.rank < ranks.count]
    checks += doubled
    checks += _unranked([state for state in states if state.rank < 0], inside, ranks.count)
    if any(check.verdict is Verdict.REFUSE for check in checks):
        checks += state_rules.agreement(ranked)
    else:
        checks += state_rules.all_of(inside, ranks.count, facts)
        checks += _unrecorded_part(inside, ranks)
    recorded = ranks.count if ranks.is_recorded else facts.world_size
    return StateSet(
        found=len(here), states=tuple(inside), world_size=ranks.count, recorded_ranks=recorded, checks=tuple(checks)
    )


def _beside_the_good(bad: Sequence[Check], good: Sequence[RankState]) -> list[Check]:
    """What a readable rank says, so that the values of both stand side by side."""
    if not good:
        return list(bad)
    first = good[0]
    said = f"rank {first.rank} has num_splits {first.num_splits}, seed {first.state['shuffle_seed']}"
    return [replace(check, evidence=f"{check.evidence}; {said}") for check in bad]


def _count_ranks(here: Sequence[Found], named: Sequence[int], splits: int, recorded: int | None) -> _Ranks:
    """From the record, from `-of-<w>`, else the fewest ranks that the states can be of; never from the file count."""
    said = {one.world_size for one in here if one.world_size is not None}
    checks = []
    if len(said) > 1:
        numbers = ", ".join(str(number) for number in sorted(said))
        files = ", ".join(f"{clean(one.origin)} (of {one.world_size})" for one in here if one.world_size)
        checks.append(
            refuse(
                "states.one-save",
                f"the states are of different saves: of {numbers} ranks",
                files,
                "keep those of one save",
            )
        )
    count = recorded if recorded is not None else max(said, default=None)
    if count is not None:
        if count < 1 or splits % count:
            what = f"{splits} splits can't have been shared by the {count} ranks recorded"
            allowed = ", ".join(str(size) for size in allowed_world_sizes(splits)[:20])
            return _Ranks(
                count=None, is_recorded=True, checks=(*checks, refuse("states.complete", what, f"possible: {allowed}"))
            )
        # A list with one state is what a script writes that saves on rank 0 only: it records no number of ranks.
        return _Ranks(count=count, is_recorded=recorded is not None or count > 1, checks=tuple(checks))
    least = max((rank for rank in named if rank < splits), default=0) + 1
    fitting = next(size for size in allowed_world_sizes(splits) if size >= least)
    return _Ranks(count=fitting, is_recorded=False, checks=tuple(checks))


def _missing_and_strays(named: Sequence[int], world_size: int, splits: int, is_recorded: bool) -> list[Check]:
    present = set(named)
    missing = [rank for rank in range(world_size) if rank not in present]
    strays = sorted(rank for rank in present if rank >= world_size or rank < 0)
    checks = []
    if missing:
        found = len(present) - len(strays)
        why = f"{found} of {world_size} found"
        at_the_end = missing[0] > max((rank for rank in present if rank < world_size), default=-1)
        if not is_recorded and at_the_end and splits % max(1, found):
            why = f"{found} ranks can't share {splits} splits; the next number that can is {world_size}"
        what = f"{plural(len(missing), 'rank state')} missing: {_ranks_text(missing)}"
        remedy = "find the missing states, or start the epoch again (replay-epoch)"
        checks.append(refuse("states.complete", what, why, remedy))
    else:
        guessed = "" if is_recorded else " (the number is not recorded; the states cover all splits so)"
        checks.append(state_rules.passed("states.complete", f"{world_size} of {world_size} rank states{guessed}"))
    if strays:
        what = f"{_ranks_text(strays)} is no rank of these {world_size}: left over from another save"
        checks.append(
            refuse("states.one-save", what, f"{splits} splits, {world_size} ranks", "move the stray states away")
        )
    return checks


def _without_duplicates(states: Sequence[RankState]) -> tuple[list[RankState], list[Check]]:
    first: dict[int, RankState] = {}
    checks = []
    for state in states:
        other = first.setdefault(state.rank, state)
        if other is state:
            continue
        both = f"{clean(other.origin)} and {clean(state.origin)}"
        if other.state == state.state:
            checks.append(warn("states.one-save", f"rank {state.rank} is there twice, with the same state", both))
        else:
            what = f"rank {state.rank} is there twice, with different states"
            evidence = f"{both}: {state_rules.difference(other.state, state.state)}"
            checks.append(refuse("states.one-save", what, evidence, "keep the one that was saved with this checkpoint"))
    return [first[rank] for rank in sorted(first)], checks


def _unranked(singles: Sequence[RankState], ranked: Sequence[RankState], world_size: int) -> list[Check]:
    """A state without a rank beside ranked ones: harmless only if it says the same as one of them, or as all."""
    checks = []
    for single in singles:
        twin = next((state for state in ranked if state.state == single.state), None)
        if twin is not None:
            checks.append(
                warn("states.one-save", f"a state without a rank repeats rank {twin.rank}", clean(single.origin))
            )
        elif len(ranked) == world_size and _is_merge_of(single, ranked, world_size):
            checks.append(warn("states.one-save", "a state without a rank is the merge of all", clean(single.origin)))
        else:
            what = "a state without a rank says something else than every rank"
            checks.append(refuse("states.one-save", what, clean(single.origin), "keep the states of one save"))
    return checks


def _is_merge_of(single: RankState, ranked: Sequence[RankState], world_size: int) -> bool:
    if any(refusal.verdict is Verdict.REFUSE for refusal in state_rules.agreement([single, *ranked])):
        return False
    merged = owners_merge(ranked, world_size)
    return all(single.state.get(key) == value for key, value in merged.items())


def _unrecorded_part(states: Sequence[RankState], ranks: _Ranks) -> list[Check]:
    """A lone rank 0 of an unrecorded number of ranks: a partial cycle could as well be the ranks that are missing."""
    if ranks.is_recorded or ranks.count != 1 or not states:
        return []
    uneven = state_rules.unevenness(states[0])
    if not uneven:
        return []
    what = "only rank 0 is there, of an unknown number of ranks, and it looks like one rank's part"
    return [refuse("states.complete", what, f"{clean(states[0].origin)}: {uneven}", SAVE_WORLD_SIZE)]


def _splits(states: Sequence[RankState]) -> int:
    return states[0].num_splits if states else 1


def _ranks_text(ranks: Sequence[int]) -> str:
    shown = ", ".join(str(rank) for rank in ranks[:12])
    more = f" and {len(ranks) - 12} more" if len(ranks) > 12 else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"


def _sentence(check: Check) -> str:
    return f"{check.what} ({check.evidence})" if check.evidence else check.what
