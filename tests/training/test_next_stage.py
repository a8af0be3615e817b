"""What a training gets where a new stage begins, and a scheduler that lacks the step of its epoch's end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.resume import Options, Target, propose
from lavender_tui.training import CheckpointManager, beginning, resume_from_checkpoint, resume_plan, starting_point

Manage = Callable[..., CheckpointManager]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Plans as the launcher does, and points the environment at the plan."""

    def plan(checkpoint: str, **options: Any) -> None:
        proposal = propose(Target(paths=(checkpoint,)), Options(command=("true",), **options))
        assert proposal.plan is not None and not proposal.is_refused, proposal.checks
        path = tmp_path / "resume.json"
        path.write_text(json.dumps(proposal.plan.to_json()))
        monkeypatch.setenv("LAVENDER_RESUME_PLAN", str(path))

    return plan


def trained(uri: str, manage: Manage, model: torch.nn.Module, **fields: Any) -> str:
    """One epoch of a pretrain stage, saved at its end; the scheduler is stepped once per epoch, after the save."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    manager = manage()
    manager.set_optimizer(optimizer)
    manager.set_scheduler(scheduler)
    begin = beginning()
    dataset = begin.streaming_dataset(begin.open_table(uri, "corpus"), 1, num_splits=8)
    for step, batch in enumerate(manager.loader(dataset, batch_size=16), 1):
        loss = model(batch["x"].float().unsqueeze(1) / 200).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        manager.log(step=step, loss=loss)
    path = manager.save("pretrain", epoch=1, **{"epochs": 2, **fields})
    manager.close()
    return path


def built() -> tuple[torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    torch.manual_seed(5)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    return model, optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)


def test_a_new_stage_begins_with_the_weights_and_nothing_else(
    uri: str, root: str, manage: Manage, model: torch.nn.Module, planned: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    path = trained(uri, manage, model, epochs=1, epoch_complete=True)
    planned(path, next_stage="sft")
    fresh, optimizer, scheduler = built()
    before = torch.get_rng_state()
    begin = beginning(stage="sft")
    begin.restore(fresh, optimizer, scheduler)
    assert all(torch.equal(one, other) for one, other in zip(fresh.parameters(), model.parameters(), strict=True))
    assert not optimizer.state and scheduler.last_epoch == 0 and torch.equal(before, torch.get_rng_state())
    assert (begin.stage, begin.begins_stage, begin.is_fresh) == ("sft", True, False)
    assert (begin.global_step, list(begin.epochs(2)), begin.data, begin.dataset) == (0, [1, 2], {}, None)
    dataset = begin.streaming_dataset(begin.open_table(uri, "corpus"), 1, num_splits=4, shuffle_seed=9)
    assert dataset.state_dict()["epoch"] == 0 and sum(dataset.state_dict()["samples_consumed_per_split"]) == 0
    assert "version" not in caplog.text and "scheduler" not in caplog.text
    manager = manage(begin=begin, model=fresh)
    saved = resume_from_checkpoint(manager.save("sft", epoch=1, epochs=2))[2]
    assert (saved["stage"], saved["global_step"]) == ("sft", 0)
    assert json.loads(Path(manager.run_dir, "launch.json").read_text())["resumed_from"]["checkpoint"] == path


def test_the_plan_of_a_new_stage_is_not_the_old_stages(
    uri: str, manage: Manage, model: torch.nn.Module, planned: Callable[..., None]
) -> None:
    planned(trained(uri, manage, model, epochs=1, epoch_complete=True), next_stage="sft")
    assert resume_plan("pretrain") is None
    found = resume_plan("sft")
    assert found is not None and found.stage == "sft"


@pytest.mark.parametrize("by_plan", [True, False])
def test_a_spent_epoch_saved_before_its_schedulers_step_gets_it(
    uri: str, manage: Manage, model: torch.nn.Module, planned: Callable[..., None], by_plan: bool
) -> None:
    path = trained(uri, manage, model)
    if by_plan:
        planned(path)
    fresh, optimizer, scheduler = built()
    begin = beginning(None if by_plan else path)
    assert (begin.start.epoch, begin.start.scheduler_steps, begin.start.scheduler_extra) == (2, None, 1)
    begin.restore(fresh, optimizer, scheduler)
    assert scheduler.last_epoch == 1 and scheduler.get_last_lr() == [0.05]
    assert optimizer.param_groups[0]["lr"] == 0.05


def test_a_scheduler_that_is_stepped_with_every_batch_lacks_nothing() -> None:
    rows = {"samples_consumed_per_split": [50] * 4, "positions_consumed_per_split": [50] * 4}
    state = {"shuffle_seed": 0, "num_splits": 4, "epoch": 1, **rows}
    meta = {"epoch": 2, "dataset": [state], "world_size": 1, "data": {"num_rows": 200}, "checkpoint_path": os.devnull}
    assert starting_point({**meta, "scheduler_state_dict": {"last_epoch": 26}}).scheduler_extra == 0
    assert starting_point({**meta, "scheduler_state_dict": {"last_epoch": 1}}).scheduler_extra == 1
    assert (
        starting_point({**meta, "scheduler_state_dict": {"last_epoch": 1}}, policy="replay-epoch").scheduler_extra == 0
    )
    assert starting_point(meta).scheduler_extra == 0
