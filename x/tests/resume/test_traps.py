"""Sets of rank states that the library merges without a word: each is refused, or what is read on is exact."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import pytest

from lavender_tui.model.plan import Verdict
from lavender_tui.model.rank_state import MERGED_MARK, SaveFacts, StateSet, examine, owners_merge
from tests.resume.real_states import RANKS, read_on, repeated_and_lost, skip_bad, train, train_by_loader

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


@dataclass(frozen=True)
class Found:
    rank: int | None
    state: Any
    world_size: int | None = None
    origin: str = "a.pt"


def ranked(states: list[Any], ranks: Any = None) -> list[Found]:
    numbers = range(len(states)) if ranks is None else ranks
    return [Found(rank, state, origin=f"a.rank{rank}.pt") for rank, state in zip(numbers, states, strict=True)]


def refusals(result: StateSet) -> list[str]:
    return [check.id for check in result.checks if check.verdict is Verdict.REFUSE]


def merged(result: StateSet) -> dict[str, Any]:
    """The owners' merge, which must be the library's."""
    from lancedb.streaming import StreamingDataset

    assert result.is_complete, result.checks
    by_owners = owners_merge(result.states, result.world_size)
    assert by_owners == StreamingDataset.merge_state_dicts([state.state for state in result.states])
    return by_owners


GENERATIONS = ("first", "second", "loaded")
RECORDED = SaveFacts(world_size=RANKS)


@pytest.fixture(params=GENERATIONS)
def generation(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_all_ranks_go_on_exactly(table: Any, generation: Any) -> None:
    states, before = generation
    state = merged(examine(ranked(states), RECORDED))
    assert repeated_and_lost(before, read_on(table, state, 2)) == (0, 0)


@pytest.mark.long
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_all_ranks_go_on_exactly_on_every_topology(table: Any, generation: Any, ranks: int) -> None:
    states, before = generation
    state = merged(examine(ranked(states), RECORDED))
    assert repeated_and_lost(before, read_on(table, state, ranks)) == (0, 0)


@pytest.mark.parametrize("missing", range(RANKS))
def test_a_missing_rank_is_refused_by_name(generation: Any, missing: int) -> None:
    states = ranked(generation[0])
    del states[missing]
    for facts in (RECORDED, SaveFacts()):
        result = examine(states, facts)
        if facts is RECORDED or missing < RANKS - 1:
            assert "states.complete" in refusals(result)
            assert f"rank {missing}" in next(c.what for c in result.checks if c.verdict is Verdict.REFUSE)


@pytest.mark.parametrize("only", range(RANKS))
def test_one_rank_alone_is_refused(generation: Any, only: int) -> None:
    state = generation[0][only]
    for found in (Found(None, state), Found(only, state)):
        assert "states.complete" in refusals(examine([found], RECORDED))


def test_one_rank_of_an_unknown_number_is_refused_unless_it_is_exact(table: Any, generation: Any) -> None:
    """Nobody wrote down how many ranks there were: only a state that shows no gap is taken."""
    states, before = generation
    for found in (Found(None, states[0]), Found(0, states[0])):
        result = examine([found])
        if result.is_complete:
            assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)
        else:
            assert refusals(result)


def test_a_leading_part_of_an_unknown_number_is_refused_unless_it_is_exact(table: Any, generation: Any) -> None:
    states, before = generation
    result = examine(ranked(states[:2]))
    if result.is_complete:
        assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)
    else:
        assert refusals(result)


def test_rank_0_in_the_place_of_all_is_refused_unless_it_is_exact(table: Any, generation: Any) -> None:
    states, before = generation
    result = examine(ranked([copy.deepcopy(states[0]) for _ in states]), RECORDED)
    if result.is_complete:
        assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)
    else:
        assert set(refusals(result)) <= {"states.uniform", "states.owners"}


def test_exact_duplicates_are_said_and_do_no_harm(table: Any, generation: Any) -> None:
    states, before = generation
    found = [*ranked(states), Found(0, copy.deepcopy(states[0]), origin="copy.pt")]
    result = examine(found, RECORDED)
    said = [check for check in result.checks if check.id == "states.one-save"]
    assert [check.verdict for check in said] == [Verdict.WARN]
    assert "rank 0" in said[0].what and "copy.pt" in said[0].evidence
    assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)


def test_a_duplicate_that_differs_is_refused_with_both_values(first: Any, second: Any) -> None:
    result = examine([*ranked(second[0]), Found(2, first[0][2], origin="old.pt")], RECORDED)
    refused = next(check for check in result.checks if check.id == "states.one-save")
    assert refused.verdict is Verdict.REFUSE
    assert "a.rank2.pt" in refused.evidence and "old.pt" in refused.evidence and "50 and 24" in refused.evidence


def test_files_in_the_wrong_order_are_refused_unless_they_are_exact(table: Any, generation: Any) -> None:
    states, before = generation
    result = examine(ranked(states[1:] + states[:1]), RECORDED)
    if result.is_complete:
        assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)
    else:
        assert "states.owners" in refusals(result)


def test_half_of_the_ranks_for_half_the_world_is_refused(generation: Any) -> None:
    assert "states.complete" in refusals(examine(ranked(generation[0][:2]), RECORDED))


@pytest.mark.parametrize("rows", [[48, 52, 56, 60], [20, 20, 20, 200], [47, 48, 48, 48]])
def test_ranks_at_different_steps_are_refused_by_the_owner(table: Any, rows: list[int]) -> None:
    """Merged, these would leave 24, 540 and 1 rows unread, and look perfectly even."""
    states, _ = train(table, rows=rows)
    result = examine(ranked(states), RECORDED)
    assert refusals(result) == ["states.owners"]
    refused = next(check for check in result.checks if check.verdict is Verdict.REFUSE)
    assert "rank" in refused.what and "split" in refused.what and "a.rank" in refused.evidence


def test_ranks_at_different_steps_after_a_resume_are_refused_as_uneven(table: Any, first: Any) -> None:
    states, _ = train(table, rows=[2, 4, 8, 12], state=merged(examine(ranked(first[0]), RECORDED)))
    assert refusals(examine(ranked(states), RECORDED)) == ["states.uniform"]


def test_different_steps_through_the_loader_are_refused_as_uneven(table: Any) -> None:
    early, _ = train_by_loader(table, 4)
    late, _ = train_by_loader(table, 6)
    assert refusals(examine(ranked([early[0], *late[1:]]), RECORDED)) == ["states.uniform"]


def test_older_states_left_over_from_a_larger_world_are_refused(table: Any, first: Any) -> None:
    smaller, _ = train(table, 2, rows=104, state=merged(examine(ranked(first[0]), RECORDED)))
    found = ranked([*smaller, *first[0][2:]])
    assert "states.one-save" in refusals(examine(found, SaveFacts(world_size=2)))
    assert refusals(examine(found))  # nobody wrote down that there were two


def test_newer_states_left_over_from_an_abandoned_attempt_are_refused(table: Any, first: Any) -> None:
    further, _ = train(table, rows=120)
    assert refusals(examine(ranked([*first[0][:2], *further[2:]]), RECORDED)) == ["states.owners"]


def test_files_of_two_steps_between_which_the_run_was_killed_are_refused(table: Any) -> None:
    """Two ranks wrote the files of the newer step, two still have the older: rows per rank differ, or progress does."""
    newer, _ = train_by_loader(table, 10)
    older, _ = train_by_loader(table, 5)
    assert refusals(examine(ranked([*newer[:2], *older[2:]]), RECORDED)) == ["states.uniform"]


def test_the_steps_of_another_moment_are_refused_with_both_numbers(first: Any) -> None:
    facts = SaveFacts(world_size=RANKS, epoch=1, global_step=8, global_batch=32)
    result = examine(ranked(first[0]), facts)
    refused = next(check for check in result.checks if check.id == "states.progress")
    assert refused.verdict is Verdict.REFUSE
    assert "192" in refused.what and "256" in refused.what


def test_the_right_step_passes_and_a_resumed_run_counts_from_its_start(first: Any, second: Any) -> None:
    facts = SaveFacts(world_size=RANKS, epoch=1, global_step=6, global_batch=32)
    result = examine(ranked(first[0]), facts)
    assert next(c for c in result.checks if c.id == "states.progress").verdict is Verdict.PASS
    later = SaveFacts(world_size=RANKS, epoch=3, global_step=113, global_batch=16, start_samples=192, start_step=100)
    result = examine(ranked(second[0]), later)
    assert next(c for c in result.checks if c.id == "states.progress").verdict is Verdict.PASS


def test_lists_cut_to_seven_of_eight_entries_are_refused(first: Any) -> None:
    short = copy.deepcopy(first[0])
    for key in ("samples_consumed_per_split", "positions_consumed_per_split"):
        short[1][key] = short[1][key][:7]
    result = examine(ranked(short), RECORDED)
    assert refusals(result) == ["states.shape"]
    assert "rank 1" in result.checks[0].what and "7" in result.checks[0].what and "8" in result.checks[0].what


BAD = set(range(0, 1000, 13))  # 77 rows whose transform fails


@pytest.fixture(scope="module")
def skipping(table: Any) -> tuple[list[dict[str, Any]], list[int]]:
    return train(table, rows=48, transform=skip_bad(BAD), on_transform_error="skip", read_batch_size=4)


def test_skipped_rows_are_kept_exactly(table: Any, skipping: Any) -> None:
    states, before = skipping
    result = examine(ranked(states), RECORDED)
    assert any(check.id == "states.positions" and check.verdict is Verdict.WARN for check in result.checks)
    options = {"transform": skip_bad(BAD), "on_transform_error": "skip", "read_batch_size": 4}
    after = read_on(table, merged(result), 8, **options)
    assert repeated_and_lost(before, after, set(range(1000)) - BAD)[0] == 0


@pytest.mark.parametrize("missing", range(RANKS))
def test_with_skipped_rows_even_a_first_launch_needs_every_rank(skipping: Any, missing: int) -> None:
    found = ranked(skipping[0])
    del found[missing]
    assert "states.complete" in refusals(examine(found, RECORDED))


def test_with_skipped_rows_one_state_of_an_unknown_number_is_refused(skipping: Any) -> None:
    assert "states.complete" in refusals(examine([Found(None, skipping[0][0])]))
    assert "states.complete" in refusals(examine([Found(0, skipping[0][0])]))


def test_lost_positions_are_refused_where_rows_may_have_been_skipped(skipping: Any) -> None:
    bare = [{key: value for key, value in one.items() if "positions" not in key} for one in skipping[0]]
    skips = SaveFacts(world_size=RANKS, on_transform_error="skip")
    assert refusals(examine(ranked(bare), skips)) == ["states.positions"]
    newer = SaveFacts(world_size=RANKS, states_have_positions=True)
    assert refusals(examine(ranked(bare), newer)) == ["states.positions"]
    one_lacks_them = ranked([bare[0], *skipping[0][1:]])
    assert refusals(examine(one_lacks_them, RECORDED)) == ["states.agree"]


@pytest.mark.parametrize("rows", [[49] * 4, [49, 48, 49, 48]])
def test_a_partial_cycle_is_exact_and_its_cost_is_said(table: Any, rows: list[int]) -> None:
    states, before = train(table, rows=rows)
    result = examine(ranked(states), RECORDED)
    said = next(check for check in result.checks if check.id == "states.uniform")
    assert said.verdict is Verdict.WARN and "behind" in said.what
    assert repeated_and_lost(before, read_on(table, merged(result), 2)) == (0, 0)


def test_two_workers_cannot_start_within_a_cycle(table: Any) -> None:
    states, _ = train(table, rows=49)
    facts = SaveFacts(world_size=RANKS, num_workers=2)
    assert refusals(examine(ranked(states), facts)) == ["states.uniform"]


def test_one_cycle_after_a_resume_a_lone_rank_looks_like_a_partial_cycle_and_is_refused(table: Any, first: Any) -> None:
    states, _ = train(table, rows=2, state=merged(examine(ranked(first[0]), RECORDED)))
    assert "states.complete" in refusals(examine([Found(None, states[0])]))
    assert "states.complete" in refusals(examine([Found(0, states[0])]))
    assert refusals(examine(ranked(states[:2]))) == ["states.owners"]


def test_the_end_of_the_epoch_is_noticed(table: Any) -> None:
    states, before = train(table, rows=None)
    assert len(set(before)) == 1000
    result = examine(ranked(states), SaveFacts(world_size=RANKS, num_rows=1000))
    end = next(check for check in result.checks if check.id == "states.end")
    assert "epoch is done" in end.what and "125" in end.what
    other = examine(ranked(states), SaveFacts(world_size=RANKS, num_rows=900))
    assert refusals(other) == ["states.end"]


def test_a_state_that_we_merged_is_whole_for_any_number_of_ranks(table: Any, second: Any) -> None:
    state = {**merged(examine(ranked(second[0]), RECORDED)), MERGED_MARK: RANKS}
    result = examine([Found(None, state)], RECORDED)
    assert result.is_complete and result.merged and result.recorded_ranks == RANKS
    assert repeated_and_lost(second[1], read_on(table, state, 4)) == (0, 0)


PACKED = {
    "columns": ["tokens"], "pack_sequences": 16, "eos_id": 99, "pad_id": 98, "blocks_per_epoch": 280,
}  # fmt: skip


@pytest.fixture(scope="module")
def packed(table: Any) -> tuple[list[dict[str, Any]], list[Any]]:
    return train(table, rows=20, **PACKED)


def test_packed_states_go_on_exactly(table: Any, packed: Any) -> None:
    states, before = packed
    state = merged(examine(ranked(states), SaveFacts(world_size=RANKS, epoch=1, global_step=5, global_batch=16)))
    _, everything = train(table, rows=None, **PACKED)
    after = read_on(table, state, 2, **PACKED)
    assert sorted(before + after) == sorted(everything)


def test_packed_states_that_lack_a_rank_a_buffer_or_a_step_are_refused(table: Any, packed: Any) -> None:
    states, _ = packed
    for missing in range(RANKS):
        found = ranked(states)
        del found[missing]
        assert "states.complete" in refusals(examine(found, RECORDED))
    later, _ = train(table, rows=24, **PACKED)
    assert refusals(examine(ranked([*states[:3], later[3]]), RECORDED)) == ["states.uniform"]
    both = [*ranked(states), *ranked(later)]
    assert "states.one-save" in refusals(examine(both, RECORDED))
    torn = copy.deepcopy(states)
    del torn[1]["pack_buffers"][2]
    assert refusals(examine(ranked(torn), RECORDED)) == ["states.buffers"]
    auto = [{**one, "blocks_per_epoch": "auto"} for one in states]
    assert set(refusals(examine(ranked(auto), RECORDED))) == {"states.shape"}


def test_packed_and_row_states_do_not_mix(packed: Any, first: Any) -> None:
    result = examine(ranked([*packed[0][:2], *first[0][2:]]), RECORDED)
    assert "states.agree" in refusals(result)
    assert "packed" in result.checks[-1].what or any("packed" in check.what for check in result.checks)


def test_packed_states_that_went_through_json_are_the_same(packed: Any) -> None:
    import json

    states = json.loads(json.dumps(packed[0]))
    assert merged(examine(ranked(states), RECORDED)) == merged(examine(ranked(packed[0]), RECORDED))
    mixed = [packed[0][0], *states[1:]]
    assert merged(examine(ranked(mixed), RECORDED)) == merged(examine(ranked(packed[0]), RECORDED))


@pytest.mark.long
@pytest.mark.parametrize("workers", [1, 2])
def test_states_of_a_loader_with_workers_go_on_exactly(table: Any, workers: int) -> None:
    states, before = train_by_loader(table, 6, num_workers=workers)
    assert states[0]["samples_consumed_per_split"][-1] == 0  # nothing is said of others' splits
    state = merged(examine(ranked(states), RECORDED))
    assert repeated_and_lost(before, read_on(table, state, 2)) == (0, 0)
    for missing in range(RANKS):
        found = ranked(states)
        del found[missing]
        assert "states.complete" in refusals(examine(found, RECORDED))
    assert refusals(examine([Found(None, states[0])])) == ["states.complete"]
