"""The rules on rank states, on states written by hand: shapes, who is missing, who disagrees, what is said of it."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.errors import BadState
from lavender_tui.model.plan import Check, Verdict
from lavender_tui.model.rank_state import (
    MERGED_MARK,
    RankState,
    SaveFacts,
    check_set,
    examine,
    normalise,
    owned_splits,
    owners_merge,
    summarise,
)


@dataclass(frozen=True)
class Found:
    rank: int | None
    state: Any
    world_size: int | None = None
    origin: str = "a.pt"


def row(count: int | list[int] = 6, splits: int = 4, *, positions: Any = None, **more: Any) -> dict[str, Any]:
    counts = [count] * splits if isinstance(count, int) else count
    state = {"shuffle_seed": 3, "num_splits": splits, "epoch": 0, "samples_consumed_per_split": counts}
    state["positions_consumed_per_split"] = counts if positions is None else positions
    return {**state, **more}


def packed(blocks: int = 2, splits: int = 4, **more: Any) -> dict[str, Any]:
    state = {
        "shuffle_seed": 3, "num_splits": splits, "epoch": 0, "pack_sequences": 8, "eos_id": 1, "pad_id": 0,
        "blocks_per_epoch": 40, "samples_consumed_per_split": [5] * splits,
        "blocks_emitted_per_split": [blocks] * splits,
        "pack_buffers": {split: {"tokens": [split], "starts": [0]} for split in range(splits)},
    }  # fmt: skip
    return {**state, **more}


def ranks(*states: Any) -> list[Found]:
    return [Found(rank, state, origin=f"a.rank{rank}.pt") for rank, state in enumerate(states)]


def by_id(checks: tuple[Check, ...], id: str) -> Check:
    return next(check for check in checks if check.id == id)


def refused(result: Any) -> list[str]:
    return [check.id for check in result.checks if check.verdict is Verdict.REFUSE]


# Shapes


@pytest.mark.parametrize(
    "state",
    [
        row(),
        {key: value for key, value in row().items() if "positions" not in key},
        {"shuffle_seed": 3, "num_splits": 4, "epoch": 0, "samples_consumed_per_split": 6},
        row(plan_id="x", nested={"later": [1]}),
        row(positions=[7, 6, 9, 6]),
        {**row(), "samples_consumed_per_split": (6, 6, 6, 6)},
    ],
)
def test_older_and_newer_shapes_give_full_lists(state: dict[str, Any]) -> None:
    before = copy.deepcopy(state)
    read = normalise(state)
    assert read["samples_consumed_per_split"] == [6] * 4
    assert len(read["positions_consumed_per_split"]) == 4
    assert {key: read[key] for key in state if "per_split" not in key} == {
        key: value for key, value in state.items() if "per_split" not in key
    }
    assert state == before
    assert normalise(read) == read


def test_packed_buffers_get_their_split_numbers_back_from_json() -> None:
    assert normalise(json.loads(json.dumps(packed()))) == packed()


FOREIGN = {
    "an empty dict": {},
    "MosaicML": {"epoch": 0, "sample_in_epoch": 100, "num_canonical_nodes": 1, "shuffle_seed": 9176},
    "None": None,
    "a list": [1, 2],
    "(str) is no rank state": "state",
    "num_splits is missing": {key: value for key, value in row().items() if key != "num_splits"},
    "epoch is missing": {key: value for key, value in row().items() if key != "epoch"},
    "True (bool)": row(epoch=True),
    "'0' (str)": row(shuffle_seed="0"),
    "24.0 (float)": row([24.0, 24, 24, 24]),  # type: ignore[list-item]
    "has 3 entries, but num_splits is 4": row([6, 6, 6]),
    "has 5 entries, but num_splits is 4": row([6] * 5),
    "is -1": row([6, 6, -1, 6]),
    "split 1 is at position 3, behind its 6 samples": row(positions=[6, 3, 6, 6]),
    "num_splits is 0": row(splits=0),
    "num_splits is 99999999999": {**row(6), "num_splits": 99999999999, "samples_consumed_per_split": 6},
    "a number of": row([2**80, 6, 6, 6]),
    "blocks_per_epoch is 'auto'": packed(blocks_per_epoch="auto"),
    "pack_buffers is missing": {key: value for key, value in packed().items() if key != "pack_buffers"},
    "pack_buffers has split 9": packed(pack_buffers={9: {"tokens": [], "starts": []}}),
    "not a dict of tokens and starts": packed(pack_buffers={0: [1, 2]}),
    "which is no split": packed(pack_buffers={"x": {"tokens": [], "starts": []}}),
    "split 0 twice": packed(pack_buffers={0: {"tokens": [], "starts": []}, "0": {"tokens": [], "starts": []}}),
}


@pytest.mark.parametrize("reason", list(FOREIGN))
def test_foreign_shapes_are_refused_with_the_reason(reason: str) -> None:
    with pytest.raises(BadState) as caught:
        normalise(FOREIGN[reason])
    assert reason in caught.value.what


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from([*packed(), *row(), "x"]), anything, max_size=9))
def test_whatever_a_state_holds_it_is_read_or_refused(values: dict[str, Any]) -> None:
    for state in (values, {**row(), **values}, {**packed(), **values}):
        try:
            read = normalise(state)
        except BadState as error:
            assert error.what
        else:
            assert normalise(read) == read
        examine([Found(0, state), Found(1, row())])
        summarise([Found(None, state)])


# Who is there


def test_the_hole_is_named_in_numeric_order_and_ranks_come_out_in_rank_order() -> None:
    states = [Found(rank, row(splits=24)) for rank in range(12) if rank != 7]
    random.Random(0).shuffle(states)
    result = examine(states)
    assert "rank 7" in by_id(result.checks, "states.complete").what
    whole = examine([*states, Found(7, row(splits=24))])
    assert [state.rank for state in whole.states] == list(range(12)) and whole.is_complete


def test_eleven_ranks_cannot_share_24_splits_so_the_twelfth_is_missing() -> None:
    check = by_id(examine([Found(rank, row(splits=24)) for rank in range(11)]).checks, "states.complete")
    assert check.verdict is Verdict.REFUSE
    assert "rank 11" in check.what and "11 ranks can't share 24 splits" in check.evidence and "12" in check.evidence


def test_a_stray_rank_is_named() -> None:
    check = by_id(examine([Found(rank, row(splits=24)) for rank in [*range(12), 40]]).checks, "states.one-save")
    assert check.verdict is Verdict.REFUSE and "rank 40" in check.what


def test_what_is_recorded_counts_more_than_what_is_found() -> None:
    two = ranks(row(), row())
    assert examine(two).is_complete
    assert "ranks 2, 3" in by_id(examine(two, SaveFacts(world_size=4)).checks, "states.complete").what
    assert "rank 1" in by_id(examine(two, SaveFacts(world_size=1)).checks, "states.one-save").what
    of_four = [Found(0, row(), 4), Found(1, row(), 4)]
    assert "ranks 2, 3" in by_id(examine(of_four).checks, "states.complete").what
    assert refused(examine([Found(0, row(), 4), Found(1, row(), 2)])) == ["states.one-save", "states.complete"]
    impossible = by_id(examine(two, SaveFacts(world_size=3)).checks, "states.complete")
    assert "4 splits" in impossible.what and "3 ranks" in impossible.what and "1, 2, 4" in impossible.evidence


def test_no_state_is_no_problem() -> None:
    for found in ([], [Found(None, None)]):
        result = examine(found)
        assert not result.checks and not result.is_complete and not result.found
    result = examine(ranks(row(), None))
    assert refused(result) == ["states.shape"] and "rank 1" in result.checks[0].what


def test_a_lone_state_is_one_rank_a_marked_merge_or_a_part() -> None:
    assert examine([Found(None, row())], SaveFacts(world_size=1)).is_complete
    assert refused(examine([Found(None, row())], SaveFacts(world_size=4))) == ["states.complete"]
    assert by_id(examine([Found(None, row())]).checks, "states.complete").verdict is Verdict.WARN
    assert refused(examine([Found(None, row([7, 7, 6, 6]))])) == ["states.complete"]
    assert examine([Found(None, row([7, 7, 6, 6]))], SaveFacts(world_size=1)).is_complete
    marked = examine([Found(None, row(**{MERGED_MARK: 4}))], SaveFacts(world_size=4))
    assert marked.is_complete and marked.merged
    lied = {**row(), MERGED_MARK: True}
    assert refused(examine([Found(None, lied)], SaveFacts(world_size=4))) == ["states.complete"]
    assert refused(examine([Found(None, row()), Found(None, row(7))])) == ["states.complete"]


def test_a_state_without_a_rank_beside_ranked_ones_must_say_the_same() -> None:
    both = ranks(row([7, 7, 6, 6], positions=[8, 7, 6, 6]), row([6, 6, 7, 7]))
    merged = owners_merge([RankState(rank=r, origin="", state=normalise(f.state)) for r, f in enumerate(both)], 2)
    assert not refused(examine([Found(None, merged), *both]))
    assert not refused(examine([Found(None, both[1].state), *both]))
    assert refused(examine([Found(None, row(9)), *both])) == ["states.one-save"]


# What they say


@pytest.mark.parametrize(
    ("change", "both"),
    [
        ({"shuffle_seed": 8}, ("3", "8")),
        ({"epoch": 2}, ("0", "2")),
        (row(splits=8), ("4", "8")),
        (packed(), ("row", "packed")),
    ],
)
def test_disagreement_names_both_ranks_and_both_values(change: dict[str, Any], both: tuple[str, str]) -> None:
    check = by_id(examine(ranks(row(), {**row(), **change})).checks, "states.agree")
    assert check.verdict is Verdict.REFUSE
    assert all(value in check.what for value in ("rank 0", "rank 1", *both))


@pytest.mark.parametrize(
    ("state", "num_rows", "evidence"),
    [(packed(3, blocks_per_epoch=8), None, "8 blocks in 4 splits"), (row(6), 12, "12 rows in 4 splits")],
)
def test_a_split_beyond_its_end_names_what_there_is(state: dict[str, Any], num_rows: int | None, evidence: str) -> None:
    said = by_id(examine(ranks(state), SaveFacts(world_size=1, num_rows=num_rows)).checks, "states.end")
    assert said.verdict is Verdict.REFUSE and said.evidence == evidence


@pytest.mark.parametrize(("epoch", "said"), [(0, "epoch 0"), (2, "epoch 2 (it counts from 0)")])
def test_the_datasets_epoch_is_not_taken_for_the_trainers(epoch: int, said: str) -> None:
    check = by_id(examine(ranks(row(epoch=epoch), row(epoch=epoch))).checks, "states.agree")
    assert check.verdict is Verdict.PASS and check.what.endswith(said)


def test_an_over_claim_names_rank_split_owner_files_and_both_values() -> None:
    over = by_id(examine(ranks(row(9), row(5))).checks, "states.owners")
    assert "claims 9 of split 2" in over.what and "rank 1, says 5" in over.what
    assert "a.rank0.pt" in over.evidence and "a.rank1.pt" in over.evidence


def test_progress_is_clamped_to_the_rows_of_the_epoch() -> None:
    facts = SaveFacts(epoch=1, global_step=9, global_batch=4, num_rows=27)
    assert by_id(examine(ranks(row(), row()), facts).checks, "states.progress").verdict is Verdict.PASS
    assert by_id(examine(ranks(row(), row()), facts).checks, "states.end").what.startswith("the epoch is done")


def test_progress_that_cannot_be_compared_is_said() -> None:
    for facts in (SaveFacts(), SaveFacts(epoch=2, global_step=6, global_batch=4)):
        assert by_id(examine(ranks(row(), row()), facts).checks, "states.progress").verdict is Verdict.WARN


def test_the_epoch_of_states_and_checkpoint_is_compared() -> None:
    check = by_id(examine(ranks(row(), row()), SaveFacts(epoch=3)).checks, "states.epoch")
    assert check.verdict is Verdict.WARN and "0" in check.what and "3" in check.what


def test_check_set_takes_states_that_are_read_already() -> None:
    states = [RankState(rank=rank, origin=f"rank {rank}", state=normalise(row())) for rank in (1, 0)]
    assert not [one for one in check_set(states, world_size=2) if one.verdict is Verdict.REFUSE]
    assert "states.complete" in [one.id for one in check_set(states[:1], world_size=2) if one.verdict is Verdict.REFUSE]


def test_the_summary_counts_by_the_owners() -> None:
    summary = summarise(ranks(row([7, 7, 6, 6]), row([6, 6, 7, 7])), 2)
    assert (summary.found, summary.expected, summary.complete, summary.consumed) == (2, 2, True, 28)
    assert (summary.least, summary.most, summary.mode, summary.num_splits) == (7, 7, "row", 4)
    part = summarise(ranks(row()), 2)
    assert not part.complete and part.consumed is None and "rank 1" in part.problems[0]
    lone = summarise([Found(None, row())])
    assert lone.complete and lone.expected is None and lone.consumed == 24


# The law: on any good set the owners' merge is the maximum, in any order, and what is left is exact


@given(st.data())
def test_a_good_set_merges_to_the_owners_own_counts(data: st.DataObject) -> None:
    world_size, each = data.draw(st.sampled_from([1, 2, 3, 4])), data.draw(st.integers(1, 3))
    splits = world_size * each
    base = data.draw(st.integers(0, 20))
    owned = [base + data.draw(st.integers(0, 1)) for _ in range(splits)]
    skips = data.draw(st.lists(st.integers(0, 3), min_size=splits, max_size=splits))
    states = []
    for rank in range(world_size):
        mine = owned_splits(rank, world_size, splits)
        counts = [owned[split] if split in mine else base for split in range(splits)]
        positions = [owned[s] + skips[s] if s in mine else base for s in range(splits)]
        states.append(row(counts, splits, positions=positions))
    found = ranks(*states)
    random.Random(data.draw(st.integers(0, 99))).shuffle(found)
    result = examine(found, SaveFacts(world_size=world_size))
    assert result.is_complete, result.checks
    merged = owners_merge(result.states, world_size)
    assert merged["samples_consumed_per_split"] == owned
    assert merged["positions_consumed_per_split"] == [max(column) for column in zip(
        *(state["positions_consumed_per_split"] for state in states), strict=True
    )]  # fmt: skip
