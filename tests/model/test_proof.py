"""What is said of a resumed run: as a person says it, with both values, and never too early."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.plan import Batch, Launch, Policy, ResumePlan, Source, Start
from lavender_tui.model.proof import Begin, Outcome, Position, Proof, prove, read_begin
from lavender_tui.model.run import LossPoint
from lavender_tui.model.state_shapes import owned_splits
from lavender_tui.model.topology import allowed_world_sizes
from tests.model.build import checkpoint

PATH = "/r/run-2026-04-24_18-53-41/pretrain-10-00-00-0060.pt"


def state(counts: list[int], epoch: int = 1) -> dict[str, Any]:
    return {
        "num_splits": len(counts), "shuffle_seed": 7, "epoch": epoch,
        "samples_consumed_per_split": counts, "positions_consumed_per_split": counts,
    }  # fmt: skip


def plan(counts: list[int] | None = None, *, world_size: int = 4, **start: Any) -> ResumePlan:
    beginning = {"policy": Policy.EXACT, "epoch": 2, "scheduler_steps": None, "samples_replayed": 0, **start}
    return ResumePlan(
        source=Source(
            run="/r/run-2026-04-24_18-53-41", checkpoint=PATH, size=1, mtime_ns=2, stage="pretrain", save_count=60,
            epoch=2, epochs=3, epoch_complete=False, loss=2.1,
        ),
        world_size_previous=8,
        world_size=world_size,
        start=Start(**beginning),
        dataset=None if counts is None else state(counts),
        data=None,
        batch=Batch(global_size=64, per_rank=16, num_workers=0),
        run_dir="/r/new",
        launch=Launch(backend="local", argv=("x",), cwd="/"),
    )  # fmt: skip


def positions(counts: list[int], ranks: int, epoch: int = 1) -> tuple[Position, ...]:
    """As the ranks tell them that were put at this state."""
    owned = [owned_splits(rank, ranks, len(counts)) for rank in range(ranks)]
    return tuple(
        Position(first_split=own.start, taken=tuple(counts[own.start : own.stop]), dataset_epoch=epoch) for own in owned
    )


def curve(first: int, count: int, loss: float = 2.1, lr: float = 2e-4) -> list[LossPoint]:
    return [LossPoint(step=first + at, loss=loss + (at % 3) / 100, lr=lr) for at in range(count)]


COUNTS = [6100] * 8
BEFORE = curve(1401, 100)
SAVED = checkpoint(60, path=PATH, step=1500, lr=2e-4, loss=2.1)
BEGIN = Begin(
    at_step=1500, epoch=2, lr=2e-4, world_size=4, positions=positions(COUNTS, 4), checkpoint=PATH, logged=1, time=1.0
)  # fmt: skip


def proved(begin: Begin | None = BEGIN, after: list[LossPoint] | None = None, **more: Any) -> Proof:
    points = curve(1501, 5) if after is None else after
    given = {"plan": plan(COUNTS), "curve_before": BEFORE, "saved": SAVED, **more}
    return prove(given["plan"], begin, points, given["curve_before"], saved=given["saved"])


def test_all_as_planned_carries_on_and_that_is_final() -> None:
    proof = proved()
    assert (proof.verdict, proof.words, proof.is_settled) == (Outcome.CARRIES_ON, "carries on", True)
    assert [one.agrees for one in proof.evidence] == [True] * 7
    assert [one.id for one in proof.evidence] == [
        "checkpoint", "world_size", "epoch", "step", "position", "learning rate", "loss",
    ]  # fmt: skip
    assert proof.evidence[4].what == "4 ranks began where the plan says, after 48,800 rows in all"


@pytest.mark.parametrize("count", [0, 1, 2])
def test_it_is_too_early_to_tell(count: int) -> None:
    proof = proved(after=curve(1501, count))
    assert (proof.verdict, proof.is_settled) == (Outcome.NOT_YET, False)
    assert proof.words == ("not yet: no step is logged" if not count else f"not yet: {count} of 3 steps logged")


@pytest.mark.parametrize("count", [3, 4])
def test_a_few_steps_tell_it_but_more_may_still_change_it(count: int) -> None:
    proof = proved(after=curve(1501, count))
    assert (proof.verdict, proof.is_settled) == (Outcome.CARRIES_ON, False)


def test_a_jump() -> None:
    proof = proved(after=curve(1501, 5, loss=5.7))
    assert (proof.verdict, proof.words) == (Outcome.JUMPED, "jumped: loss 2.1 → 5.7")


def moved(rank: int, counts: list[int]) -> tuple[Position, ...]:
    return tuple(
        replace(one, taken=tuple(counts)) if at == rank else one for at, one in enumerate(positions(COUNTS, 4))
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epoch": 1}, "epoch 1 again instead of 2"),
        ({"epoch": 3}, "epoch 3 instead of 2"),
        ({"world_size": 2}, "2 ranks instead of 4"),
        ({"checkpoint": "/r/old/pretrain-09-00-00-0059.pt"},
         "loaded pretrain-09-00-00-0059.pt instead of pretrain-10-00-00-0060.pt"),
        ({"positions": moved(3, [0, 0])}, "rank 3 began at row 0, the plan says 12,200"),
        ({"positions": moved(1, [6000, 6200])}, "rank 1 began split 2 at row 6,000, the plan says 6,100"),
        ({"positions": positions([0] * 8, 4)}, "rank 0 began at row 0, the plan says 12,200 (and 3 more ranks)"),
        ({"positions": positions(COUNTS, 4)[::-1]}, "rank 0 reads splits 6-7, the plan says 0-1 (and 3 more ranks)"),
        ({"positions": positions(COUNTS, 4, epoch=0)},
         "rank 0 reads dataset epoch 0 instead of 1 (and 3 more ranks)"),
        ({"lr": 3e-3}, "learning rate 0.003 instead of 0.0002"),
    ],
)  # fmt: skip
def test_a_wrong_start_is_named_at_once(change: dict[str, Any], words: str) -> None:
    proof = proved(replace(BEGIN, **change), after=[])
    assert (proof.verdict, proof.words) == (Outcome.WRONG_START, words)


def test_one_split_a_rank_reads_as_in_the_data_page() -> None:
    begin = replace(BEGIN, world_size=8, positions=positions([6100] * 3 + [0] + [6100] * 4, 8))
    proof = proved(begin, plan=plan(COUNTS, world_size=8))
    assert proof.words == "rank 3 began at row 0, the plan says 6,100"


@pytest.mark.parametrize(
    ("first", "words"),
    [
        (1, "step 1 again instead of 1,501"),
        (1500, "step 1,500 again instead of 1,501"),
        (1600, "step 1,600 instead of 1,501"),
    ],
)
def test_steps_that_do_not_follow(first: int, words: str) -> None:
    proof = proved(after=curve(first, 5))
    assert (proof.verdict, proof.words) == (Outcome.WRONG_START, words)


def test_where_every_tenth_step_is_logged_the_next_one_follows() -> None:
    before = [LossPoint(step=10 * at, loss=2.1) for at in range(100, 150)]
    after = [LossPoint(step=10 * at, loss=2.1) for at in range(151, 156)]
    assert proved(after=after, curve_before=before).verdict is Outcome.CARRIES_ON


def test_several_mistakes_are_counted() -> None:
    proof = proved(replace(BEGIN, epoch=1, lr=3e-3), after=curve(1501, 5, loss=5.7))
    assert proof.verdict is Outcome.WRONG_START
    assert proof.words == "epoch 1 again instead of 2 (and 2 more)"


def test_the_next_epoch_begins_at_its_first_row() -> None:
    following = plan(None, policy=Policy.NEXT_EPOCH)
    fresh = replace(BEGIN, positions=positions([0] * 8, 4))
    assert proved(fresh, plan=following).verdict is Outcome.CARRIES_ON
    proof = proved(plan=following)
    assert proof.words == "rank 0 began at row 12,200, the plan says 0 (and 3 more ranks)"


def test_a_stepped_schedule_is_approximate_as_planned() -> None:
    proof = proved(replace(BEGIN, lr=1e-4), plan=plan(COUNTS, scheduler_steps=1))
    assert proof.verdict is Outcome.CARRIES_ON
    assert [one.agrees for one in proof.evidence if one.id == "learning rate"] == [None]


def test_a_schedule_in_motion_may_move_a_little() -> None:
    before = [replace(point, lr=2e-4 + 1e-5 * at) for at, point in enumerate(BEFORE)]
    proof = proved(replace(BEGIN, lr=before[-1].lr * 1.02), curve_before=before, saved=None)  # type: ignore[operator]
    assert proof.verdict is Outcome.CARRIES_ON


def test_a_new_stage_begins_from_the_weights_alone() -> None:
    begun = plan(None, policy=Policy.NEXT_EPOCH, stage="sft", epoch=1)
    fresh = replace(BEGIN, at_step=0, epoch=1, lr=3e-3, positions=positions([0] * 8, 4))
    proof = proved(fresh, after=curve(1, 5, loss=9.0), plan=begun)
    assert (proof.verdict, proof.words) == (Outcome.CARRIES_ON, "sft begins as planned")


def test_a_training_that_writes_no_such_line_is_judged_by_what_it_logs() -> None:
    assert proved(None).verdict is Outcome.CARRIES_ON
    assert not proved(None).is_settled
    assert proved(None, after=curve(1501, 5, loss=5.7)).verdict is Outcome.JUMPED
    nothing = proved(None, after=curve(1, 5), curve_before=(), saved=None)
    assert nothing.words == "carries on"  # by the loss that the plan names


def test_where_there_is_no_loss_to_compare_it_says_so() -> None:
    source = replace(plan(COUNTS).source, loss=None)
    without = replace(plan(COUNTS), source=source)
    proof = proved(plan=without, curve_before=(), saved=None)
    assert proof.verdict is Outcome.CARRIES_ON
    assert "no loss to compare with" in proof.words


@given(st.data())
def test_ranks_that_stand_where_the_merged_state_puts_them_agree_on_every_topology(data: st.DataObject) -> None:
    splits = data.draw(st.sampled_from([4, 6, 8, 12]))
    counts = data.draw(st.lists(st.integers(0, 10_000), min_size=splits, max_size=splits))
    ranks = data.draw(st.sampled_from(allowed_world_sizes(splits)))
    told = positions(counts, ranks)
    shown = json.loads(
        json.dumps({
            "event": "begin", "at_step": 1500, "epoch": 2, "lr": 2e-4, "world_size": ranks, "checkpoint": PATH,
            "positions": [
                {"dataset_epoch": 1, "first_split": one.first_split, "taken": list(one.taken)} for one in told
            ],
        })
    )  # fmt: skip
    begin = read_begin(shown)
    assert begin is not None and begin.positions == told
    assert proved(begin, plan=plan(counts, world_size=ranks)).verdict is Outcome.CARRIES_ON
    order = data.draw(st.permutations(range(ranks)))
    permuted = replace(begin, positions=tuple(told[rank] for rank in order))
    proof = proved(permuted, plan=plan(counts, world_size=ranks))
    if list(order) == list(range(ranks)):
        assert proof.verdict is Outcome.CARRIES_ON
    else:
        first = next(at for at, rank in enumerate(order) if at != rank)
        assert proof.verdict is Outcome.WRONG_START
        assert proof.words.startswith(f"rank {first} reads splits")


@given(
    st.fixed_dictionaries(
        {"event": st.just("begin")},
        optional=dict.fromkeys(
            ("at_step", "epoch", "lr", "world_size", "positions", "checkpoint", "logged", "time"),
            st.recursive(
                st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
                lambda inner: (
                    st.lists(inner, max_size=4)
                    | st.dictionaries(st.sampled_from(["first_split", "taken", "dataset_epoch"]), inner)
                ),
                max_leaves=8,
            ),
        ),
    )
)
def test_whatever_the_line_holds_something_is_said(record: dict[str, Any]) -> None:
    begin = read_begin(record)
    assert begin is not None
    assert proved(begin).words


def test_other_records_are_no_begin() -> None:
    assert read_begin({"event": "end"}) is None
    assert read_begin({"step": 3}) is None


def test_a_plan_whose_position_is_none_says_so() -> None:
    broken = replace(plan(COUNTS), dataset={"num_splits": 8})
    (finding,) = [one for one in proved(plan=broken).evidence if one.id == "position"]
    assert finding.agrees is None
    assert "can't be read" in finding.what
