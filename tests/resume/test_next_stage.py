"""The end of one stage as the start of the next; a schedule that lacks the step of the epoch that is left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.model.plan import Policy, ResumePlan, Verdict
from tests.resume.saves import check, proposed, refusals, row, save, warnings

OVER: dict[str, Any] = {"epoch": 3, "epoch_complete": True}
DATA = {"uri": "/nowhere", "table": "rows", "version": 7, "num_rows": 100}


def test_only_the_weights_are_taken_over(run: str) -> None:
    path = save(
        run, 1, [row(25), row(25)], world_size=2, batch={"global": 8, "num_workers": 2}, data=DATA,
        scheduler_state_dict={"last_epoch": 3}, **OVER,
    )  # fmt: skip
    proposal = proposed(run, next_stage="sft", world_size=1, command=("true", "{stage}", "{start_epoch}"))
    plan = proposal.plan
    assert not proposal.is_refused and plan is not None
    assert plan.source.checkpoint == path and plan.source.stage == "pretrain"
    start = plan.start
    assert (start.policy, start.epoch, start.stage) == (Policy.NEXT_EPOCH, 1, "sft")
    assert (start.scheduler_steps, start.scheduler_extra, start.samples_replayed) == (0, 0, 0)
    assert (plan.dataset, plan.data, plan.batch.global_size) == (None, None, None)
    assert plan.launch.argv[-2:] == ("sft", "1")
    assert check(proposal, "stage.next").verdict is Verdict.PASS
    assert ResumePlan.from_json(plan.to_json()) == plan
    assert not {"checkpoint.optimizer", "epoch.over", "states.complete"} & {one.id for one in proposal.checks}


def test_any_world_size_and_no_optimizer_will_do(run: str) -> None:
    save(run, 1, [row(25), row(25)], world_size=2, drop=("optimizer_state_dict",), **OVER)
    proposal = proposed(run, next_stage="sft", world_size=3, command=("torchrun", "-m", "x"))
    assert not proposal.is_refused and "checkpoint.optimizer" not in warnings(proposal)


def test_the_newest_checkpoint_of_another_stage_is_the_start(run: str) -> None:
    save(run, 1, **OVER)
    save(run, 2, stage="sft")
    plan = proposed(run, next_stage="sft").plan
    assert plan is not None and plan.source.stage == "pretrain"
    other = proposed(run, next_stage="dpo", stage="pretrain").plan
    assert other is not None and other.source.stage == "pretrain"


def test_a_stage_that_was_not_over_and_a_found_command_are_warned_of(run: str, tmp_path: Path) -> None:
    (tmp_path / "lavender.toml").write_text('command = "true"')
    save(run, 1)
    proposal = proposed(run, next_stage="sft", command=(), project_dir=str(tmp_path))
    assert not proposal.is_refused and {"stage.next", "stage.command"} <= set(warnings(proposal))
    (tmp_path / "lavender.toml").write_text('command = "true {stage}"')
    assert "stage.command" not in warnings(proposed(run, next_stage="sft", command=(), project_dir=str(tmp_path)))


@pytest.mark.parametrize("options", [{"next_stage": "pretrain"}, {"next_stage": "../x"}, {"next_stage": ""},
                                     {"next_stage": "sft", "policy": Policy.SKIP_EPOCH}])  # fmt: skip
def test_what_makes_no_sense_is_refused(run: str, options: dict[str, Any]) -> None:
    assert refusals(proposed(save(run, 1, **OVER), **options)) == ["stage.next"]


@pytest.mark.parametrize(("stage", "after"), [("pretrain", "sft"), ("sft", "dpo"), ("dpo", "STAGE")])
def test_a_training_that_is_over_offers_the_next_stage(run: str, stage: str, after: str) -> None:
    save(run, stage=stage, **OVER)
    assert f"--next-stage {after} -- COMMAND" in check(proposed(run), "epoch.over").remedy


# The schedule


@pytest.mark.parametrize(
    ("last_epoch", "fields", "policy", "extra"),
    [
        (1, {"dataset": [row(25), row(25)]}, None, 1),  # spent, and stepped once per epoch
        (50, {"dataset": [row(25), row(25)]}, None, 0),  # stepped with every batch
        (2, {"dataset": [row(25), row(25)]}, None, 0),  # stepped before the save
        (1, {"dataset": [row(6), row(6)]}, Policy.SKIP_EPOCH, 1),
        (1, {"dataset": [row(6), row(6)]}, None, 0),  # the epoch is gone on with
        (1, {"epoch_complete": True}, None, 0),  # as it was saved
        (None, {"dataset": [row(25), row(25)]}, None, 0),
    ],
)
def test_the_step_that_the_end_of_an_epoch_would_have_made(
    run: str, last_epoch: int | None, fields: dict[str, Any], policy: Policy | None, extra: int
) -> None:
    dataset = [{**one, "epoch": 1} for one in fields.pop("dataset", [])] or None
    scheduler = {} if last_epoch is None else {"scheduler_state_dict": {"last_epoch": last_epoch}}
    save(run, 1, dataset, epoch=2, world_size=2, data={"num_rows": 100, "filter": None}, **scheduler, **fields)
    proposal = proposed(run, world_size=1, policy=policy)
    assert proposal.plan is not None and proposal.plan.start.scheduler_extra == extra
    assert ("scheduler.step" in warnings(proposal)) is bool(extra)
    if extra:
        assert any("one step short" in one for one in proposal.plan.warnings)


def test_an_old_plan_without_the_new_keys_is_still_read(run: str) -> None:
    save(run, 1)
    plan = proposed(run).plan
    assert plan is not None
    document = plan.to_json()
    for key in ("stage", "scheduler_extra"):
        del document["start"][key]
    assert ResumePlan.from_json(document) == plan
    assert os.path.isabs(plan.run_dir)
