"""What the sheet says will follow: it knows, or it says that it doesn't."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lavender_tui.model.plan import Batch, Launch, Policy, ResumePlan, Source, Start
from lavender_tui.tui import consequences

MERGED = {"num_splits": 4, "epoch": 1, "samples_consumed_per_split": [10, 10, 10, 10]}


def plan(
    policy: Policy, *, dataset: dict[str, Any] | None, replayed: int | None, epoch: int | None = 2, start: int = 2
) -> ResumePlan:
    return ResumePlan(
        source=Source(
            run="/runs/a", checkpoint="/runs/a/x.pt", size=1, mtime_ns=1, stage="pretrain", save_count=8, epoch=epoch,
            epochs=4, epoch_complete=False, loss=2.0,
        ),
        world_size_previous=2,
        world_size=2,
        start=Start(policy=policy, epoch=start, scheduler_steps=None, samples_replayed=replayed),
        dataset=dataset,
        data={"num_rows": 83},  # of which 4 splits read 80
        batch=Batch(global_size=8, per_rank=4, num_workers=0),
        run_dir="/runs/b",
        launch=Launch(backend="local", argv=(), cwd="/"),
    )  # fmt: skip


def said(of: ResumePlan) -> dict[str, str]:
    lines = ["".join(words for words, _ in line) for line in consequences.lines(of, None)]
    return {line.split()[0]: " ".join(line.split()[1:]) for line in lines}


def test_exact_without_a_state_knows_nothing_and_promises_nothing() -> None:
    lines = said(plan(Policy.EXACT, dataset=None, replayed=None))
    assert lines["starts"] == "epoch 2 of 4, where in it is not known"
    assert lines["repeats"] == "not known loses not known"


@pytest.mark.parametrize(
    ("policy", "dataset", "replayed", "starts", "repeats"),
    [
        (Policy.EXACT, MERGED, 0, "epoch 2 of 4, row 40 of 80 (50 %)", "0 rows loses 0 rows"),
        (Policy.REPLAY_EPOCH, None, 40, "epoch 2 of 4, from its first batch", "40 rows loses 0 rows"),
        (Policy.REPLAY_EPOCH, None, 1, "epoch 2 of 4, from its first batch", "1 row loses 0 rows"),
        (
            Policy.REPLAY_EPOCH,
            None,
            None,
            "epoch 2 of 4, from its first batch",
            "what it read of this epoch loses 0 rows",
        ),
        (
            Policy.SKIP_EPOCH,
            None,
            0,
            "epoch 2 of 4, from its first batch",
            "0 rows loses the rest of this epoch",
        ),
    ],
)
def test_every_policy_says_what_it_costs(
    policy: Policy, dataset: dict[str, Any] | None, replayed: int | None, starts: str, repeats: str
) -> None:
    lines = said(plan(policy, dataset=dataset, replayed=replayed))
    assert (lines["starts"], lines["repeats"]) == (starts, repeats)


@pytest.mark.parametrize(("skipped", "shown"), [(3_120, "3,120 rows"), (1, "1 row"), (0, "0 rows")])
def test_what_is_skipped_is_counted_where_it_is_known(skipped: int, shown: str) -> None:
    of = plan(Policy.SKIP_EPOCH, dataset=MERGED, replayed=0)
    assert said(replace(of, start=replace(of.start, samples_skipped=skipped)))["repeats"] == f"0 rows loses {shown}"


def test_ranks_that_can_not_share_are_promised_no_batches() -> None:
    of = plan(Policy.EXACT, dataset=MERGED, replayed=0)
    lines = said(replace(of, world_size=3, batch=replace(of.batch, per_rank=None)))
    assert lines["ranks"] == "3 ranks: 4 splits can't be shared by them"
    assert lines["batch"] == "8, which 3 ranks can't share"


def test_an_epoch_that_nobody_recorded_is_named_so() -> None:
    lines = said(plan(Policy.REPLAY_EPOCH, dataset=None, replayed=None, epoch=None, start=1))
    assert lines["starts"] == "epoch 1 of 4 (the checkpoint names none), from its first batch"
