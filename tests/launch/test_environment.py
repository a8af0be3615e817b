"""What of the environment is recorded, restored, and kept to oneself."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import command, environment
from lavender_tui.launch.record import LaunchRecord, describe_this_process, read_launch, write_launch
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Run
from lavender_tui.watch.scan import scan
from tests.launch.conftest import Lab

SHELL = {
    "CUDA_VISIBLE_DEVICES": "2,3",
    "NCCL_DEBUG": "INFO",
    "OMP_NUM_THREADS": "6",
    "PYTHONPATH": "/opt/lib",
    "SLURM_JOB_ID": "77",
    "MASTER_ADDR": "gpu-1",
    "VIRTUAL_ENV": "/venv",
}
PRIVATE = {
    "HF_TOKEN": "hf_verysecret",
    "WANDB_API_KEY": "wandbsecret",
    "AWS_SECRET_ACCESS_KEY": "awssecret",
    "TORCH_STORE": "https://ada:urlsecret@host/",
    "MY_OWN": "foreignvalue",
}


def test_the_allow_list_and_nothing_else_is_recorded() -> None:
    assert environment.recorded({**SHELL, **PRIVATE}) == dict(sorted(SHELL.items()))
    assert environment.recorded({"NCCL_DEBUG": "x" * 5000}) == {}


def test_a_launch_writes_no_secret_to_disk(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SHELL, **PRIVATE}.items():
        monkeypatch.setenv(name, value)
    run_dir = lab.run_dir()
    asked = Launch(
        backend="local",
        argv=("sh", "-c", 'echo "$HF_TOKEN $DB_PASSWORD" | wc -c'),
        cwd=str(lab.directory),
        env={"DB_PASSWORD": "setsecret", "MODE": "plain"},
    )
    record = launch.start(asked, run_dir)
    lab.ended(run_dir)
    assert lab.log(run_dir).strip() == str(len("hf_verysecret setsecret\n"))
    assert record.env["DB_PASSWORD"] == "not recorded" and record.env["MODE"] == "plain"
    assert environment.not_recorded(record.env) == ["DB_PASSWORD"]
    assert {name: record.environment.get(name) for name in SHELL} == SHELL
    assert record.started_by is not None and record.started_by.endswith("@" + record.host)
    written = b"".join(path.read_bytes() for path in Path(run_dir).rglob("*") if path.is_file())
    journal = (Path(run_dir).parent / ".lavender-tui" / "journal.jsonl").read_bytes()
    assert not [value for value in PRIVATE.values() if value.encode() in written + journal]
    assert b"setsecret" not in written + journal


def test_a_command_with_a_secret_stays_runnable_and_its_owners_alone(lab: Lab) -> None:
    run_dir, record = lab.start("true", "--token=abc", command=["true", "--token=abc"])
    lab.ended(run_dir)
    assert record.argv == ("true", "--token=abc") == record.command
    assert stat.S_IMODE(os.stat(os.path.join(run_dir, "launch.json")).st_mode) == 0o600
    plain, _ = lab.start("true", "--lr=1")
    lab.ended(plain)
    assert stat.S_IMODE(os.stat(os.path.join(plain, "launch.json")).st_mode) == 0o644


def test_a_training_that_records_itself_keeps_the_same_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {**SHELL, **PRIVATE}.items():
        monkeypatch.setenv(name, value)
    write_launch(str(tmp_path), describe_this_process(str(tmp_path)))
    text = (tmp_path / "launch.json").read_text()
    assert json.loads(text)["environment"]["NCCL_DEBUG"] == "INFO"
    assert not [value for value in PRIVATE.values() if value in text]


def _recorded(tmp_path: Path, **more: object) -> Run:
    record = describe_this_process(str(tmp_path))
    fields = {name: getattr(record, name) for name in LaunchRecord.__slots__}
    write_launch(str(tmp_path), LaunchRecord(**{**fields, **more}))  # type: ignore[arg-type]
    (run,) = scan((str(tmp_path),))
    return run


def test_a_resume_sets_again_how_libraries_behaved_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("PYTHONPATH", "/of/this/shell")
    ours = {"TORCH_LOGS": "dynamo", "OMP_NUM_THREADS": "1", "HF_TOKEN": "not recorded", "LAVENDER_RUN_ID": "x"}
    run = _recorded(tmp_path, environment={**SHELL, "HF_TOKEN": "forged", "FOO": "bar"}, env=ours)
    source = command.find_command(run, explicit=["python", "train.py"])
    assert source.remembered == {"NCCL_DEBUG": "INFO", "OMP_NUM_THREADS": "6", "TORCH_LOGS": "dynamo"}
    built = command.build(source, world_size=2, run_dir="/r", environ={"PATH": os.environ["PATH"]}, cores=8)
    assert built.env["NCCL_DEBUG"] == "INFO" and built.env["OMP_NUM_THREADS"] == "6"
    assert "PYTHONPATH" not in built.env and "CUDA_VISIBLE_DEVICES" not in built.env
    assert any("NCCL_DEBUG=INFO" in note for note in command.notes(source, world_size=2))


def test_a_strangers_record_sets_nothing(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("needs root to make a file somebody else's")
    run = _recorded(tmp_path, environment={"NCCL_DEBUG": "INFO"}, env={})
    os.chown(tmp_path / "launch.json", 12345, 12345)
    assert read_launch(str(tmp_path)) is not None
    assert command.find_command(run, explicit=["true"]).remembered == {}
