"""Trainings as real jobs: submitted, running, done, failed, cancelled; every word byte for byte; no secret anywhere."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.errors import AlreadyRunning, LaunchFailed
from lavender_tui.launch import KILL, StopOrder, living, slurm, stop
from lavender_tui.launch.record import read_launch, read_stop
from lavender_tui.resume import Options
from lavender_tui.resume.fresh import fresh_launch
from tests.slurm.conftest import TRAIN, Lab

ODD = (
    "a b",
    "'",
    '"',
    "$HOME",
    "`id`",
    "-x",
    "--",
    "line\nbreak",
    "tab\t",
    "%j",
    "\\",
    "*",
    "é",
    "\udcff",
    "",
    "#",
    "!",
)


def test_a_job_is_submitted_runs_and_ends_well(lab: Lab) -> None:
    record = lab.start()
    assert record.leader is None and record.slurm is not None and record.slurm.job_id
    assert read_launch(record.run_dir) == record
    told = lab.told(record)
    assert told["environ"]["LAVENDER_RUN_ID"] == record.run_id and not told["resumed"]
    ended = lab.end(record)
    assert (ended.code, ended.stop, ended.error) == (0, None, None)
    lab.until(lambda: lab.state(record) == "COMPLETED", what="the job to be completed")
    assert (Path(record.run_dir) / "train.log").read_text() == "it trains\n"
    assert not living.is_alive(record.run_dir)


def test_every_word_and_path_arrives_byte_for_byte(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / "-a b'\"$x `y` %j %\n\udcff"
    script = odd / "tr ain'$x\n.py"
    odd.mkdir()
    script.write_text(Path(TRAIN).read_text())
    lab.root = odd / "che ck\n%s"
    command = (sys.executable, str(script), *ODD)
    record = lab.start(command=command)
    told = lab.told(record)
    assert told["argv"] == [str(script), *ODD]
    assert told["cwd"] == str(odd) and os.path.dirname(record.run_dir) == str(lab.root)
    assert lab.end(record).code == 0


def test_what_is_shown_pastes_back_to_the_same_words(lab: Lab) -> None:
    launch, _, _ = fresh_launch(
        Options(backend="slurm", command=("python", *ODD), world_size=1, project_dir="/tmp"), "/ro ot/$x\n/run-1"
    )
    shown = subprocess.run(
        ["bash", "-c", f"printf '%s\\0' {shlex.join(launch.argv)}"], capture_output=True, check=True
    ).stdout
    assert tuple(os.fsdecode(word) for word in shown.split(b"\0")[:-1]) == launch.argv


def test_the_shells_environment_arrives_and_its_secrets_are_nowhere(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_SETTING", "kept")
    monkeypatch.setenv("HF_TOKEN", "hf_thisisthesecretofthisverytest")
    (lab.root.parent / "lavender.toml").write_text(
        f'command = ["{sys.executable}", "{TRAIN}"]\nbackend = "slurm"\n'
        'env = { WANDB_API_KEY = "anothersecretofthistest", DATA = "a b" }\n'
    )
    record = lab.start(command=())
    environ = lab.told(record)["environ"]
    assert environ["MY_SETTING"] == "kept" and environ["DATA"] == "a b"
    assert environ["HF_TOKEN"].startswith("hf_") and environ["WANDB_API_KEY"] == "anothersecretofthistest"
    lab.end(record)
    lab.until(lambda: lab.state(record) == "COMPLETED", what="the job to be over, with all that it writes")
    os.unlink(os.path.join(record.run_dir, "told.json"))
    for path in (path for path in lab.root.rglob("*") if path.is_file()):
        assert b"secretofthis" not in path.read_bytes(), path


def test_what_fails_is_recorded_with_its_code(lab: Lab) -> None:
    record = lab.start("--end", "7")
    assert lab.end(record).code == 7
    lab.until(lambda: lab.state(record) == "FAILED", what="the job to have failed")


def test_a_program_that_isnt_there_fails_with_words(lab: Lab) -> None:
    record = lab.start(command=("/nowhere/train",))
    assert lab.end(record).code not in (0, None)
    assert "/nowhere/train" in lab.words(record)


def test_what_slurm_takes_not_leaves_nothing_behind(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_SLURM_PARTITION", "nowhere")
    with pytest.raises(LaunchFailed, match=r"nowhere|partition"):
        lab.start()
    assert lab.runs() == []


def test_a_job_that_waits_is_taken_out_of_the_queue(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_SLURM_OPTIONS", "--hold")
    record = lab.start("--train")
    assert lab.state(record) == "PENDING" and living.is_alive(record.run_dir)
    outcome = stop(record.run_dir)
    assert outcome.how == "ended" and "not started" in outcome.words
    assert lab.state(record) == "CANCELLED" and not living.is_alive(record.run_dir)
    assert stop(record.run_dir).how == "not running"


def test_a_running_job_saves_and_ends_when_asked(lab: Lab, tmp_path: Path) -> None:
    saved = tmp_path / "saved.pt"
    saved.write_bytes(b"whole")
    record = lab.start("--train", "--save", str(saved))
    lab.told(record)
    outcome = stop(record.run_dir, StopOrder(grace=30, who="ann@here"))
    assert outcome.how == "ended" and outcome.words.startswith("saved and ended")
    ended, asked = lab.end(record), read_stop(record.run_dir)
    assert asked is not None and asked.who == "ann@here"
    assert ended.stop is not None and ended.stop["who"] == "ann@here"
    assert "saved, for signal 15" in lab.words(record)
    assert lab.state(record) != "PENDING" and len(lab.runs()) == 1


@pytest.mark.long  # until Slurm kills what it has cancelled
def test_a_job_that_is_deaf_is_cancelled_when_its_time_is_over(lab: Lab) -> None:
    record = lab.start("--train", "--deaf")
    lab.told(record)
    outcome = stop(record.run_dir, StopOrder(grace=1))
    assert outcome.how == "killed", outcome
    assert lab.state(record) == "CANCELLED"


def test_a_submit_whose_answer_was_lost_is_found_and_not_made_twice(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if killed after sbatch and before its answer was written down."""
    monkeypatch.setattr(slurm, "_complete", lambda record, job_id, cluster: record)
    record = lab.start("--train")
    assert record.slurm is not None and record.slurm.job_id is None
    assert living.is_alive(record.run_dir)
    launch, _, _ = fresh_launch(Options(backend="slurm", command=("x",), world_size=1), record.run_dir)
    with pytest.raises(AlreadyRunning):
        slurm.submit(launch, record.run_dir, run_id="another")
    lab.told(record)
    assert stop(record.run_dir, KILL).has_ended
    assert not living.is_alive(record.run_dir)
