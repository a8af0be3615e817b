"""The single rules on a set of rank states: agreement, owners, counts, progress, end of the epoch.

Each rule returns checks with rank, file and both values; none of them raises. A rule may rely on those before it:
`all_of` runs them in order and stops at the first that makes the next ones meaningless.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import gt
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.plan import Check, Verdict
from lavender_tui.model.state_shapes import (
    BLOCKS,
    BUFFERS,
    PACK_CONFIG,
    POSITIONS,
    ROW_CONFIG,
    SAMPLES,
    RankState,
    is_packed,
    owned_splits,
)

ONE_SAVE = "use the states of one save, or start the epoch again (replay-epoch)"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveFacts:
    """What the checkpoint, its run and the wanted topology say; None where nothing says it.

    `world_size`: ranks that saved. `epoch`: 1-based. `global_batch`: rows (packed: blocks) a step takes over all ranks.
    `start_samples`, `start_step`: samples already consumed in this epoch when the run, or the epoch, began at
    `start_step`. `num_rows`: rows of the table that the dataset reads (after its filter). `num_workers`: per rank, of
    the RESUMED run. `states_have_positions`: the writer is known to be lancedb >= 0.38.
    """

    world_size: int | None = None
    epoch: int | None = None
    epoch_complete: bool | None = None
    global_step: int | None = None
    global_batch: int | None = None
    start_samples: int | None = None
    start_step: int | None = None
    num_rows: int | None = None
    num_workers: int = 0
    on_transform_error: str | None = None
    states_have_positions: bool = False


def passed(id: str, what: str, evidence: str = "") -> Check:
    return Check(id=id, verdict=Verdict.PASS, what=what, evidence=evidence)


def warn(id: str, what: str, evidence: str = "", remedy: str = "") -> Check:
    return Check(id=id, verdict=Verdict.WARN, what=what, evidence=evidence, remedy=remedy)


def refuse(id: str, what: str, evidence: str = "", remedy: str = "") -> Check:
    return Check(id=id, verdict=Verdict.REFUSE, what=what, evidence=evidence, remedy=remedy)


def all_of(states: Sequence[RankState], world_size: int, facts: SaveFacts) -> list[Check]:
    """Every rule on a full set of unique ranks 0..world_size-1, in order."""
    checks = agreement(states)
    if _refused(checks):
        return checks
    checks += [*shared(states[0].num_splits, world_size), *owners(states, world_size), *buffers(states, world_size)]
    if _refused(checks):
        return checks
    merged = owners_merge(states, world_size)
    checks += uniform(states, world_size, facts.num_workers)
    checks += progress(merged, facts)
    checks += [*end_of_epoch(merged, facts), *skipped(states, merged, facts), *dataset_epoch(merged, facts)]
    return checks


def agreement(states: Sequence[RankState]) -> list[Check]:
    """Same mode, num_splits, seed, epoch (packed: also the packing) in all, or no merge means anything."""
    if not states:
        return []
    first = states[0]
    checks = []
    for key, read in _compared(first):
        for other in states[1:]:
            mine, theirs = read(first), read(other)
            if mine != theirs:
                what = f"rank {_rank(first)} has {key} {text.clean(mine)}, rank {_rank(other)} has {text.clean(theirs)}"
                evidence = f"{text.clean(first.origin)} and {text.clean(other.origin)}"
                checks.append(refuse("states.agree", what, evidence, ONE_SAVE))
                break
    if checks:
        return checks
    config = ", ".join(f"{key} {text.clean(read(first))}" for key, read in _compared(first)[1:4])
    counted = "" if first.state.get("epoch") == 0 else " (it counts from 0)"
    return [passed("states.agree", f"the ranks read the same data: {first.mode} mode, {config}{counted}")]


def _compared(first: RankState) -> list[tuple[str, Any]]:
    keys = (*ROW_CONFIG, *(PACK_CONFIG if first.mode == "packed" else ()))
    rows: list[tuple[str, Any]] = [("mode", lambda one: one.mode)]
    rows += [(key, lambda one, key=key: one.state.get(key)) for key in keys]
    return [*rows, ("positions", lambda one: "kept" if one.has_positions else "missing")]


def shared(num_splits: int, world_size: int) -> list[Check]:
    if num_splits % world_size:
        return [refuse("states.complete", f"{num_splits} splits can't be shared by {world_size} ranks")]
    return []


def owners(states: Sequence[RankState], world_size: int) -> list[Check]:
    """No state may claim more of a split than its owner: else maxima would leave the rows between unread.

    Where it holds, the library's maxima equal the owners' own counts.
    """
    for key in _count_keys(states[0]):
        exact = _own(states, world_size, key)
        for state in states:
            if any(map(gt, state.state[key], exact)):
                return [_over_claim(states, world_size, state, key, exact)]
    return [passed("states.owners", "the ranks' counts fit together: none claims more of a split than its owner")]


def _over_claim(
    states: Sequence[RankState], world_size: int, state: RankState, key: str, exact: Sequence[int]
) -> Check:
    claimed = state.state[key]
    split = next(index for index, count in enumerate(claimed) if count > exact[index])
    owner = states[split // (state.num_splits // world_size)]
    what = (
        f"rank {state.rank} claims {claimed[split]} of split {split}, but its owner, rank {owner.rank}, says "
        f"{exact[split]}: a merge would leave {claimed[split] - exact[split]} rows or more unread"
    )
    evidence = f"{key}: {text.clean(state.origin)} and {text.clean(owner.origin)}"
    return refuse("states.owners", what, evidence, ONE_SAVE)


def buffers(states: Sequence[RankState], world_size: int) -> list[Check]:
    """Packed mode: the owner of every split that emitted a block holds its token buffer, or tokens are lost."""
    if states[0].mode != "packed":
        return []
    for state in states:
        for split in owned_splits(state.rank, world_size, state.num_splits):
            blocks = state.state[BLOCKS][split]
            if blocks and split not in state.state[BUFFERS]:
                what = f"rank {state.rank} has no token buffer for split {split}, which emitted {blocks} blocks"
                return [refuse("states.buffers", what, text.clean(state.origin), ONE_SAVE)]
    return [passed("states.buffers", "a token buffer for every split")]


def uniform(states: Sequence[RankState], world_size: int, num_workers: int) -> list[Check]:
    """All splits equally far, or at most one row apart: uneven ranks wait for each other at the end of the epoch."""
    counts = _own(states, world_size, work_key(states[0]))
    least, most = min(counts), max(counts)
    if least == most:
        return [passed("states.uniform", f"the ranks stopped at the same place: every split at {least}")]
    low, high = counts.index(least), counts.index(most)
    evidence = f"{_at(states, world_size, high, most)}; {_at(states, world_size, low, least)}"
    if most - least > 1 or states[0].mode == "packed":
        what = f"the splits are {most - least:,} apart: the ranks saved at different steps"
        return [refuse("states.uniform", what, evidence, ONE_SAVE)]
    if num_workers >= 2:
        what = f"saved within a cycle over the splits: {num_workers} workers a rank can't start from there"
        return [refuse("states.uniform", what, evidence, "resume with 0 or 1 workers")]
    behind = sum(1 for count in counts if count == least)
    what = f"saved within a cycle over the splits: {behind} of {len(counts)} are one row behind and are read first"
    cost = "no row is lost or repeated, but the batches are other ones and ranks may end the epoch one batch apart"
    return [
        warn("states.uniform", what, f"{evidence}; {cost}", "save after whole cycles: a batch that num_splits divides")
    ]


def progress(merged: dict[str, Any], facts: SaveFacts) -> list[Check]:
    """The rows consumed are those that the optimizer's steps consumed: weights and data of one moment."""
    consumed = sum(merged[BLOCKS] if is_packed(merged) else merged[SAMPLES])
    expected = expected_samples(merged, facts)
    if expected is None and facts.epoch_complete:
        return [passed("states.progress", "the epoch is complete: no position in it is needed")]
    if expected is None:
        what = "can't compare the states with the weights: the checkpoint doesn't say its step, batch and start"
        return [warn("states.progress", what, f"the states say {consumed:,} rows")]
    if consumed != expected:
        what = f"the states have consumed {consumed:,} rows, the checkpoint's steps {expected:,}: two different moments"
        lost = f"{abs(consumed - expected):,} rows would be {'left out' if consumed > expected else 'read again'}"
        return [refuse("states.progress", what, f"{_steps(facts)}; {lost}", ONE_SAVE)]
    return [
        passed(
            "states.progress",
            f"weights and data are of one moment: {consumed:,} rows read, as the steps say",
            _steps(facts),
        )
    ]


def expected_samples(merged: dict[str, Any], facts: SaveFacts) -> int | None:
    """Rows consumed in this epoch by the checkpoint's own steps, never more than the epoch has; None if unknown."""
    if facts.global_step is None or facts.global_batch is None:
        return None
    start = (facts.start_samples, facts.start_step)
    if start == (None, None) and facts.epoch == 1:
        start = (0, 0)  # in the first epoch, every step took its rows from it
    if start[0] is None or start[1] is None:
        return None
    steps = start[0] + (facts.global_step - start[1]) * facts.global_batch
    most = epoch_size(merged, facts.num_rows)
    return steps if most is None else min(steps, most)


def end_of_epoch(merged: dict[str, Any], facts: SaveFacts) -> list[Check]:
    """At the end of the splits nothing is left to read: the next epoch starts, without this state."""
    size = _split_size(merged, facts.num_rows)
    if size is None:
        return []
    counts = merged[BLOCKS] if is_packed(merged) else merged[POSITIONS]
    split, most = counts.index(max(counts)), max(counts)
    if most > size:
        what = f"split {split} is at {most:,}, but a split has only {size:,}: another table, or another filter"
        count, noun = (merged["blocks_per_epoch"], "block") if is_packed(merged) else (facts.num_rows or 0, "row")
        evidence = f"{text.plural(count, noun)} in {text.plural(merged['num_splits'], 'split')}"
        return [refuse("states.end", what, evidence, "check the table's version and the filter")]
    if is_done(merged, facts.num_rows):
        what = f"the epoch is done: split {split} has been read to its end ({size:,})"
        verdict = passed if facts.epoch_complete else warn
        return [verdict("states.end", what, "the next epoch starts without this state")]
    if facts.epoch_complete:
        what = f"the checkpoint says that its epoch is complete, but the states are at {min(counts)} of {size} a split"
        return [warn("states.end", what)]
    return [passed("states.end", f"the epoch goes on: {size - most} of {size} rows of a split are left")]


def is_done(merged: dict[str, Any], num_rows: int | None) -> bool:
    """Nothing is left: a cycle needs a row of every split, and splits that lag within a cycle are read first."""
    size = _split_size(merged, num_rows)
    if size is None:
        return False
    if is_packed(merged):
        return min(merged[BLOCKS]) >= size
    return max(merged[POSITIONS]) >= size and min(merged[SAMPLES]) == max(merged[SAMPLES])


def skipped(states: Sequence[RankState], merged: dict[str, Any], facts: SaveFacts) -> list[Check]:
    """Rows left out after a failed transform move the position on, and only the owner knows it."""
    if is_packed(merged):
        return []
    if not states[0].has_positions:
        may_skip = facts.on_transform_error not in (None, "raise")
        what = "the states hold no positions, so rows that were skipped would be read again"
        if may_skip or facts.states_have_positions:
            evidence = (
                f"on_transform_error is {text.clean(facts.on_transform_error)}"
                if may_skip
                else "lancedb >= 0.38 writes them"
            )
            return [refuse("states.positions", what, f"{text.clean(states[0].origin)}; {evidence}", ONE_SAVE)]
        return [warn("states.positions", what, "written before lancedb 0.38; exact if no row was skipped")]
    gaps = [position - sample for position, sample in zip(merged[POSITIONS], merged[SAMPLES], strict=True)]
    if not any(gaps):
        return []
    what = f"{sum(gaps)} rows were skipped, from {min(gaps)} to {max(gaps)} a split: ranks may end the epoch apart"
    return [warn("states.positions", what, "kept exactly: no row is lost or repeated")]


def dataset_epoch(merged: dict[str, Any], facts: SaveFacts) -> list[Check]:
    if facts.epoch is None or merged["epoch"] == facts.epoch - 1:
        return []
    what = (
        f"the states are of dataset epoch {merged['epoch']} (from 0), the checkpoint is in epoch {facts.epoch} (from 1)"
    )
    return [
        warn(
            "states.epoch",
            what,
            "the order of rows follows the states' epoch and seed",
            "give the dataset the state's epoch",
        )
    ]


def owners_merge(states: Sequence[RankState], world_size: int | None) -> dict[str, Any]:
    """One state made of what every owner says of its own splits; equal to `merge_state_dicts` of a good set.

    `states` are the ranks 0..world_size-1 in order. Keys other than counts come from rank 0, as the library does it.
    """
    size = world_size or len(states)
    merged = dict(states[0].state)
    for key in _count_keys(states[0]):
        merged[key] = _own(states, size, key)
    if states[0].mode == "packed":
        merged[BUFFERS] = {
            split: state.state[BUFFERS][split]
            for state in states
            for split in owned_splits(state.rank, size, state.num_splits)
            if split in state.state[BUFFERS]
        }
    return merged


def unevenness(state: RankState) -> str:
    """Why a lone state may be one rank's part: counts differ, rows skipped, a buffer missing; "" if it can't be."""
    for key in _count_keys(state):
        counts = state.state[key]
        documents = key == SAMPLES and state.mode == "packed"  # they differ in length, blocks don't
        if not documents and min(counts) != max(counts):
            return f"{key} from {min(counts)} to {max(counts)}"
    if state.mode == "packed":
        lacking = [
            split for split, count in enumerate(state.state[BLOCKS]) if count and split not in state.state[BUFFERS]
        ]
        return f"no token buffer for split {lacking[0]}" if lacking else ""
    gaps = any(map(gt, state.state[POSITIONS], state.state[SAMPLES]))
    return "rows were skipped, which only the owner of a split knows" if gaps else ""


def difference(one: dict[str, Any], other: dict[str, Any]) -> str:
    """The first thing in which two states differ, with both values."""
    for key in one:
        mine, theirs = one[key], other.get(key)
        if mine == theirs:
            continue
        if isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
            index = next(i for i, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b)
            return f"{key}[{index}] is {mine[index]} and {theirs[index]}"
        return f"{text.clean(key)} is {text.clean(mine, 40)} and {text.clean(theirs, 40)}"
    return f"only one has {text.clean(', '.join(map(str, set(other) - set(one))), 40)}"


def _own(states: Sequence[RankState], world_size: int, key: str) -> list[int]:
    each = states[0].num_splits // world_size
    return [count for state in states for count in state.state[key][state.rank * each : (state.rank + 1) * each]]


def _count_keys(state: RankState) -> tuple[str, ...]:
    return (BLOCKS, SAMPLES) if state.mode == "packed" else (SAMPLES, POSITIONS)


def work_key(state: RankState) -> str:
    return BLOCKS if state.mode == "packed" else SAMPLES


def _split_size(merged: dict[str, Any], num_rows: int | None) -> int | None:
    if is_packed(merged):
        return int(merged["blocks_per_epoch"]) // int(merged["num_splits"])
    return None if num_rows is None else num_rows // int(merged["num_splits"])


def epoch_size(merged: dict[str, Any], num_rows: int | None) -> int | None:
    """Samples (packed: blocks) of one epoch over all splits; None where the number of rows isn't known."""
    size = _split_size(merged, num_rows)
    return None if size is None else size * int(merged["num_splits"])


def _at(states: Sequence[RankState], world_size: int, split: int, count: int) -> str:
    owner = states[split // (states[0].num_splits // world_size)]
    return f"rank {owner.rank} is at {count:,} in split {split} ({text.clean(owner.origin)})"


def _steps(facts: SaveFacts) -> str:
    start = f"from row {facts.start_samples or 0:,} at step {facts.start_step or 0:,}"
    return f"step {text.count(facts.global_step)}, {text.count(facts.global_batch)} rows a step, {start}"


def _rank(state: RankState) -> str:
    return "?" if state.rank < 0 else str(state.rank)


def _refused(checks: Sequence[Check]) -> bool:
    return any(check.verdict is Verdict.REFUSE for check in checks)
