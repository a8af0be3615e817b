"""What the stop box offers for each kind of run, and what it says that follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lavender_tui.model.ending import StopAt, StopRequest, why_no_request
from lavender_tui.model.gone import as_gone
from lavender_tui.model.job import Job
from lavender_tui.model.proof import Begin
from lavender_tui.model.run import EndFacts, LiveProcess, LossPoint, Run, RunState
from lavender_tui.tui.screens.stop_actions import why_not_stopped
from lavender_tui.tui.stop_choices import choices, command_elsewhere, facts, may_be_stopped, needs_proof, title

NOW = 1_800_000_000.0
SUPERVISED = (
    LiveProcess(pid=6, start_ticks=1, role="supervisor"),
    LiveProcess(pid=7, start_ticks=1, role="process", rank=0),
)
RUN = Run(
    path="/r/run-1", root="/r", name="run-1", format="lavender", state=RunState.RUNNING, state_reason="2 processes",
    checkpoints=(), newest=None, processes=SUPERVISED, host="gpu-03", pid=7, world_size=1, started_at=NOW - 600,
    begin=Begin(epoch=2, requests=True),
)  # fmt: skip


def offered(run: Run) -> dict[str, str]:
    return {one.key: f"{one.title}: {one.what}" for one in choices(run, grace=30, now=NOW)}


def said(run: Run) -> dict[str, str]:
    lines = ["".join(words for words, _ in line) for line in facts(run, NOW)]
    return {line[:9].strip(): line[9:] for line in lines}


def test_a_run_of_our_own() -> None:
    assert list(offered(RUN)) == ["n", "y", "s", "e", "i", "K"]
    assert offered(RUN)["y"] == "save and stop: SIGTERM; killed after 30 s"
    assert offered(RUN)["e"].startswith("stop at the end of epoch 2:")
    assert said(RUN)["host"] == "gpu-03, pid 7, 1 rank, 2 processes"
    assert "note" not in said(RUN)
    told = replace(RUN, processes=SUPERVISED[1:])
    assert "while this app is open" in said(told)["note"]


def test_one_that_reads_no_requests_or_is_asked_already() -> None:
    assert list(offered(replace(RUN, begin=None))) == ["n", "y", "i", "K"]
    assert "not yet: it hasn't begun to train" in said(replace(RUN, begin=None))["later"]
    for trained in ({"losses": (LossPoint(step=1, loss=2.0),)}, {"processes": SUPERVISED[1:]}):
        silent = replace(RUN, begin=None, **trained)
        assert "later" not in said(silent)
        assert "reads no requests" in (why_no_request(silent, StopAt.NEXT_SAVE) or "")
    assert list(offered(replace(RUN, begin=Begin(requests=False)))) == ["n", "y", "i", "K"]
    assert "e" not in offered(replace(RUN, begin=Begin(requests=True)))  # it tells no epoch
    asked = replace(RUN, request=StopRequest(what=StopAt.NEXT_SAVE, asked_at=NOW - 60, who="ann@gpu-03"))
    assert offered(asked)["s"] == "withdraw that: don't stop at the next save"
    assert said(asked)["asked"] == "stops at the next save, by ann@gpu-03 1 min ago"


def test_one_that_ends_already() -> None:
    end = EndFacts(stop_requested=True, stop_by="ann@gpu-03", stop_asked_at=NOW - 12, grace_seconds=30)
    ending = replace(RUN, end=end)
    assert list(offered(ending)) == ["n", "i", "K"] and title(ending) == "run-1 is stopping"
    assert said(ending)["now"] == "saving… 12 s of 30, asked by ann@gpu-03"
    assert "lost" not in said(ending)


def test_what_a_dead_run_left_behind() -> None:
    left = replace(RUN, state=RunState.FAILED, state_reason="exit code 1", processes=(), leftovers=SUPERVISED[1:])
    assert list(offered(left)) == ["n", "y", "K"] and title(left) == "End what run-1 left running?"
    assert said(left) == {"host": "gpu-03, 1 process", "run": "exit code 1"}


def test_of_one_whose_directory_is_gone_only_what_names_it_is_ended() -> None:
    gone = as_gone(RUN, SUPERVISED)  # found by what a file said, which is gone
    assert not may_be_stopped(gone) and why_not_stopped(gone).endswith("2 processes of it live on: `kill 7` ends them")
    proved = as_gone(RUN, [replace(one, found_by="environment") for one in SUPERVISED])
    assert list(offered(proved)) == ["n", "y", "K"]
    assert said(proved)["run"].endswith("2 processes of it live on: x, or `kill 7` ends them")
    assert not may_be_stopped(as_gone(proved)) and as_gone(proved).state_reason == "its directory is gone"
    half_deleted = replace(RUN, state=RunState.IDLE, state_reason="no process and no launch record", processes=())
    assert as_gone(half_deleted).state_reason == "its directory is gone"


def test_a_job_of_slurm() -> None:
    job = replace(RUN, processes=(), pid=None, job=Job(job_id=12, state="RUNNING", nodes="n[1-2]"))
    assert offered(job)["y"] == "save and stop: scancel -s TERM; scancel after 30 s"
    assert offered(job)["i"] == "interrupt: scancel -s INT; scancel after 30 s"
    assert offered(job)["K"].startswith("cancel it at once:")
    assert said(job)["host"] == "Slurm job 12 on n[1-2], running, 1 rank"
    waiting = replace(job, state=RunState.IDLE, job=Job(job_id=12, state="PENDING"), begin=None)
    assert list(offered(waiting)) == ["n", "y"]
    assert offered(waiting)["y"].startswith("take it out of the queue:")
    assert may_be_stopped(waiting)


@pytest.mark.parametrize("state", [RunState.IDLE, RunState.FAILED, RunState.FINISHED, RunState.STOPPED])
def test_what_is_over_is_left_alone(state: RunState) -> None:
    over = replace(RUN, state=state, processes=(), end=EndFacts(exit_code=0, ended_at=NOW))
    assert not may_be_stopped(over)
    assert not may_be_stopped(replace(over, end=None))


def test_one_elsewhere_can_be_asked_by_a_file_but_by_no_signal() -> None:
    far = replace(RUN, state=RunState.IDLE, processes=(), elsewhere="gpu-07", host="gpu-07")
    assert list(offered(far)) == ["n", "s", "e", "c"]
    assert "can't be seen from here" in said(far)["host"]
    assert said(far)["there"] == "it was started on gpu-07; this stops all of it: ssh gpu-07 lavender-tui stop /r/run-1"
    assert command_elsewhere(far) == "ssh gpu-07 lavender-tui stop /r/run-1"
    assert list(offered(replace(far, begin=None))) == ["n", "c"]
    second_node = replace(far, state=RunState.RUNNING, processes=SUPERVISED)
    assert list(offered(second_node)) == ["n", "s", "e", "c"], "ranks are here, and what leads them isn't"
    container = replace(far, begin=None, elsewhere="another container on gpu-07")
    assert not may_be_stopped(container) and "stop it there" in said(container)["there"]


def test_one_that_was_started_by_hand_is_stopped_only_on_a_proof() -> None:
    hand = replace(RUN, processes=SUPERVISED[1:], is_ours=False, is_by_hand=True, started_by="ann@gpu-03", begin=None)
    assert may_be_stopped(hand) and needs_proof(hand) and not needs_proof(RUN)
    looking = ["".join(words for words, _ in line) for line in facts(hand, NOW)]
    assert "started  by hand, by ann@gpu-03" in looking
    assert "proof    looking which processes are surely its own …" in looking
    assert [one.key for one in choices(hand, grace=30, now=NOW, is_proved=False)] == ["n"]
    refused = ["".join(words for words, _ in line) for line in facts(hand, NOW, "pid 7 only looks like it. Do so")]
    assert refused[-1] == "refused  pid 7 only looks like it. Do so" and len(refused) == 3
    assert [one.key for one in choices(hand, grace=30, now=NOW)] == ["n", "y", "i", "K"]
    recorded = replace(RUN, is_by_hand=True, started_by="ann@gpu-03")
    assert said(recorded)["started"] == "by hand, by ann@gpu-03" and "proof" not in said(recorded)
