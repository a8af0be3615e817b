"""Topology, starts, choosing, state: the contract's rules, each on small records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model import choosing, start, topology
from lavender_tui.model.checkpoint import Wholeness, parse_name
from lavender_tui.model.plan import Policy
from lavender_tui.model.run import started_at_from_name
from tests.model.build import ALL_RANKS, checkpoint, run


@given(st.integers(1, 300), st.integers(1, 300))
def test_allowed_world_sizes_are_exactly_the_divisors(num_splits: int, world_size: int) -> None:
    assert (world_size in topology.allowed_world_sizes(num_splits)) == (num_splits % world_size == 0)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 64))
def test_workers_of_all_ranks_together_divide_the_splits(num_splits: int, world_size: int, workers: int) -> None:
    allowed = workers in topology.allowed_num_workers(num_splits, world_size)
    fits = num_splits % world_size == 0 and (workers == 0 or num_splits % (world_size * workers) == 0)
    assert allowed == fits


def test_a_batch_is_shared_evenly_or_not_at_all() -> None:
    assert topology.per_rank_batch(48, 2) == 24
    assert topology.per_rank_batch(48, 5) is None
    assert topology.per_rank_batch(None, 2) is None
    assert topology.same_batches_everywhere(48, 8)
    assert not topology.same_batches_everywhere(12, 8)
    assert topology.nearest_allowed(3, 8) == 2
    assert topology.nearest_allowed(100, 8) == 8
    assert topology.nearest_allowed(0, 8) == 1


@pytest.mark.parametrize(
    ("epoch", "complete", "expected"),
    [
        (3, True, 4),
        (3, False, 3),
        (1, False, 1),
        (0, False, 1),
        (0, True, 1),
        (-1, False, 1),
        (4, None, 4),
        (None, True, None),
        (7, False, 7),
    ],
)
def test_the_epoch_rule(epoch: int | None, complete: bool | None, expected: int | None) -> None:
    assert start.starting_epoch(epoch, complete) == expected


def test_policies_follow_what_the_checkpoint_has() -> None:
    assert start.default_policy(checkpoint(rank_states=ALL_RANKS)) is Policy.EXACT
    assert start.default_policy(checkpoint(rank_states=ALL_RANKS, epoch_complete=True)) is Policy.NEXT_EPOCH
    assert start.default_policy(checkpoint()) is Policy.REPLAY_EPOCH
    assert start.policy_epoch(Policy.SKIP_EPOCH, checkpoint(epoch=2)) == 3
    assert start.policy_epoch(Policy.REPLAY_EPOCH, checkpoint(epoch=2)) == 2
    assert start.scheduler_steps(checkpoint(), 3) == 2
    assert start.scheduler_steps(checkpoint(has_scheduler=True), 3) is None
    assert start.is_training_over(checkpoint(stage="final"))
    assert start.is_training_over(checkpoint(epoch=3, epochs=3, epoch_complete=True))
    assert not start.is_training_over(checkpoint(epoch=3, epochs=3))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("pretrain-23-55-59-0058.pt", ("pretrain", 58)),
        ("pretrain-23-55-59-10000.pt", ("pretrain", 10000)),
        ("pre-train-2-09-47-00-0001.pt", ("pre-train-2", 1)),
        ("pretrain-23-55-59-058.pt", (None, None)),
        ("pretrain-٢٣-٥٥-٥٩-0001.pt", (None, None)),
        ("pretrain-23-55-59-000².pt", (None, None)),
        ("-10-00-00-0001.pt", (None, None)),
        ("model.pt", (None, None)),
    ],
)
def test_names_are_read_from_the_right_with_ascii_digits_only(
    name: str, expected: tuple[str | None, int | None]
) -> None:
    assert parse_name(name) == expected


def test_newest_is_by_save_count_as_a_number() -> None:
    choice = choosing.in_run([checkpoint(9999), checkpoint(10000), checkpoint(9998)])
    assert choice.checkpoint is not None
    assert choice.checkpoint.save_count == 10000
    assert choice.passed_over == ()


def test_a_broken_newest_is_passed_over_with_its_reason() -> None:
    cut = checkpoint(3, wholeness=Wholeness.CUT, reason="cut off, 41 of 96 MB", stage=None)
    liar = checkpoint(4, stage="sft")
    empty = checkpoint(5, has_model=False)
    choice = choosing.in_run([checkpoint(2), cut, liar, empty], "pretrain")
    assert choice.checkpoint is not None
    assert choice.checkpoint.save_count == 2
    assert [reason for _, reason in choice.passed_over] == [
        "holds no model weights",
        "its name says pretrain, its content sft",
        "cut off, 41 of 96 MB",
    ]


def test_the_newest_run_wins_and_counts_are_never_compared_over_runs() -> None:
    old = run("run-2026-04-24_18-53-41", checkpoint(60))
    new = run("run-2026-04-25_09-12-07", checkpoint(4))
    without = run("run-2026-04-26_00-00-00", checkpoint(9, stage="sft", name_stage="sft"))
    choice = choosing.over_runs([new, without, old], "pretrain")
    assert choice.run is new
    assert choice.checkpoint is not None and choice.checkpoint.save_count == 4
    assert choosing.over_runs([], None).checkpoint is None


def test_a_run_without_a_date_is_ordered_by_its_record() -> None:
    plain = run("exp-a", checkpoint(1), started_at=2e9)
    assert choosing.over_runs([plain, run("run-2026-04-25_09-12-07", checkpoint(4))]).run is plain
    assert started_at_from_name("run-2026-13-45_99-99-99") is None
