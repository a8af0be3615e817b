"""What Slurm prints, as recorded from 22.05.8 and 24.11.5, and what is made of it. No cluster is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.launch import slurm_state
from lavender_tui.launch.slurm_job import SlurmJob
from lavender_tui.launch.slurm_state import (
    ControllerAway,
    NotInstalled,
    ask,
    from_accounting,
    from_json,
    from_text,
    requeue_codes,
)
from lavender_tui.model.job import Job, facts, words
from lavender_tui.model.run import RunState
from lavender_tui.model.state import RunFacts, decide_state

DATA = Path(__file__).parents[1] / "data" / "slurm"


# The same jobs on both releases: (state, nodes, exit code, signal, restarts).
JOBS = {
    "lost": ("NODE_FAIL", "n2", None, 1, 0),
    "limited": ("TIMEOUT", "n1", None, 15, 0),
    "well": ("COMPLETED", "n1", 0, None, 0),
    "held": ("PENDING", None, None, None, 0),
    "toobig": ("FAILED", None, None, None, 0),
    "preempted": ("PREEMPTED", "n1", None, 15, 0),
    "urgent": ("COMPLETED", "n1", 0, None, 0),
    "exit7": ("FAILED", "n1", 7, None, 0),
    "killed": ("FAILED", "n1", None, 9, 0),
    "odd|näme": ("RUNNING", "n1", None, None, 0),
    "cancelled": ("CANCELLED", "n1", None, 15, 0),
    "again": ("PENDING", None, None, None, 1),
    "deaf": ("COMPLETING", "n1", None, None, 0),
    "waits": ("PENDING", None, None, None, 0),
}
OF_RELEASE = {
    "22.05": {"lost": ("NODE_FAIL", "n2", 0, None, 0), "toobig": ("PENDING", None, None, None, 0)},
    "24.11": {},
}


@pytest.mark.parametrize("release", ["22.05", "24.11"])
@pytest.mark.parametrize(("read", "ending"), [(from_text, "txt"), (from_json, "json")])
def test_the_queue_in_both_its_forms(release: str, read: Callable[[str], list[Job]], ending: str) -> None:
    jobs = read((DATA / f"squeue-{release}.{ending}").read_text())
    told = {job.name: (job.state, job.nodes, job.exit_code, job.signal, job.restarts) for job in jobs}
    assert told == {**JOBS, **OF_RELEASE[release]}
    assert {job.cluster for job in jobs} == {"lab"}
    for job in jobs:
        assert (job.started_at is None) == (job.is_waiting), job
        assert (job.ended_at is None) == job.is_active, job


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_both_forms_say_the_same(release: str) -> None:
    """All but the reason, of which the text says more in words."""
    texts, documents = (
        {job.job_id: replace(job, reason=None) for job in read((DATA / f"squeue-{release}.{ending}").read_text())}
        for read, ending in ((from_text, "txt"), (from_json, "json"))
    )
    assert texts == documents and len(texts) == len(JOBS)


def test_a_job_that_never_ran_was_killed_by_nothing() -> None:
    job = next(job for job in from_json((DATA / "squeue-24.11.json").read_text()) if job.name == "toobig")
    state, said = decide_state(RunFacts(now=2.0, has_record=True, job=facts(job)))
    assert state is RunState.FAILED
    assert said == "it could not be started (BadConstraints (no node has what it asks for) (Slurm job 5))"


def test_a_line_that_is_not_whole_costs_nothing_but_itself() -> None:
    line = (DATA / "squeue-22.05.txt").read_text().splitlines()[0]
    assert len(from_text(f"{line}\nhere   |\n{line[:90]}\n{line}")) == 2


def test_an_error_in_the_json_is_no_empty_queue() -> None:
    with pytest.raises(ControllerAway, match="Unable to contact"):
        from_json(json.dumps({"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}))
    for text in ("", "[]", "{}", "null", '{"jobs": 3}', "[" * 100_000):
        with pytest.raises(ControllerAway):
            from_json(text)


def test_the_accounting_of_a_job_that_ran_twice() -> None:
    jobs = from_accounting((DATA / "sacct-completion-22.05.txt").read_text())
    assert (jobs[2].state, jobs[2].exit_code) == ("FAILED", 1)
    assert jobs[6].is_cancelled and sorted(jobs) == [1, 2, 3, 6]


def test_that_a_job_was_queued_again_is_no_end_in_the_accounting() -> None:
    jobs = from_accounting((DATA / "sacct-completion-24.11.txt").read_text())
    assert 12 not in jobs and (jobs[8].exit_code, jobs[9].signal) == (7, 9)
    assert jobs[5].nodes is None and jobs[5].signal is None


def test_the_accounting_says_by_whom_and_is_not_believed_too_early() -> None:
    told = "7|CANCELLED by 0|0:15|n1|5|lavender-x\n8|RUNNING|0:0||5|allocation\n9|TIMEOUT|0:0|n1|6|x|y\n"
    jobs = from_accounting(told)
    assert jobs[7].cancelled_by == "root" and jobs[7].signal == 15
    assert sorted(jobs) == [7, 9] and (jobs[9].state, jobs[9].name) == ("TIMEOUT", "x|y")
    assert from_accounting("7|CANCELLED by 4000000|0:0|n1|Unknown|x\n")[7].cancelled_by == "user 4000000"


@given(st.text(alphabet=st.characters(codec="utf-8")), st.text(alphabet="0123456789|: \n{}[]\"'abcE"))
def test_no_text_raises_anything_else(one: str, other: str) -> None:
    for text in (one, other):
        from_text(text)
        from_accounting(text)
        requeue_codes(text)
        try:
            from_json(text)
        except ControllerAway:
            continue


@pytest.mark.parametrize(
    ("value", "codes"),
    [("99", {99}), ("(null)", set()), ("3,98-100", {3, 98, 99, 100}), ("99,x", {99}), ("1-9999", set())],
)
def test_the_codes_that_queue_a_job_again(value: str, codes: set[int]) -> None:
    assert requeue_codes(f"RebootProgram = (null)\nRequeueExit             = {value}\nRequeueExitHold = 7\n") == codes


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of programs of the test's own, in the place of Slurm's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()
    yield tmp_path
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()


def program(directory: Path, name: str, body: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{body}\n")
    (directory / name).chmod(0o755)


def job(number: int, **more: Any) -> SlurmJob:
    return SlurmJob(**{"job_id": number, "name": "", **more})


def test_a_newer_slurm_is_asked_for_json_and_an_older_one_for_text(programs: Path) -> None:
    for release, told, number in (("22.05", "squeue-22.05.txt", 16), ("24.11", "squeue-24.11.json", 3)):
        body = f'echo "$@" >>{programs}/asked; [ "$1" = --version ] && echo slurm-wlm {release}.8 || cat {DATA}/{told}'
        program(programs, "squeue", body)
        slurm_state.version.cache_clear()
        wanted = job(number)
        assert ask([wanted, job(99)], timeout=10)[wanted].name == "well"
    asked = (programs / "asked").read_text().splitlines()
    assert len(asked) == 4  # the version once, the queue once, for all jobs
    assert all(f"--user {os.getuid()} --states=all" in line for line in (asked[1], asked[3]))
    assert "--json" in asked[3] and "--json" not in asked[1]


def test_a_number_is_asked_for_where_it_means_something(programs: Path) -> None:
    """A job of another cluster there alone, where that can be asked; another user's nowhere."""
    there = f"case $1 in --clusters=far) cat {DATA}/squeue-24.11.txt; exit;; --clusters=*) exit 1;; esac"
    body = f"{there}; [ $1 = --version ] && echo slurm-wlm 24.11.5 || cat {DATA}/squeue-24.11.json"
    program(programs, "squeue", f"echo $1 >>{programs}/asked; {body}")
    program(programs, "scontrol", f"echo config >>{programs}/asked; echo 'ClusterName             = lab'")
    here, lost, strangers = job(3, cluster="lab"), job(3, cluster="lost"), job(3, uid=os.getuid() + 1)
    wrong = job(3, cluster="far")  # what answers there is a job of `lab`
    told = ask([here, lost, strangers, wrong], timeout=10)
    assert told[here].state == "COMPLETED" and told[here].unasked is None and wrong not in told
    assert told[lost].unasked == "it is of cluster lost, which can't be asked from here"
    assert "only own jobs are asked for" in (told[strangers].unasked or "")
    for one in (lost, strangers):
        assert not told[one].state
        state, said = decide_state(RunFacts(now=2.0, has_record=True, job=facts(told[one])))
        assert state is RunState.IDLE and (told[one].unasked or "") in said
    ask([lost], timeout=10)
    asked = (programs / "asked").read_text().split()
    assert asked.count("config") == 1  # the cluster's name does not change
    assert asked.count("--clusters=lost") == 2 and asked.count("--user") == 1


def test_what_fails_or_hangs_is_said_in_time(programs: Path) -> None:
    program(programs, "squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(ControllerAway, match="Unable to contact"):
        ask([job(1)])
    program(programs, "squeue", "exec sleep 60")
    with pytest.raises(ControllerAway, match="within 1 s"):
        slurm_state._call(("squeue",), 1.0)
    program(programs, "squeue", "exit 1")
    with pytest.raises(ControllerAway, match="no reason"):
        ask([job(1)])


def test_a_machine_without_slurm_is_told_from_a_silent_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    slurm_state.version.cache_clear()
    with pytest.raises(NotInstalled, match="squeue is not on this machine"):
        ask([job(1)])
    slurm_state.version.cache_clear()


def test_our_questions_are_not_changed_by_the_persons_variables(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT", "SLURM_TIME_FORMAT", "SLURM_JOB_ID"):
        monkeypatch.setenv(name, "odd")
    monkeypatch.setenv("SLURM_CONF", "/kept")
    found = slurm_state.query_environment()
    assert found["SLURM_CONF"] == "/kept" and found["SLURM_TIME_FORMAT"] == "%s"
    assert not {"SQUEUE_FORMAT", "SQUEUE_STATES", "SACCT_FORMAT", "SLURM_JOB_ID"} & found.keys()


@pytest.mark.parametrize(
    ("job", "state", "reason"),
    [
        (Job(job_id=4, state="PENDING", reason="Resources"), RunState.IDLE, "Resources (nothing is free for it yet)"),
        (Job(job_id=4, state="PENDING", reason="Odd"), RunState.IDLE, "Slurm job 4 waits: Odd"),
        (Job(job_id=4, state="RUNNING", nodes="gpu-[1-2]"), RunState.RUNNING, "Slurm job 4 runs on gpu-[1-2]"),
        (Job(job_id=4, state="CANCELLED", cancelled_by="ann"), RunState.STOPPED, "cancelled: by ann (Slurm job 4)"),
        (Job(job_id=4, state="TIMEOUT"), RunState.STOPPED, "time limit"),
        (Job(job_id=4, state="PREEMPTED"), RunState.STOPPED, "preempted"),
        (Job(job_id=4, state="NODE_FAIL", nodes="gpu-1"), RunState.FAILED, "went down (on gpu-1 (Slurm job 4))"),
        (Job(job_id=4, state="OUT_OF_MEMORY"), RunState.FAILED, "out of memory"),
        (Job(job_id=4, state="FAILED", exit_code=7), RunState.FAILED, "exit code 7"),
        (Job(job_id=4), RunState.FAILED, "Slurm job 4 is unknown to Slurm by now, and left no exit record"),
        (Job(job_id=4, state="RUNNING", away_since=1.0), RunState.IDLE, "the Slurm controller can't be reached since"),
        (Job(job_id=None, away_since=1.0), RunState.IDLE, "can't be reached since"),
    ],
)
def test_a_job_decides_the_state_of_its_run(job: Job, state: RunState, reason: str) -> None:
    decided, said = decide_state(RunFacts(now=2.0, has_record=True, job=facts(job)))
    assert decided is state and reason in said, said
    assert words(job)
