"""What a run leaves on disk, in one process."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lancedb.streaming import StreamingDataset

from lavender_tui.checkpoints import read_checkpoint
from lavender_tui.errors import LavenderError, UsageError
from lavender_tui.launch.record import ExitRecord, read_exit, read_launch, write_exit
from lavender_tui.training import CheckpointManager

Manage = Callable[..., CheckpointManager]


def load(path: str) -> dict[str, Any]:
    return torch.load(path, weights_only=True)


def lines(manager: CheckpointManager) -> list[dict[str, Any]]:
    text = Path(manager.run_dir, "metrics.jsonl").read_text()
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_each_manager_makes_a_new_directory(manage: Manage, root: str) -> None:
    runs = [manage().run_dir for _ in range(3)]
    assert len(set(runs)) == 3
    assert all(re.fullmatch(r"run-\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", os.path.basename(run)) for run in runs)
    assert all(os.path.dirname(run) == os.path.abspath(root) for run in runs)


def test_the_launchers_directory_is_used_once(
    manage: Manage, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    monkeypatch.setenv("LAVENDER_RUN_DIR", str(prepared))
    monkeypatch.setenv("LAVENDER_RUN_ID", "run-1")
    (prepared / "launch.json").write_text("{}")  # as the launcher does before the training begins
    assert manage().run_dir == str(prepared)
    assert (prepared / "launch.json").read_text() == "{}"
    assert os.path.dirname(manage().run_dir) == root


def test_variables_left_over_from_a_run_that_ended_write_nothing_into_it(
    manage: Manage, root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    write_exit(str(old), ExitRecord(code=0, signal=None, ended_at=1.0))
    monkeypatch.setenv("LAVENDER_RUN_DIR", str(old))
    with pytest.raises(UsageError, match="Unset LAVENDER_RUN_DIR"):
        manage()
    assert os.listdir(old) == ["exit.json"] and not os.path.exists(root)
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")  # torchrun starts the workers of a living run again
    assert manage().run_dir == str(old)


def test_names_and_keys_are_the_contracts(manage: Manage, model: torch.nn.Module) -> None:
    manager = manage(model_cfg={"dim": 1})
    optimizer = torch.optim.AdamW(model.parameters())
    manager.set_optimizer(optimizer)
    manager.set_scheduler(torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10))
    first = manager.save("pretrain", epoch=1, epochs=3, pretrain_loss=2.5, remaining_hours=1.5)
    second = manager.save("sft", epoch=1, epochs=1, epoch_complete=True, ce_loss=torch.tensor(1.5))
    assert re.fullmatch(r"pretrain-\d\d-\d\d-\d\d-0001\.pt", os.path.basename(first))
    assert re.fullmatch(r"sft-\d\d-\d\d-\d\d-0002\.pt", os.path.basename(second))
    content = load(first)
    wanted = {"stage": "pretrain", "save_count": 1, "epoch": 1, "epochs": 3, "epoch_complete": False, "world_size": 1}
    assert {key: content[key] for key in wanted} == wanted
    assert content["model_cfg"] == {"dim": 1}
    assert content["remaining_hours"] == 1.5
    assert content["optimizer_state_dict"].keys() == {"state", "param_groups"}
    assert content["scheduler_state_dict"]["T_max"] == 10
    assert content["versions"].keys() - {"git_commit", "git_changed"} == {"torch", "lancedb", "python", "lavender_tui"}
    assert len(content["rng"]) == 1
    seen = read_checkpoint(second)
    assert (seen.is_usable, seen.loss, seen.epoch_complete, seen.refused_globals) == (True, 1.5, True, ())


def test_whatever_is_given_loads_without_importing_anything(manage: Manage) -> None:
    class Strange:
        def __repr__(self) -> str:
            return "strange"

    manager = manage(model_cfg={"path": Path("a"), "type": torch.float32, "own": Strange(), "pair": (1, 2)})
    path = manager.save("pretrain", epoch=1, epochs=1, ce_loss=np.float64(0.5), many=np.arange(3), one=np.int64(7))
    content = load(path)
    assert content["model_cfg"] == {"path": "a", "type": "torch.float32", "own": "strange", "pair": (1, 2)}
    assert type(content["ce_loss"]) is float
    assert content["many"].tolist() == [0, 1, 2]
    assert content["one"] == 7


def test_no_optimizer_bf16_and_compiled_models(manage: Manage) -> None:
    plain = torch.nn.Linear(2, 2, dtype=torch.bfloat16)
    content = load(manage(model=torch.compile(plain, backend="eager")).save("pretrain", epoch=1, epochs=1))
    assert content["optimizer_state_dict"] is None
    assert content["model_state_dict"].keys() == {"weight", "bias"}
    assert content["model_state_dict"]["weight"].dtype is torch.bfloat16


def test_saving_when_it_is_time(manage: Manage) -> None:
    never, always = manage(every_seconds=1e9), manage(every_seconds=0)
    assert never.maybe_save("pretrain", epoch=1, epochs=1) is None
    assert always.maybe_save("pretrain", epoch=1, epochs=1) is not None
    assert always.save_count == 1
    assert never.save_count == 0


def test_mistakes_are_told_at_the_first_step(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    with pytest.raises(UsageError, match="stage"):
        manager.maybe_save("../escape")
    with pytest.raises(UsageError, match="world_size"):
        manager.maybe_save("pretrain", world_size=3)
    with pytest.raises(UsageError, match="no model"):
        manage(model=None).maybe_save("pretrain")
    with pytest.raises(UsageError, match="usr1"):
        manage(usr1="later")


def test_metrics_are_strict_json(manage: Manage) -> None:
    manager = manage()
    manager.log(step=1, loss=torch.tensor(2.0, requires_grad=True), lr=1e-3)
    manager.log(step=2, loss=float("nan"), gradient=np.float32("inf"), note="ä\udcff", list=[1.0, float("nan")])
    first, second = lines(manager)
    assert (first["step"], first["loss"], first["lr"]) == (1, 2.0, 1e-3)
    assert (second["loss"], second["loss_text"]) == (None, "nan")
    assert (second["gradient"], second["gradient_text"]) == (None, "inf")
    assert second["list"] == [1.0, None]


def test_the_step_at_a_save(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    for _ in range(3):
        manager.maybe_save("pretrain")
    assert load(manager.save("pretrain"))["global_step"] == 3  # calls
    manager.log(step=10)
    manager.maybe_save("pretrain")
    assert load(manager.save("pretrain"))["global_step"] == 10  # logged
    assert load(manager.save("pretrain", global_step=99))["global_step"] == 99  # named


def test_the_last_logged_loss_is_saved_where_none_is_given(manage: Manage) -> None:
    manager = manage()
    manager.log(step=1, loss=0.25)
    assert load(manager.save("dpo"))["dpo_loss"] == 0.25
    assert "dpo_loss" not in load(manager.save("dpo", ce_loss=3.0))


def test_a_failed_write_is_a_warning_first_and_an_error_on_demand(
    manage: Manage, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manage(every_seconds=0, model=torch.nn.Linear(40, 40))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    try:
        assert manager.maybe_save("pretrain", epoch=1, epochs=1) is None
        with pytest.raises(LavenderError, match="could not be written"):
            manager.save("pretrain", epoch=1, epochs=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "could not be written" in caplog.text
    assert not [name for name in os.listdir(manager.run_dir) if name.endswith((".pt", ".tmp"))]
    assert manager.save("pretrain", epoch=1, epochs=1).endswith("-0001.pt")


# The data


def test_the_data_is_described_and_its_version_held(manage: Manage, table: Any, uri: str) -> None:
    dataset = StreamingDataset(table, num_splits=4, filter="x < 100", shuffle_clump_size=5)
    table.add([{"x": 1}])  # the dataset keeps reading the version before
    manager = manage()
    manager.set_dataset(dataset, batch_size=4)
    data = load(manager.save("pretrain", epoch=1, epochs=2))["data"]
    assert (data["uri"], data["table"], data["version"]) == (uri, "corpus", 1)
    assert (data["filter"], data["shuffle_clump_size"], data["shuffle"]) == ("x < 100", 5, True)
    assert table.tags.get_version(data["tag"]) == 1
    manager.save("pretrain", epoch=2, epochs=2, epoch_complete=True)
    manager.close()
    assert table.tags.list() == {}  # it ended well


def test_a_run_that_ends_otherwise_keeps_its_tag(manage: Manage, table: Any) -> None:
    manager = manage()
    manager.set_dataset(StreamingDataset(table, num_splits=4))
    manager.save("pretrain", epoch=1, epochs=2)
    manager.close()
    assert list(table.tags.list()) == [f"lavender-{os.path.basename(manager.run_dir)}"]


def test_a_tag_that_can_not_be_made_is_only_said(manage: Manage, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    manager = manage()
    manager.set_dataset(StreamingDataset(table, num_splits=4), version=77)
    data = load(manager.save("pretrain", epoch=1, epochs=1))["data"]
    assert data["tag"] is None
    assert "version 77" in data["tag_problem"]
    assert "version 77" in caplog.text


def test_counts_that_fit_the_steps_are_saved_with_their_start(manage: Manage, table: Any) -> None:
    manager = manage()
    dataset = StreamingDataset(table, num_splits=4)
    batches = iter(manager.loader(dataset, batch_size=8))
    for step in (1, 2, 3):
        next(batches)
        manager.log(step=step)
        manager.maybe_save("pretrain", epoch=1, epochs=1)
    content = load(manager.save("pretrain", epoch=1, epochs=1))
    assert content["batch"] == {"global": 8, "num_workers": 0}
    assert content["progress"] == {"start_samples": 0, "start_step": 0}
    assert content["dataset"][0]["samples_consumed_per_split"] == [6, 6, 6, 6]
    assert "data_warnings" not in content


def test_a_state_ahead_of_the_steps_is_noticed(manage: Manage, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    manager = manage()
    batches = iter(manager.loader(StreamingDataset(table, num_splits=4), batch_size=8))
    next(batches)
    next(batches)  # a prefetcher looks one batch ahead
    manager.log(step=1)
    content = load(manager.save("pretrain", epoch=1, epochs=1))
    assert "+8 rows" in content["data_warnings"][0]
    assert "+8 rows" in caplog.text


def _only(manager: CheckpointManager) -> str:
    (name,) = [name for name in os.listdir(manager.run_dir) if name.endswith(".pt")]
    return name


def test_batches_that_add_up_to_a_step(manage: Manage, table: Any) -> None:
    manager = manage()
    batches = iter(manager.loader(StreamingDataset(table, num_splits=4), batch_size=8, accumulate=2))
    next(batches)
    next(batches)
    manager.log(step=1)
    content = load(manager.save("pretrain", epoch=1, epochs=1))
    assert content["batch"] == {"global": 16, "num_workers": 0, "accumulate": 2}
    assert "data_warnings" not in content


def test_a_guessed_step_refuses_nothing(manage: Manage, table: Any) -> None:
    manager = manage()
    batches = iter(manager.loader(StreamingDataset(table, num_splits=4), batch_size=8))
    for _ in range(4):
        next(batches)
    manager.maybe_save("pretrain")  # called now and then only: the count of calls is no count of steps
    content = load(manager.save("pretrain", epoch=1, epochs=1))
    assert content["progress"] == {"start_samples": 32, "start_step": content["global_step"]}
    assert "data_warnings" not in content


def test_inside_a_logical_step_a_save_waits_for_the_boundary(manage: Manage, table: Any) -> None:
    manager = manage(every_seconds=0)
    loader = manager.loader(StreamingDataset(table, num_splits=4), batch_size=8, num_workers=2)
    saved = []
    for step, _ in enumerate(loader, start=1):
        manager.log(step=step)
        saved.append(manager.maybe_save("pretrain", epoch=1, epochs=1) is not None)
        if step == 4:
            break
    assert saved == [False, True, False, True]


def test_a_position_that_can_not_be_taken_costs_only_itself(
    manage: Manage, table: Any, caplog: pytest.LogCaptureFixture
) -> None:
    manager = manage()
    dataset = StreamingDataset(table, num_splits=4)
    manager.set_dataset(dataset, batch_size=8)
    dataset._untracked_worker_iteration[0] = 1  # as after a plain DataLoader with workers
    content = load(manager.save("pretrain", epoch=1, epochs=1))
    assert "dataset" not in content
    assert "StreamingDataLoader" in content["data_warnings"][0]
    assert "StreamingDataLoader" in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [({"batch_size": 0}, "can't be shared"), ({"batch_size": 8, "num_workers": 3}, "Use one of 0, 1, 2, 4")],
)
def test_loaders_that_can_not_share_evenly(manage: Manage, table: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        manage().loader(StreamingDataset(table, num_splits=4), **options)


def test_making_a_loader_draws_nothing_from_the_models_generator(manage: Manage, table: Any) -> None:
    loader = manage().loader(StreamingDataset(table, num_splits=4), batch_size=8)
    before = torch.get_rng_state()
    next(iter(loader))
    assert torch.equal(before, torch.get_rng_state())


# Signals and ends


def test_sigterm_saves_at_the_next_step_and_ends_well(manage: Manage) -> None:
    manager = manage(every_seconds=1e9)
    assert manager.maybe_save("pretrain", epoch=1, epochs=1) is None
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert manager.should_stop
    with pytest.raises(SystemExit) as ended:
        manager.maybe_save("pretrain", epoch=1, epochs=1)
    assert ended.value.code == 0
    assert load(os.path.join(manager.run_dir, _only(manager)))["stopped_by"] == "SIGTERM"
    end = lines(manager)[-1]
    assert (end["event"], end["status"], end["by"]) == ("end", "stopped", "SIGTERM")
    record = read_exit(manager.run_dir)
    assert record is not None
    assert (record.code, record.stop) == (0, {"who": "SIGTERM"})


def test_a_script_may_leave_its_loop_itself(manage: Manage) -> None:
    manager = manage(exit_on_stop=False, every_seconds=1e9)
    os.kill(os.getpid(), signal.SIGTERM)
    assert manager.maybe_save("pretrain", epoch=1, epochs=1) is not None
    assert manager.should_stop


@pytest.mark.parametrize(("usr1", "under", "stops"), [
    ("auto", None, False), ("auto", "TORCHELASTIC_RUN_ID", True), ("auto", "SLURM_JOB_ID", True),
    ("go on", "SLURM_JOB_ID", False), ("go on", "TORCHELASTIC_RUN_ID", False), ("stop", None, True),
])  # fmt: skip
def test_sigusr1_saves(
    manage: Manage, usr1: str, under: str | None, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if under is not None:
        monkeypatch.setenv(under, "7")
    manager = manage(usr1=usr1, exit_on_stop=False, every_seconds=1e9)
    os.kill(os.getpid(), signal.SIGUSR1)
    path = manager.maybe_save("pretrain", epoch=1, epochs=1)
    assert path is not None
    assert manager.should_stop is stops
    assert load(path).get("stopped_by") == ("SIGUSR1" if stops else None)
    assert stops or manager.maybe_save("pretrain", epoch=1, epochs=1) is None


@pytest.mark.parametrize("stops", [True, False])
def test_a_sigusr1_while_a_save_is_written_is_heard(manage: Manage, stops: bool) -> None:
    """Where it only asks for a save, that one is it."""

    class Scheduler:
        def state_dict(self) -> dict[str, Any]:
            if not manager.save_count:
                manager._cadence.every_seconds = 1e9  # nothing else asks for the next one
                os.kill(os.getpid(), signal.SIGUSR1)
            return {}

    manager = manage(usr1="stop" if stops else "go on", exit_on_stop=False, every_seconds=0)
    manager.set_scheduler(Scheduler())
    assert manager.maybe_save("pretrain", epoch=1, epochs=1) is not None and not manager.should_stop
    path = manager.maybe_save("pretrain", epoch=1, epochs=1)
    assert (path is not None) is manager.should_stop is stops
    assert path is None or load(path)["stopped_by"] == "SIGUSR1"


def test_a_handler_of_the_script_is_called_too_and_given_back(manage: Manage) -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, frame: came.append(number))
    try:
        mine = signal.getsignal(signal.SIGTERM)
        manager = manage(exit_on_stop=False)
        os.kill(os.getpid(), signal.SIGTERM)
        assert came == [signal.SIGTERM]
        assert manager.should_stop
        manager.close()
        assert signal.getsignal(signal.SIGTERM) is mine
    finally:
        signal.signal(signal.SIGTERM, before)


def test_the_record_of_a_run_that_nobody_launched(manage: Manage) -> None:
    manager = manage()
    launched = read_launch(manager.run_dir)
    assert launched is not None
    assert (launched.leader.pid, launched.written_by, launched.world_size) == (os.getpid(), "training", 1)
    assert launched.is_alive
    manager.save("final", epoch=1, epochs=1)
    manager.close()
    ended = read_exit(manager.run_dir)
    assert ended is not None
    assert (ended.code, ended.error) == (0, None)
    assert lines(manager)[-1]["status"] == "finished"


def test_an_exception_is_in_the_record(manage: Manage) -> None:
    manager = manage()
    with pytest.raises(ValueError, match="boom"), manager:
        raise ValueError("boom")
    ended = read_exit(manager.run_dir)
    assert ended is not None
    assert (ended.code, ended.error) == (1, "ValueError: boom")
    assert lines(manager)[-1]["status"] == "failed"
