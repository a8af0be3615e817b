"""Where every rank stands in the data: taken from the datasets, corrected by the owners, checked against the steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lavender_tui.errors import BadState
from lavender_tui.model.plan import Check, Verdict
from lavender_tui.model.rank_state import Found, RankState, SaveFacts, examine, normalise, owned_splits, owners_merge
from lavender_tui.model.state_rules import agreement, difference, shared
from lavender_tui.model.state_shapes import BLOCKS, BUFFERS, POSITIONS, SAMPLES

# A state that was taken between two steps of a loader with several workers, or of packed reading.
_NOT_NOW = "step boundary"


@dataclass(slots=True)
class RankReport:
    """What one rank hands to rank 0 for a save. `problem` says why there is no state though there is a dataset."""

    rng: dict[str, Any]
    state: dict[str, Any] | None = None
    problem: str | None = None
    start_samples: int = 0  # of this rank's own splits, when its dataset was set


@dataclass(slots=True)
class DataStates:
    """What goes into the checkpoint: one state per rank, or none and the reason why.

    `consumed` is what all steps took so far, by the owners' counts: rows, or blocks in packed mode.
    """

    states: list[dict[str, Any]] | None = None
    consumed: int | None = None
    start_samples: int = 0
    warnings: list[str] = field(default_factory=list)


def take_state(dataset: Any) -> tuple[dict[str, Any] | None, str | None]:
    """(the dataset's state, None), or (None, why there is none right now). A dataset without states has neither."""
    if not hasattr(dataset, "state_dict"):
        return None, None
    try:
        return dataset.state_dict(), None
    except Exception as error:  # said in the checkpoint; raised on one rank alone it would hang the others
        return None, str(error) or type(error).__name__


def is_soon_possible(problem: str | None) -> bool:
    """Is this the refusal in the middle of a logical step, which a few more batches lift?"""
    return problem is not None and _NOT_NOW in problem


def own_work(state: dict[str, Any], rank: int, world_size: int) -> int:
    """Rows (packed: blocks) that this rank took from its own splits."""
    counts = state[BLOCKS] if BLOCKS in state else state[SAMPLES]
    return sum(counts[split] for split in owned_splits(rank, world_size, int(state["num_splits"])))


def collect(reports: list[RankReport]) -> DataStates:
    """The states of all ranks, in rank order, as they are stored."""
    problems = [f"rank {rank}: {report.problem}" for rank, report in enumerate(reports) if report.problem]
    if problems:
        return DataStates(warnings=[f"saved without the position in the data; {problems[0]}"])
    states = [report.state for report in reports if report.state is not None]
    if not states:
        return DataStates()
    if len(states) < len(reports):
        missing = [rank for rank, report in enumerate(reports) if report.state is None]
        return DataStates(warnings=[f"saved without the position in the data: no dataset is set on ranks {missing}"])
    try:
        corrected = correct_by_owners(states)
    except BadState as error:
        return DataStates(states=states, warnings=[str(error)])
    consumed = sum(own_work(state, rank, len(states)) for rank, state in enumerate(states))
    return DataStates(corrected, consumed, sum(report.start_samples for report in reports))


def correct_by_owners(states: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One state per rank, in each of which every split's entries are what the split's OWNER says.

    What a rank says of splits that it doesn't own is a guess: its own progress, what was loaded long ago, or 0,
    depending on how it reads. Left so, a merge that takes maxima counts rows as read that nobody read, or reads rows
    again. Corrected, all states agree: they merge to the same by maxima or by owners, any one of them is right for
    any topology, and a lost or doubled one does no harm. The count lists and the packed buffers are the same objects
    in all states, which pickle writes once: a thousand ranks take the room of one.

    Raises BadState where the ranks don't read the same epoch of the same shuffle, or lists have the wrong length.
    """
    ranks = [RankState(rank=rank, origin=f"rank {rank}", state=normalise(state)) for rank, state in enumerate(states)]
    _raise_refused([*agreement(ranks), *shared(ranks[0].num_splits, len(ranks))], "rank states")
    truth = owners_merge(ranks, len(ranks))
    counts = {key: truth[key] for key in (SAMPLES, POSITIONS, BLOCKS, BUFFERS) if key in truth}
    return [{**state, **counts} for state in states]


@dataclass(frozen=True, slots=True)
class _Found:
    rank: int | None
    world_size: int | None
    origin: str
    state: Any


def found_in(stored: Any, where: str) -> list[Found]:
    """What a checkpoint holds under `dataset`: one state, or a list with one state a rank."""
    if not isinstance(stored, list | tuple):
        return [_Found(None, None, f"{where} dataset", stored)]
    return [_Found(rank, None, f"{where} dataset[{rank}]", state) for rank, state in enumerate(stored)]


def merged(found: Sequence[Found], facts: SaveFacts, *, where: str) -> dict[str, Any]:
    """One state for every rank of the next topology, from the states of one save.

    The library's merge, held against the owners' own counts and all rules on a set of states: by itself it takes
    maxima and notices almost nothing. Raises BadState with what is wrong.
    """
    from lancedb.streaming import StreamingDataset

    result = examine(found, facts)
    _raise_refused(result.checks, where)
    if not result.states:
        raise BadState("holds no rank state", where=where)
    by_owners = owners_merge(result.states, result.world_size)
    by_library = StreamingDataset.merge_state_dicts([state.state for state in result.states])
    if by_library != by_owners:
        raise BadState(
            f"the library's merge is not what the splits' owners say: {difference(by_library, by_owners)}",
            where=where,
            hint="Resume from another checkpoint, or start the epoch again",
        )
    return by_owners


def _raise_refused(checks: Iterable[Check], where: str) -> None:
    for check in checks:
        if check.verdict is Verdict.REFUSE:
            what = f"{check.what} ({check.evidence})" if check.evidence else check.what
            raise BadState(what, where=where, hint=check.remedy or None)
