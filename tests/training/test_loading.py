"""Which checkpoint is chosen, and that loading one executes nothing."""

from __future__ import annotations

import json
import os
import pickle
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lavender_tui.errors import NotFound, UnreadableFile
from lavender_tui.launch.bad_files import remember
from lavender_tui.launch.identity import host_name
from lavender_tui.launch.record import ExitRecord, LaunchRecord, ProcessId, write_exit, write_launch
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.run import Lineage
from lavender_tui.training import resume_from_checkpoint


def put(run: Path, name: str, **changes: Any) -> Path:
    run.mkdir(parents=True, exist_ok=True)
    stage, count = name.split("-")[0], int(name.removesuffix(".pt").rsplit("-", 1)[1])
    content = {
        "model_state_dict": torch.nn.Linear(2, 2).state_dict(),
        "optimizer_state_dict": None,
        "model_cfg": {},
        "stage": stage,
        "save_count": count,
        "epoch": 1,
        "epochs": 1,
    }
    torch.save({**content, **changes}, run / name)
    return run / name


def chosen(*args: Any, **kwargs: Any) -> str:
    return resume_from_checkpoint(*args, **kwargs)[2]["checkpoint_path"]


def test_the_highest_save_count_of_the_newest_run(tmp_path: Path) -> None:
    old = put(tmp_path / "run-2026-01-01_00-00-00", "pretrain-10-00-00-0099.pt")
    late = put(tmp_path / "run-2026-01-02_00-00-00", "pretrain-23-59-00-0009.pt")
    newest = put(tmp_path / "run-2026-01-02_00-00-00", "pretrain-00-01-00-10000.pt")  # after midnight
    os.utime(old, (2e9, 2e9))
    os.utime(late, (2e9, 2e9))  # copied later: file times decide nothing
    assert chosen(root=tmp_path) == str(newest)
    assert chosen(tmp_path) == str(newest)
    assert chosen(old.parent) == str(old)
    assert chosen(late) == str(late)


def test_the_stage_is_what_the_content_says(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run-2026-01-01_00-00-00"
    right = put(run, "sft-10-00-00-0001.pt")
    put(run, "sft-10-00-00-0002.pt", stage="dpo")
    put(run, "pretrain-10-00-00-0003.pt")
    assert chosen(root=tmp_path, stage="sft") == str(right)
    assert "0002.pt: passed over" in caplog.text
    with pytest.raises(NotFound, match="of stage final"):
        resume_from_checkpoint(root=tmp_path, stage="final")


def test_what_is_damaged_or_a_link_is_no_default(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = tmp_path / "run-2026-01-01_00-00-00"
    good = put(run, "pretrain-10-00-00-0001.pt")
    cut = put(run, "pretrain-10-00-00-0002.pt")
    cut.write_bytes(cut.read_bytes()[:-100])
    (run / "pretrain-10-00-00-0003.pt").symlink_to(good)
    (run / ".pretrain-10-00-00-0004.pt.1-ab.tmp").write_bytes(b"")
    assert chosen(root=tmp_path) == str(good)
    assert "0002.pt: passed over" in caplog.text
    with pytest.raises(UnreadableFile, match=r"0002\.pt"):
        resume_from_checkpoint(cut)


@pytest.mark.parametrize("place", ["nothing", "empty"])
def test_nothing_to_resume_from(tmp_path: Path, place: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match=place):
        resume_from_checkpoint(root=tmp_path / place)


def test_both_containers_and_numpys_numbers(tmp_path: Path) -> None:
    run = tmp_path / "run"
    zipped = put(run, "pretrain-10-00-00-0001.pt", ce_loss=np.float64(0.5), order=OrderedDict(a=np.arange(2)))
    content = torch.load(zipped, weights_only=False)
    older = run / "pretrain-10-00-00-0002.pt"
    torch.save(content, older, _use_new_zipfile_serialization=False)
    for path in (zipped, older):
        model_state, optimizer_state, meta = resume_from_checkpoint(path)
        assert model_state.keys() == {"weight", "bias"}
        assert optimizer_state is None
        assert float(meta["ce_loss"]) == 0.5
        assert meta["order"]["a"].tolist() == [0, 1]
        assert meta["checkpoint_path"] == str(path)


class Trap:
    def __reduce__(self) -> Any:
        return os.system, ("touch trapped",)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_wants_something_called(tmp_path: Path, zipped: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = put(tmp_path / "run", "pretrain-10-00-00-0001.pt")
    content = {"model_state_dict": {}, "trap": Trap()}
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    with pytest.raises(UnreadableFile, match=r"posix\.system.*it was not"):
        resume_from_checkpoint(path)
    assert not (tmp_path / "trapped").exists()


def test_what_is_no_checkpoint_at_all(tmp_path: Path) -> None:
    listed, weightless, text, bare = (tmp_path / f"pretrain-10-00-00-000{i}.pt" for i in range(4))
    torch.save([1, 2], listed)
    torch.save({"stage": "pretrain"}, weightless)
    text.write_text("hello")
    bare.write_bytes(pickle.dumps({"model_state_dict": {}}, protocol=2))
    for path in (listed, weightless, text, bare):
        with pytest.raises(UnreadableFile, match=path.name):
            resume_from_checkpoint(path)


def broke(root: Path, checkpoint: Path, *, steps: int = 3) -> Path:
    """A run that was resumed from the checkpoint and broke at once, by its records."""
    run = root / "run-2026-01-03_00-00-00"
    run.mkdir()
    record = LaunchRecord(
        run_id="x", run_dir=str(run), backend="local", argv=("python", "t.py"), cwd="/", host=host_name(), boot_id="b",
        pid_namespace="n", leader=ProcessId(pid=1, start_ticks=1), started_at=1.0, written_by="supervisor",
        resumed_from=Lineage(run=str(checkpoint.parent), checkpoint=str(checkpoint)),
    )  # fmt: skip
    write_launch(str(run), record)
    write_exit(str(run), ExitRecord(code=1, signal=None, ended_at=5.0, error="RuntimeError: loss is nan"))
    lines = [{"event": "begin"}, *({"step": step, "loss": 2.0} for step in range(1, steps + 1))]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 9')
    return run


def test_one_that_broke_the_run_resumed_from_it_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = tmp_path / "run-2026-01-02_00-00-00"
    good = put(run, "pretrain-10-00-00-0001.pt")
    bad = put(run, "pretrain-11-00-00-0002.pt")
    after = broke(tmp_path, bad)
    for target in (tmp_path, run):
        assert chosen(target) == str(good)
    assert f"{bad}: passed over: {after.name}, resumed from it, failed after 3 steps" in caplog.text
    assert chosen(bad) == str(bad), "named, it is taken"
    good.unlink()
    assert chosen(run) == str(bad) and f"{bad}: known to be bad: " in caplog.text, "no other one is there"


def test_one_that_went_on_for_long_is_not(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-01-02_00-00-00"
    put(run, "pretrain-10-00-00-0001.pt")
    newest = put(run, "pretrain-11-00-00-0002.pt")
    broke(tmp_path, newest, steps=80)
    assert chosen(run) == str(newest)


def test_one_that_failed_a_deep_check_is_passed_over(tmp_path: Path) -> None:
    run = tmp_path / "run-2026-01-02_00-00-00"
    good, bad = put(run, "pretrain-10-00-00-0001.pt"), put(run, "pretrain-11-00-00-0002.pt")
    assert remember(str(bad), FileFacts.of(os.stat(bad)), "the weights hold numbers that are none")
    assert chosen(tmp_path) == str(good)
    put(run, "pretrain-11-00-00-0002.pt")
    assert chosen(tmp_path) == str(bad), "another file of that name starts anew"
