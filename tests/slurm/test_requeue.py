"""A job that Slurm starts again goes on from its newest save, in a run directory of its own; or it begins again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, journal, stop
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from lavender_tui.model.run import RunState
from lavender_tui.watch.scan import scan
from tests.resume.saves import save
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import Lab
from tests.training.harm import flip_a_weight

pytestmark = pytest.mark.long  # a job that is queued again waits for some seconds


@pytest.fixture
def saved(tmp_path: Path) -> str:
    return save(str(tmp_path / "made"), epoch=1, epochs=3)


def second(lab: Lab, first: LaunchRecord, seconds: float = 120) -> LaunchRecord:
    """The record of the run in which the job goes on."""
    lab.until(lambda: len(lab.runs()) == 2, seconds=seconds, what=lambda: f"a second run\n{lab.words(first)}")
    path = next(str(path) for path in lab.runs() if str(path) != first.run_dir)
    record = lab.until(lambda: read_launch(path), what="its record")
    assert isinstance(record, LaunchRecord)
    return record


def test_a_preempted_job_saves_and_goes_on_from_there(lab: Lab, saved: str) -> None:
    first = lab.start("--train", "--save", saved)
    lab.told(first)
    before = {path.name: path.read_bytes() for path in Path(first.run_dir).iterdir()}
    lab.cluster.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")
    ended = lab.end(first)
    assert ended.stop is not None and ended.stop["how"] == "requeue" and "preempted" in ended.stop["why"]
    again = second(lab, first)
    assert again.slurm is not None and first.slurm is not None
    assert (again.slurm.job_id, again.attempt) == (first.slurm.job_id, 2)
    assert again.resumed_from is not None and again.resumed_from.run == first.run_dir
    assert lab.told(again)["resumed"] and lab.told(again)["environ"]["LAVENDER_RUN_ID"] == again.run_id
    assert lab.end(again).code == 0
    plan = json.loads((Path(again.run_dir) / "resume.json").read_text())
    assert plan["source"]["checkpoint"].startswith(first.run_dir)
    kept = {path.name: path.read_bytes() for path in Path(first.run_dir).iterdir()}
    changed = {name for name in kept if kept[name] != before.get(name)}
    assert changed == {"exit.json", "train.log", "pretrain-10-00-00-0001.pt"}
    assert "it trains" in (Path(again.run_dir) / "train.log").read_text()
    states = {run.path: run for run in scan((str(lab.root),))}
    assert states[first.run_dir].state is RunState.STOPPED and "preempted" in states[first.run_dir].state_reason


def test_put_back_without_a_save_it_begins_again(lab: Lab) -> None:
    first = lab.start("--train")
    lab.told(first)
    assert first.slurm is not None
    lab.cluster.run("scontrol", "requeue", str(first.slurm.job_id))
    again = second(lab, first)
    assert (again.attempt, again.resumed_from, again.command) == (2, None, first.command)
    lab.told(again)
    assert stop(again.run_dir, KILL).has_ended
    ended = read_exit(first.run_dir)
    assert ended is not None and ended.stop is not None and ended.stop["how"] == "requeue"


def test_a_stopped_job_that_is_put_back_starts_nothing(lab: Lab, saved: str) -> None:
    first = lab.start("--train", "--save", saved)
    lab.told(first)
    assert first.slurm is not None
    assert stop(first.run_dir).how == "ended"
    lab.cluster.run("scontrol", "requeue", str(first.slurm.job_id))
    lab.until(lambda: lab.state(first) == "COMPLETED", seconds=60, what=lambda: f"the job to end {lab.words(first)}")
    assert len(lab.runs()) == 1
    assert "nothing is started again" in lab.words(first)


def test_before_its_time_limit_it_saves_and_goes_on(lab: Lab, saved: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Slurm signals up to a minute earlier than asked: 45 s at least to begin in, 75 s to save in.
    monkeypatch.setenv("LAVENDER_TUI_SLURM_TIME", "3")
    monkeypatch.setenv("LAVENDER_TUI_SLURM_SIGNAL_SECONDS", "75")
    first = lab.start("--train", "--save", saved)
    lab.told(first)
    ended = lab.end(first, seconds=200)
    assert ended.stop is not None and ended.stop["why"] == "its time limit was near"
    assert "saved, for signal 10" in lab.words(first)
    again = second(lab, first)
    assert again.resumed_from is not None and lab.end(again).code == 0
    assert len(lab.runs()) == 2


def test_a_failure_within_that_time_is_no_reason_to_queue_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_SLURM_TIME", "1")
    record = lab.start("--end", "3")
    ended = lab.end(record)
    assert (ended.code, ended.stop) == (3, None)
    lab.until(lambda: lab.state(record) == "FAILED", what="the job to have failed")


@pytest.fixture
def without_code(cluster: Cluster) -> Iterator[None]:
    """The cluster without RequeueExit, until the test ends."""
    cluster.configure(requeue_exit=False)
    yield
    cluster.configure(requeue_exit=True)


def test_where_no_code_asks_for_it_the_script_does(lab: Lab, saved: str, without_code: None) -> None:
    first = lab.start("--train", "--save", saved)
    lab.told(first)
    lab.cluster.run("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 2")
    again = second(lab, first)
    assert again.resumed_from is not None and lab.end(again).code == 0
    assert "asks for its place" in lab.words(first)


def test_the_next_attempt_is_prepared_once(lab: Lab, saved: str, until: Callable[..., object]) -> None:
    from lavender_tui.errors import AlreadyRunning
    from lavender_tui.resume.requeue import go_on

    first = lab.start("--train", "--save", saved, max_restarts=2)
    lab.told(first)
    assert first.slurm is not None and first.slurm.job_id is not None
    assert "--max-restarts 2 " in Path(first.slurm.script).read_text()
    assert stop(first.run_dir, KILL).has_ended
    (Path(first.run_dir) / "stop.json").unlink()
    script = go_on(first.run_dir, job_id=first.slurm.job_id, attempt=2)
    assert script is not None and len(lab.runs()) == 2
    assert "--max-restarts 2 " in Path(script).read_text()
    last = read_launch(os.path.dirname(script))
    assert last is not None and last.max_restarts == 2  # for the attempt after that
    with pytest.raises(AlreadyRunning):
        go_on(first.run_dir, job_id=first.slurm.job_id, attempt=2)
    assert len(lab.runs()) == 2


def test_a_newest_save_that_is_damaged_is_passed_over(lab: Lab, saved: str) -> None:
    from lavender_tui.resume.requeue import go_on

    first = lab.start("--train", "--save", saved)
    lab.told(first)
    assert first.slurm is not None and first.slurm.job_id is not None
    assert stop(first.run_dir, KILL).has_ended
    (Path(first.run_dir) / "stop.json").unlink()
    [good] = Path(first.run_dir).glob("*.pt")
    flip_a_weight(save(first.run_dir, 7, epoch=1, epochs=3))
    said: list[str] = []
    assert go_on(first.run_dir, job_id=first.slurm.job_id, attempt=2, say=said.append) is not None
    [again] = [path for path in lab.runs() if str(path) != first.run_dir]
    plan = json.loads((again / "resume.json").read_text())
    assert plan["source"]["checkpoint"] == str(good)
    assert said[0].startswith("passed over: pretrain-10-00-00-0007.pt: the checkpoint is damaged")
    assert said[0] in plan["warnings"]
    noted = [one for one in journal.read(str(lab.root)) if one.what == "requeued"]
    assert noted[-1].facts["passed_over"] == [said[0].removeprefix("passed over: ")]
