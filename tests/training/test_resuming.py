"""Where a training begins again: from a plan, from a checkpoint, or from scratch."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lancedb.streaming import StreamingDataset

from lavender_tui.errors import BadState, NotFound, UsageError
from lavender_tui.launch import journal
from lavender_tui.launch.record import ExitRecord, write_exit
from lavender_tui.model.plan import Batch, Launch, Policy, ResumePlan, Source, Start
from lavender_tui.training import (
    Beginning,
    CheckpointManager,
    beginning,
    resume_from_checkpoint,
    resume_plan,
    run_record,
)
from lavender_tui.training import starting_point as start_of
from tests.training.harm import flip_a_weight

Manage = Callable[..., CheckpointManager]
EVERYTHING = list(range(200))


class Script:
    """The ten lines, in one process. `train(until)` stops after that global_step with a checkpoint."""

    def __init__(self, uri: str, root: str, resume: Any = None, **reading: Any) -> None:
        torch.manual_seed(4)
        self.model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 50)
        self.begin = beginning(resume)
        self.begin.restore(self.model, self.optimizer, self.scheduler)
        self.table = self.begin.open_table(uri, "corpus")
        self.manager = CheckpointManager(root, model=self.model, begin=self.begin)
        self.manager.set_optimizer(self.optimizer)
        self.manager.set_scheduler(self.scheduler)
        self.reading = {"num_splits": 8, "shuffle_seed": 3, **reading}
        self.seen: list[tuple[int, int]] = []

    def train(self, until: int | None = None, epochs: int = 2, **fields: Any) -> str:
        step, path = self.begin.global_step, ""
        for epoch in self.begin.epochs(epochs):
            dataset = self.begin.streaming_dataset(self.table, epoch, **self.reading)
            for batch in self.manager.loader(dataset, batch_size=16):
                self.optimizer.zero_grad()
                loss = self.model(batch["x"].float().unsqueeze(1) / 200).pow(2).mean()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                step += 1
                self.seen += [(epoch, x) for x in batch["x"].tolist()]
                self.manager.log(step=step, loss=loss)
                if step == until:
                    path = self.manager.save("pretrain", epoch=epoch, epochs=epochs, **fields)
                    self.manager.close()
                    return path
            path = self.manager.save("pretrain", epoch=epoch, epochs=epochs, epoch_complete=True)
        self.manager.close()
        return path

    def weights(self) -> list[torch.Tensor]:
        return [value.clone() for value in self.model.state_dict().values()]


@pytest.mark.parametrize("stop_at", [1, 7, 12, 13, 14, 25])
def test_an_interrupted_training_is_the_uninterrupted_one(uri: str, root: str, stop_at: int) -> None:
    whole = Script(uri, root)
    whole.train()
    first = Script(uri, root)
    path = first.train(until=stop_at)
    second = Script(uri, root, resume=path)
    second.train()
    assert first.seen + second.seen == whole.seen
    assert all(torch.equal(one, other) for one, other in zip(whole.weights(), second.weights(), strict=True))
    assert whole.scheduler.state_dict() == second.scheduler.state_dict()


def test_a_fresh_start_changes_nothing(uri: str, model: torch.nn.Module) -> None:
    begin = beginning()
    before = torch.get_rng_state()
    begin.restore(model, None, None)
    assert (begin.is_fresh, begin.global_step, begin.lineage, begin.dataset) == (True, 0, None, None)
    assert list(begin.epochs(3)) == [1, 2, 3]
    assert torch.equal(before, torch.get_rng_state())
    dataset = begin.streaming_dataset(begin.open_table(uri, "corpus"), 2, num_splits=4)
    assert dataset.state_dict()["epoch"] == 1


def test_the_record_names_the_run_that_is_continued(uri: str, root: str) -> None:
    path = Script(uri, root).train(until=3)
    second = Script(uri, root, resume=path)
    launched = json.loads(Path(second.manager.run_dir, "launch.json").read_text())
    assert launched["resumed_from"] == {"run": os.path.dirname(path), "checkpoint": path}
    second.train(until=5)
    saved = resume_from_checkpoint(second.manager.run_dir)[2]
    assert saved["progress"] == {"start_samples": 48, "start_step": 3}
    assert "data_warnings" not in saved
    data = saved["data"]
    assert [one["tag"] for one in data["earlier_tags"]] == [f"lavender-{os.path.basename(os.path.dirname(path))}"]
    Script(uri, root, resume=second.manager.run_dir).train()
    assert second.table.tags.list() == {}


def test_the_recorded_version_is_read_though_the_table_has_moved_on(uri: str, root: str) -> None:
    first = Script(uri, root)
    path = first.train(until=5, epochs=1)
    newest = beginning().open_table(uri, "corpus")
    newest.checkout_latest()
    newest.delete("x = 3")
    second = Script(uri, root, resume=path)
    second.train(epochs=1)
    assert second.table.version == 1
    assert sorted(x for _, x in first.seen + second.seen) == EVERYTHING


def test_another_table_is_refused(uri: str, root: str, tmp_path: Path) -> None:
    import lancedb

    path = Script(uri, root).train(until=2)
    other = str(tmp_path / "other")
    lancedb.connect(other).create_table("corpus", [{"x": 1}])
    with pytest.raises(BadState, match="1 rows; the old run read 200"):
        beginning(path).open_table(other, "corpus")
    missing = str(tmp_path / "missing")
    with pytest.raises(NotFound, match="no such directory"):
        beginning(path).open_table(missing, "corpus")
    assert not os.path.exists(missing)  # connect() would have made it
    with pytest.raises(NotFound, match="can't be opened"):
        beginning(path).open_table(uri, "nothing")
    with pytest.raises(UsageError, match="which table"):
        beginning().open_table()


def test_a_version_that_is_gone(uri: str, root: str) -> None:
    begin = beginning(Script(uri, root).train(until=2))
    begin.data["version"] = 99
    with pytest.raises(NotFound, match="version 99"):
        begin.open_table(uri, "corpus")


@pytest.mark.parametrize(
    "changed",
    [{"num_splits": 4}, {"shuffle_seed": 4}, {"shuffle": False}, {"filter": "x > 3"}, {"shuffle_clump_size": 2}],
)
def test_another_way_of_reading_is_refused_while_the_position_is_used(
    uri: str, root: str, changed: dict[str, Any]
) -> None:
    path = Script(uri, root).train(until=2)
    second = Script(uri, root, resume=path, **changed)
    with pytest.raises(BadState, match=next(iter(changed))):
        second.train()
    second.begin.streaming_dataset(second.table, 2, **second.reading)  # in a fresh epoch it is a free choice
    second.manager.close()


def test_the_old_way_of_reading_is_the_default(uri: str, root: str) -> None:
    first = Script(uri, root, filter="x < 96", shuffle_clump_size=4)
    path = first.train(until=2, epochs=1)
    second = Script(uri, root, resume=path)
    second.reading = {}
    second.train(epochs=1)
    assert sorted(x for _, x in first.seen + second.seen) == list(range(96))


def test_the_position_goes_only_into_the_epoch_that_it_is_of(uri: str, root: str) -> None:
    begin = beginning(Script(uri, root).train(until=5))
    table = begin.open_table()
    wrong = StreamingDataset(table, num_splits=8, shuffle_seed=3, epoch=1)
    assert begin.load_into(wrong, 2) is False
    with pytest.raises(BadState, match="epoch=0"):
        begin.load_into(wrong, 1)
    right = StreamingDataset(table, num_splits=8, shuffle_seed=3, epoch=0, rank=1, world_size=4)
    assert begin.load_into(right, 1)
    assert right.state_dict() == begin.dataset


def test_weights_are_loaded_once(uri: str, root: str) -> None:
    script = Script(uri, root, resume=Script(uri, root).train(until=2))
    with pytest.raises(UsageError, match="once"):
        script.begin.restore(script.model)
    script.manager.close()


# Starting points


def meta(**changes: Any) -> dict[str, Any]:
    return {"epoch": 2, "epochs": 3, "checkpoint_path": "p.pt", **changes}


def states(count: int, world_size: int = 2) -> list[dict[str, Any]]:
    one = {"shuffle_seed": 0, "num_splits": 4, "epoch": 1, "samples_consumed_per_split": [count] * 4}
    return [{**one, "positions_consumed_per_split": [count] * 4} for _ in range(world_size)]


@pytest.mark.parametrize(("saved", "epoch", "policy", "steps"), [
    (meta(), 2, Policy.REPLAY_EPOCH, 1),
    (meta(epoch=0), 1, Policy.REPLAY_EPOCH, 0),
    (meta(epoch=None), 1, Policy.REPLAY_EPOCH, 0),
    (meta(epoch_complete=True), 3, Policy.NEXT_EPOCH, 2),
    (meta(epoch_complete=True, dataset=states(50)), 3, Policy.NEXT_EPOCH, 2),
    (meta(dataset=states(5), world_size=2), 2, Policy.EXACT, 1),
    (meta(dataset=states(50), world_size=2, data={"num_rows": 200}), 3, Policy.NEXT_EPOCH, 2),  # read to its end
    (meta(scheduler_state_dict={"last_epoch": 4}), 2, Policy.REPLAY_EPOCH, None),
])  # fmt: skip
def test_where_a_checkpoint_lets_start(saved: dict[str, Any], epoch: int, policy: Policy, steps: int | None) -> None:
    start = start_of(saved)
    assert (start.epoch, start.policy, start.scheduler_steps) == (epoch, policy, steps)
    assert (start.dataset_state is not None) is (policy is Policy.EXACT)


@pytest.mark.parametrize("saved", [
    meta(dataset=states(5)[:1], world_size=2),
    meta(dataset=[states(5)[0], states(9)[0]], world_size=2),
    meta(dataset=[states(5)[0], {**states(5)[0], "shuffle_seed": 9}], world_size=2),
    meta(dataset={"sample_in_epoch": 3}),
    meta(dataset=states(5), world_size=2, global_step=9, batch={"global": 8},
         progress={"start_samples": 0, "start_step": 0}),
])  # fmt: skip
def test_states_that_can_not_be_trusted_are_refused(saved: dict[str, Any]) -> None:
    with pytest.raises(BadState):
        start_of(saved)


def test_another_start_may_be_asked_for() -> None:
    saved = meta(dataset=states(5), world_size=2)
    assert start_of(saved, policy="replay-epoch").dataset_state is None
    assert start_of(saved, policy="skip-epoch").epoch == 3
    assert start_of(saved, policy="exact").dataset_state is not None
    assert start_of(meta(dataset=states(5)[:1], world_size=2), policy="replay-epoch").epoch == 2
    with pytest.raises(BadState, match="no position"):
        start_of(meta(), policy="exact")


def test_states_in_files_beside_the_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "pretrain-10-00-00-0001.pt"
    torch.save({"model_state_dict": {}, "stage": "pretrain", "save_count": 1}, path)
    for rank, one in enumerate(states(5)):
        torch.save({"dataset": one}, tmp_path / f"pretrain-10-00-00-0001.rank{rank}-of-2.pt")
    start = start_of(meta(checkpoint_path=str(path)))
    assert start.policy is Policy.EXACT
    assert start.dataset_state == states(5)[0]
    os.unlink(tmp_path / "pretrain-10-00-00-0001.rank1-of-2.pt")
    with pytest.raises(BadState, match="rank 1"):
        start_of(meta(checkpoint_path=str(path)))


def test_a_scheduler_without_its_state_is_stepped(
    model: torch.nn.Module, root: str, manage: Manage, caplog: pytest.LogCaptureFixture
) -> None:
    path = manage().save("pretrain", epoch=3, epochs=5)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)
    beginning(path).restore(model, optimizer, scheduler)
    assert scheduler.last_epoch == 2
    assert "exact at epoch boundaries only" in caplog.text


# Random generators


def draws() -> tuple[float, float, float]:
    return random.random(), float(np.random.random()), float(torch.rand(()))


def test_every_generator_goes_on_where_it_was(manage: Manage, model: torch.nn.Module) -> None:
    random.gauss(0, 1)
    np.random.normal()
    path = manage().save("pretrain", epoch=1, epochs=1)
    expected = draws()
    draws()
    beginning(path).restore(model)
    assert draws() == expected


def test_on_another_topology_generators_are_derived(manage: Manage, model: torch.nn.Module) -> None:
    content = resume_from_checkpoint(manage().save("pretrain", epoch=1, epochs=1))
    content[2]["rng"] *= 2  # as if two ranks had saved
    expected = draws()
    drawn = []
    for _ in range(2):
        Beginning.from_checkpoint(*content).restore(model)
        drawn.append(draws())
    assert drawn[0] == drawn[1] != expected


# Plans


@pytest.fixture
def plan_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Writes the plan that a launcher makes from a checkpoint, and points the environment at it."""

    def write(checkpoint: str, **changes: Any) -> str:
        facts = os.stat(checkpoint)
        content = torch.load(checkpoint, weights_only=True)
        start = Start(policy=Policy.EXACT, epoch=content["epoch"], scheduler_steps=None, samples_replayed=0)
        source = Source(
            run=os.path.dirname(checkpoint),
            checkpoint=checkpoint,
            size=facts.st_size,
            mtime_ns=facts.st_mtime_ns,
            stage="pretrain",
            save_count=1,
            epoch=1,
            epochs=2,
            epoch_complete=False,
            loss=1.0,
        )
        fields = {"start": start, "dataset": StreamingDataset.merge_state_dicts(content["dataset"])} | changes
        plan = ResumePlan(
            source=source,
            world_size_previous=1,
            world_size=1,
            data=content["data"],
            batch=Batch(global_size=16, per_rank=16, num_workers=0),
            run_dir=str(tmp_path),
            launch=Launch(backend="local", argv=("python",), cwd="/"),
            **fields,
        )
        path = tmp_path / "resume.json"
        path.write_text(json.dumps(plan.to_json()))
        monkeypatch.setenv("LAVENDER_RESUME_PLAN", str(path))
        return str(path)

    return write


def test_a_plan_is_followed(uri: str, root: str, plan_for: Callable[..., str]) -> None:
    whole = Script(uri, root)
    whole.train()
    first = Script(uri, root)
    path = first.train(until=6)
    plan_for(path)
    second = Script(uri, root)
    assert second.begin.plan is not None
    assert (second.begin.checkpoint, second.begin.start.epoch) == (path, 1)
    second.train()
    assert first.seen + second.seen == whole.seen


def test_a_plan_that_an_ended_run_carried_out_is_pointed_at(
    uri: str, root: str, plan_for: Callable[..., str], caplog: pytest.LogCaptureFixture
) -> None:
    path = plan_for(Script(uri, root).train(until=6))
    Script(uri, root)
    assert "carried out before" not in caplog.text
    write_exit(os.path.dirname(path), ExitRecord(code=0, signal=None, ended_at=1.0))
    assert Script(uri, root).begin.plan is not None
    assert f"{path} was carried out before" in caplog.text


def test_a_plan_may_leave_the_position_out(uri: str, root: str, plan_for: Callable[..., str]) -> None:
    path = Script(uri, root).train(until=6)
    plan_for(
        path,
        dataset=None,
        start=Start(policy=Policy.REPLAY_EPOCH, epoch=1, scheduler_steps=None, samples_replayed=96),
    )
    second = Script(uri, root)
    second.train(epochs=1)
    assert sorted(x for _, x in second.seen) == EVERYTHING


def test_no_plan_and_a_plan_for_another_stage(uri: str, root: str, plan_for: Callable[..., str]) -> None:
    assert resume_plan() is None
    plan_for(Script(uri, root).train(until=6))
    assert resume_plan("sft") is None
    assert resume_plan("pretrain") is not None


def test_plans_that_no_longer_hold(uri: str, root: str, plan_for: Callable[..., str]) -> None:
    checkpoint = Script(uri, root).train(until=6)
    plan = plan_for(checkpoint)
    os.utime(checkpoint, (1, 1))
    with pytest.raises(BadState, match="changed since"):
        resume_plan()
    os.unlink(checkpoint)
    with pytest.raises(NotFound, match="not there"):
        resume_plan()
    Path(plan).write_text("{")
    with pytest.raises(BadState, match="no JSON"):
        resume_plan()
    os.unlink(plan)
    with pytest.raises(NotFound, match="can't be read"):
        resume_plan()


@pytest.mark.parametrize("count", ["TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"])
def test_started_again_in_its_own_run_it_goes_on_from_what_it_saved_there(
    uri: str, root: str, plan_for: Callable[..., str], count: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = Script(uri, root)
    whole.train()
    first = Script(uri, root)
    plan_for(first.train(until=6))
    monkeypatch.setenv("LAVENDER_RUN_DIR", str(tmp_path / "own"))
    monkeypatch.setenv(count, "1")
    second = Script(uri, root)
    assert second.begin.plan is not None, "nothing is saved yet: from the plan"
    own = second.train(until=9)
    assert os.path.dirname(own) == str(tmp_path / "own")
    Path(own).with_name("pretrain-00-00-00-0009.pt").write_bytes(Path(own).read_bytes()[:3000])  # cut in the kill
    (tmp_path / "own" / "exit.json").unlink()  # killed: nothing says how it ended
    run_record._claimed.clear()  # another process
    third = Script(uri, root)
    assert third.begin.checkpoint == own and third.begin.global_step == 9
    assert third.manager.run_dir == str(tmp_path / "own")
    last = third.train()
    assert first.seen + second.seen + third.seen == whole.seen
    assert int(last[-7:-3]) > 9, "counts go on"
    assert beginning(stage="sft").is_fresh, "another stage has nothing here"
    monkeypatch.setenv(count, "0")
    assert beginning().plan is not None


def claim_too_much(path: str) -> None:
    """One rank's state of a later save."""
    content = torch.load(path, weights_only=True)
    for state in content["dataset"]:
        state["samples_consumed_per_split"] = [one + 5 for one in state["samples_consumed_per_split"]]
        state["positions_consumed_per_split"] = state["samples_consumed_per_split"]
    torch.save(content, path)


def become_nan(path: str) -> None:
    content = torch.load(path, weights_only=True)
    next(iter(content["model_state_dict"].values())).view(-1)[0] = float("nan")
    torch.save(content, path)


@pytest.mark.parametrize(
    ("harm", "why"),
    [(flip_a_weight, "damaged"), (claim_too_much, "rows"), (become_nan, "holds numbers that are none")],
)
def test_started_again_a_save_of_its_own_that_is_refused_is_passed_over(
    uri: str,
    root: str,
    plan_for: Callable[..., str],
    harm: Callable[[str], None],
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    first = Script(uri, root)
    planned = first.train(until=6)
    plan_for(planned)
    monkeypatch.setenv("LAVENDER_RUN_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    saves = []
    for step in (8, 10):
        run_record._claimed.clear()
        saves.append(Script(uri, root).train(until=step))
        (tmp_path / "own" / "exit.json").unlink(missing_ok=True)  # killed
    harm(saves[1])
    run_record._claimed.clear()
    again = Script(uri, root)
    assert again.begin.checkpoint == saves[0] and again.begin.global_step == 8
    assert list(again.begin.passed_over) == [saves[1]] and why in again.begin.passed_over[saves[1]]
    assert any(saves[1] in one.message and "passed over" in one.message for one in caplog.records)
    again.train(until=9)
    lines = [json.loads(line) for line in (tmp_path / "own" / "metrics.jsonl").read_text().splitlines()]
    begun = [one for one in lines if one.get("event") == "begin"][-1]
    assert begun["passed_over"] == again.begin.passed_over and begun["at_step"] == 8
    [noted] = [one for one in journal.read(str(tmp_path)) if one.what == "decided"]
    assert noted.run == str(tmp_path / "own") and os.path.basename(saves[1]) in noted.facts["why"]
    # Where none is left: what it was started with, and never from scratch.
    for path in sorted((tmp_path / "own").glob("*.pt")):
        if str(path) != saves[1]:
            harm(str(path))
    run_record._claimed.clear()
    assert beginning().checkpoint == planned
    monkeypatch.delenv("LAVENDER_RESUME_PLAN")
    with pytest.raises(BadState, match="none of its own saves"):
        beginning()
