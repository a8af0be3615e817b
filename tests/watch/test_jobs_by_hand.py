"""Jobs that we didn't submit: when their number still means them, what they say of a run, and which are asked for.

Slurm is played by programs that print what a real one did.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.launch import StopOrder, slurm_state, stop, stop_order
from lavender_tui.launch.fields import Foreign
from lavender_tui.launch.record import LaunchRecord, ProcessId, describe_this_process, read_launch, write_launch
from lavender_tui.launch.slurm_job import SlurmJob, job_of, surrounding_job
from lavender_tui.launch.slurm_living import as_told, is_around_us, speaks_for, why_alive
from lavender_tui.launch.slurm_state import from_json
from lavender_tui.launch.stop_order import CannotRecord, CannotStop, How
from lavender_tui.model.job import Job, facts
from lavender_tui.model.run import EndFacts, RunState
from lavender_tui.model.state import RunFacts, decide_state
from lavender_tui.resume import fresh
from lavender_tui.watch.jobs import JobTable
from lavender_tui.watch.scan import scan

REAL = Path(__file__).parents[1] / "data" / "slurm" / "squeue-24.11.json"
JOBS = {job.name: job for job in from_json(REAL.read_text())}
INSIDE = {
    "SLURM_JOB_ID": "17",
    "SLURM_JOB_NAME": "mine",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURMD_NODENAME": "n1",
}


def test_the_job_around_a_process() -> None:
    job, attempt = surrounding_job(INSIDE) or pytest.fail("no job")
    assert (job.job_id, job.name, job.cluster, job.uid, job.step, attempt) == (17, "mine", "lab", os.getuid(), None, 1)
    inner, attempt = surrounding_job({**INSIDE, "SLURM_STEP_ID": "3", "SLURM_RESTART_COUNT": "2"}) or pytest.fail("")
    assert (inner.step, inner.name, attempt) == ("3", "", 3)  # `srun -J` gives a step a name of its own
    assert surrounding_job({**INSIDE, "SLURMD_NODENAME": ""}) is None  # a shell that salloc opened
    for odd in ("", "x", "-1", "0", "٣", "9" * 30):
        assert surrounding_job({**INSIDE, "SLURM_JOB_ID": odd}) is None


def test_a_job_comes_back_from_a_record_and_a_strange_one_does_not() -> None:
    document = {"job_id": 7, "name": "a", "script": "", "stdout": "", "cluster": None, "uid": 5, "step": "0"}
    assert job_of(document) == SlurmJob(job_id=7, name="a", uid=5, step="0")
    for change in ({"job_id": -1}, {"job_id": "7"}, {"step": "0 --all"}, {"step": 3}, {"name": None}):
        with pytest.raises(Foreign):
            job_of({**document, **change})


@pytest.fixture
def record(tmp_path: Path) -> LaunchRecord:
    """Of a training on another host, in a job that began with it."""
    run_dir = tmp_path / "run-2026-01-01_00-00-00"
    run_dir.mkdir()
    job = JOBS["odd|näme"]
    slurm = SlurmJob(job_id=job.job_id, name=job.name, cluster="lab", uid=os.getuid())
    found = replace(
        describe_this_process(str(run_dir)), host="gpu-07", slurm=slurm, started_at=(job.started_at or 0) + 9
    )
    write_launch(str(run_dir), found)
    return found


def test_a_number_is_believed_only_with_name_and_time(record: LaunchRecord) -> None:
    job = JOBS["odd|näme"]
    told = as_told(record, job)
    assert told is not None and told.is_by_hand and told.state == "RUNNING"
    assert as_told(record, replace(job, name="another")) is None
    assert as_told(record, replace(job, started_at=record.started_at + 3600)) is None
    assert as_told(record, replace(job, started_at=record.started_at + 3600, restarts=1)) is not None  # put back since
    assert as_told(record, replace(job, state="FAILED", ended_at=record.started_at - 3600)) is None
    in_a_step = replace(record, slurm=replace(record.slurm, name="", step="0"))
    assert as_told(in_a_step, job) is not None


def test_what_a_job_says_of_a_training_that_is_over(record: LaunchRecord) -> None:
    running = JOBS["odd|näme"]
    assert speaks_for(record, running, is_over=False) and not speaks_for(record, running, is_over=True)
    assert speaks_for(record, replace(running, state="COMPLETING"), is_over=True)
    assert speaks_for(record, replace(running, restarts=1), is_over=True)
    assert speaks_for(record, JOBS["limited"], is_over=True)


def test_in_a_later_attempt_of_its_job_a_run_is_over(record: LaunchRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else `lavender-tui resume --latest` in a job's script would wait for itself."""
    assert record.slurm is not None
    for name, value in {**INSIDE, "SLURM_JOB_ID": str(record.slurm.job_id), "SLURM_RESTART_COUNT": "1"}.items():
        monkeypatch.setenv(name, value)
    assert is_around_us(record) and not is_around_us(replace(record, attempt=2))
    monkeypatch.setenv("PATH", "")
    assert why_alive(record.run_dir, record) is None
    (run,) = scan((os.path.dirname(record.run_dir),))
    assert fresh.why_alive(run, now=record.started_at + 1) is None
    assert JobTable().ask({record.run_dir: record}, {}) == {}


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The real answer of a squeue of 24.11; every call is a line of the file."""
    programs, calls = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    calls.touch()
    bodies = {
        "squeue": f"case $1 in --version) echo slurm-wlm 24.11.5;; --clusters*) exit 1;; *) cat {REAL};; esac",
        "scontrol": "echo 'ClusterName             = lab'",
        "sacct": "exit 1",
        "scancel": "exit 0",
    }
    for name, body in bodies.items():
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{calls}\n{body}\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()
    yield calls
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()


def asked(calls: Path) -> list[str]:
    return [line for line in calls.read_text().splitlines() if line.startswith("squeue --user")]


def test_many_runs_are_one_question_and_what_ended_well_is_none(record: LaunchRecord, queue: Path) -> None:
    records = {
        f"{record.run_dir}-{number}": replace(record, run_dir=f"{record.run_dir}-{number}") for number in range(9)
    }
    table = JobTable()
    well = EndFacts(exit_code=0, ended_at=2.0)
    told = table.ask(records, dict.fromkeys(list(records)[:3], well))
    assert len(told) == 6 and {job.state for job in told.values()} == {"RUNNING"}
    assert len(asked(queue)) == 1
    assert JobTable().ask(records, dict.fromkeys(records, well)) == {} and len(asked(queue)) == 1
    signalled = EndFacts(exit_code=0, ended_at=2.0, stop_requested=True, stop_by="SIGTERM")
    assert JobTable().ask(records, dict.fromkeys(records, signalled)) == {}  # its job goes on with other things
    assert len(asked(queue)) == 2


def test_of_several_attempts_only_the_last_is_asked_for(record: LaunchRecord, queue: Path) -> None:
    later = replace(record, run_dir=f"{record.run_dir}-later", attempt=2)
    told = JobTable().ask({record.run_dir: record, later.run_dir: later}, {})
    assert (told[record.run_dir].state, told[later.run_dir].state) == ("WENT_ON", "RUNNING")
    state, reason = decide_state(RunFacts(now=2.0, has_record=True, job=facts(told[record.run_dir])))
    assert state is RunState.STOPPED and reason.startswith("Slurm put its job back into the queue, where it went on")


def test_a_job_of_another_cluster_is_unknown_and_nothing_is_cancelled(record: LaunchRecord, queue: Path) -> None:
    assert record.slurm is not None
    os.unlink(os.path.join(record.run_dir, "launch.json"))
    elsewhere = replace(record, slurm=replace(record.slurm, cluster="other"))
    write_launch(record.run_dir, elsewhere)
    (run,) = scan((os.path.dirname(record.run_dir),))
    assert run.state is RunState.IDLE
    assert "it is of cluster other, which can't be asked from here; on gpu-07: whether it lives" in run.state_reason
    with pytest.raises(CannotStop, match="it is of cluster other, which can't be asked from here"):
        stop(record.run_dir)
    assert not asked(queue) and "scancel" not in queue.read_text()
    assert not os.path.exists(os.path.join(record.run_dir, "stop.json"))


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_record_that_a_stranger_wrote_cancels_no_job(record: LaunchRecord, queue: Path) -> None:
    os.chown(os.path.join(record.run_dir, "launch.json"), 4321, 4321)
    with pytest.raises(CannotStop, match="written by another user"):
        stop(record.run_dir)
    assert "scancel" not in queue.read_text()


@pytest.mark.parametrize(
    ("step", "how", "words"),
    [
        (None, "kill", "scancel 10"),
        (None, "graceful", "scancel --full --signal=TERM 10"),
        ("0", "interrupt", "scancel --signal=INT 10.0"),
    ],
)
def test_what_scancel_is_told(record: LaunchRecord, queue: Path, step: str | None, how: How, words: str) -> None:
    assert record.slurm is not None
    os.unlink(os.path.join(record.run_dir, "launch.json"))
    write_launch(record.run_dir, replace(record, slurm=replace(record.slurm, step=step)))
    stop(record.run_dir, StopOrder(how=how, wait=False))
    assert words in queue.read_text().splitlines()


def test_a_job_is_told_without_a_record_only_where_that_is_the_order(
    record: LaunchRecord, queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stop_order, "write_stop", full)
    with pytest.raises(CannotRecord, match="would look like a failure"):
        stop(record.run_dir, StopOrder(wait=False))
    assert "scancel" not in queue.read_text()
    outcome = stop(record.run_dir, StopOrder(wait=False, unrecorded=True))
    assert outcome.unrecorded == "No space left on device" and "scancel" in queue.read_text()


def test_where_slurm_is_not_installed_a_run_is_judged_like_any_other(
    record: LaunchRecord, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm_state.version.cache_clear()
    slurm_state._cluster_of.cache_clear()
    assert JobTable().ask({record.run_dir: record}, {}) == {}
    assert why_alive(record.run_dir, record) is None
    (run,) = scan((os.path.dirname(record.run_dir),))
    assert run.state is RunState.IDLE and run.state_reason.startswith("on gpu-07: ")
    slurm_state.version.cache_clear()


def test_here_the_process_is_known_better_than_the_job(record: LaunchRecord, queue: Path) -> None:
    """Its leader is gone on this very machine, and the job still runs: the script goes on with something else."""
    gone = replace(
        describe_this_process(record.run_dir),
        slurm=record.slurm,
        started_at=record.started_at,
        leader=ProcessId(pid=os.getpid(), start_ticks=1),
    )
    assert JobTable().ask({record.run_dir: gone}, {}) == {}
    assert why_alive(record.run_dir, gone) is None


def test_the_last_word_on_a_signal_is_slurms() -> None:
    end = EndFacts(exit_code=0, ended_at=2.0, stop_requested=True, stop_by="SIGTERM")

    def said(job: Job | None, end: EndFacts = end) -> tuple[RunState, str]:
        return decide_state(RunFacts(now=3.0, has_record=True, end=end, job=facts(job) if job is not None else None))

    assert said(JOBS["limited"]) == (RunState.STOPPED, "its time limit was over (on n1 (Slurm job 2))")
    assert said(JOBS["preempted"])[1].startswith("preempted: another job got its place")
    assert said(JOBS["cancelled"])[1].startswith("cancelled")
    assert said(replace(JOBS["limited"], state="OUT_OF_MEMORY"))[0] is RunState.FAILED
    assert said(JOBS["lost"])[1].startswith("a machine that it ran on went down")
    for nothing in (None, JOBS["exit7"], Job(job_id=1), replace(JOBS["limited"], away_since=1.0)):
        assert said(nothing) == (RunState.STOPPED, "stopped on request by SIGTERM")
    by_us = replace(end, stop_how="graceful", stop_by="ann@here")
    assert "ann@here" in said(JOBS["cancelled"], by_us)[1]


def test_a_record_of_before_these_fields_is_read(record: LaunchRecord) -> None:
    path = os.path.join(record.run_dir, "launch.json")
    document = json.loads(Path(path).read_text())
    for key in ("uid", "step"):
        del document["slurm"][key]
    Path(path).write_text(json.dumps(document))
    read = read_launch(record.run_dir)
    assert read is not None and read.slurm is not None and read.slurm.uid is None
