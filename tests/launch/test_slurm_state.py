"""What Slurm prints, as recorded from 22.05 and in the form of 23.11, and what is made of it. No cluster is needed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.launch import slurm_state
from lavender_tui.launch.slurm_state import ControllerAway, ask, from_accounting, from_json, from_text, requeue_codes
from lavender_tui.model.job import Job, facts, words
from lavender_tui.model.run import RunState
from lavender_tui.model.state import RunFacts, decide_state

DATA = Path(__file__).parents[1] / "data" / "slurm"


def test_the_text_of_squeue() -> None:
    jobs = {job.job_id: (name, job) for name, job in from_text((DATA / "squeue-22.05.txt").read_text())}
    assert jobs[2] == (
        "lavender-run-2026-11-29_20-55-41-8e0a28fb",
        Job(
            job_id=2, state="FAILED", reason="NonZeroExitCode", nodes="n[1-2]", exit_code=1, restarts=1,
            ended_at=1795985872,
        ),
    )  # fmt: skip
    assert jobs[4] == ("lavender-held", Job(job_id=4, state="PENDING", reason="JobHeldUser", exit_code=0))
    assert (jobs[5][1].exit_code, jobs[5][1].signal) == (0, 9)
    assert jobs[6][1].state == "RUNNING" and jobs[6][1].nodes == "n1"
    assert sorted(jobs) == [1, 2, 3, 4, 5, 6]  # a name with a line break costs nothing but itself


@pytest.mark.parametrize("release", ["22.05", "23.11"])
def test_the_json_of_squeue(release: str) -> None:
    jobs = [job for _, job in from_json((DATA / f"squeue-{release}.json").read_text())]
    told = [(job.job_id, job.state, job.nodes, job.exit_code, job.signal, job.restarts) for job in jobs]
    assert (
        told
        == {
            "22.05": [(1, "COMPLETED", "n1", 0, None, 0), (2, "RUNNING", "n1", 0, None, 0)],
            "23.11": [
                (41, "RUNNING", "gpu-[01-02]", 0, None, 1),
                (42, "COMPLETING", "gpu-03", 7, None, 0),
                (43, "FAILED", "gpu-04", None, 9, 0),
            ],
        }[release]
    )


def test_an_error_in_the_json_is_no_empty_queue() -> None:
    with pytest.raises(ControllerAway, match="Unable to contact"):
        from_json(json.dumps({"jobs": [], "errors": [{"error": "Unable to contact slurm controller"}]}))
    for text in ("", "[]", "{}", "null", '{"jobs": 3}', "[" * 100_000):
        with pytest.raises(ControllerAway):
            from_json(text)


def test_the_accounting_of_a_job_that_ran_twice_and_of_an_odd_name() -> None:
    jobs = from_accounting((DATA / "sacct-completion-22.05.txt").read_text())
    assert sorted(jobs) == ["1", "2", "3", "6"]
    assert (jobs["2"].state, jobs["2"].exit_code) == ("FAILED", 1)
    assert jobs["6"].is_cancelled


def test_the_accounting_says_by_whom_and_is_not_believed_too_early() -> None:
    jobs = from_accounting("7|CANCELLED by 0|0:15|n1|lavender-x\n8|RUNNING|0:0||allocation\n9|TIMEOUT|0:0|n1|x|y\n")
    assert jobs["7"].cancelled_by == "root" and jobs["7"].signal == 15
    assert sorted(jobs) == ["7", "9"] and jobs["9"].state == "TIMEOUT"
    assert from_accounting("7|CANCELLED by 4000000|0:0|n1|x\n")["7"].cancelled_by == "user 4000000"


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
    slurm_state.version.cache_clear()
    yield tmp_path
    slurm_state.version.cache_clear()


def program(directory: Path, name: str, body: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{body}\n")
    (directory / name).chmod(0o755)


def test_a_newer_slurm_is_asked_for_json_and_an_older_one_for_text(programs: Path) -> None:
    for release, told in (("22.05", "squeue-22.05.txt"), ("23.11", "squeue-23.11.json")):
        body = f'echo "$@" >>{programs}/asked; [ "$1" = --version ] && echo slurm-wlm {release}.8 || cat {DATA}/{told}'
        program(programs, "squeue", body)
        slurm_state.version.cache_clear()
        assert ask([6, 41], timeout=10).keys() >= ({"6"} if release == "22.05" else {"41"})
    asked = (programs / "asked").read_text().splitlines()
    assert len(asked) == 4  # the version once, the queue once, for all jobs
    assert all(f"--user {os.getuid()} --states=all" in line for line in (asked[1], asked[3]))
    assert "--json" in asked[3] and "--json" not in asked[1]


def test_what_fails_or_hangs_is_said_in_time(programs: Path) -> None:
    program(programs, "squeue", 'echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1')
    with pytest.raises(ControllerAway, match="Unable to contact"):
        ask([1])
    program(programs, "squeue", "exec sleep 60")
    with pytest.raises(ControllerAway, match="within 1 s"):
        slurm_state._call(("squeue",), 1.0)
    program(programs, "squeue", "exit 1")
    with pytest.raises(ControllerAway, match="no reason"):
        ask([1])


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
