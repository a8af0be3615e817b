"""What is said of a stop: before it, while it goes on, and afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lavender_tui.model.checkpoint import Checkpoint, FileFacts
from lavender_tui.model.ending import StopAt, StopRequest, at_stake, epoch_to_end, stopped_words, stopping_words
from lavender_tui.model.proof import Begin
from lavender_tui.model.run import (
    EndFacts,
    LiveProcess,
    LossPoint,
    Run,
    RunState,
)
from lavender_tui.model.state import JobFacts, RunFacts, decide_state

NOW = 1_800_000_000.0
LIVE = (LiveProcess(pid=7, start_ticks=1, role="process"),)


def saved(ago: float, count: int | None = 60, **more: object) -> Checkpoint:
    facts = FileFacts(dev=1, inode=1, size_bytes=1, mtime_ns=int((NOW - ago) * 1e9), ctime_ns=0)
    return Checkpoint(path="/r/x.pt", format="lavender", facts=facts, save_count=count, has_model=True, **more)  # type: ignore[arg-type]


def run(newest: Checkpoint | None = None, **more: object) -> Run:
    base = Run(
        path="/r", root="/", name="r", format="lavender", state=RunState.RUNNING, state_reason="",
        checkpoints=(newest,) if newest else (), newest=newest, processes=LIVE, started_at=NOW - 900,
        last_save_at=newest.facts.mtime_ns / 1e9 if newest else None,
    )  # fmt: skip
    return replace(base, **more)  # type: ignore[arg-type]


def asked(**more: object) -> EndFacts:
    facts = EndFacts(
        stop_requested=True, stop_by="ann@gpu-03", stop_how="graceful", stop_asked_at=NOW - 12, grace_seconds=30
    )
    return replace(facts, **more)  # type: ignore[arg-type]


def test_what_would_be_lost_is_counted_from_the_last_save() -> None:
    points = (LossPoint(step=1000, loss=2.0), LossPoint(step=1412, loss=1.9))
    told = at_stake(run(saved(840, step=1000, global_batch=48), losses=points), NOW)
    assert told.when_asked == "up to 14 min, 412 steps, 19,776 rows since save 0060"
    assert at_stake(run(saved(840, count=None, step=1000)), NOW).when_asked == "up to 14 min since step 1,000"
    assert at_stake(run(), NOW).when_asked == "all of it: 15 min; nothing is saved yet"
    ours = at_stake(run(saved(840, step=1000, global_batch=48), losses=points, begin=Begin()), NOW)
    assert ours.when_asked == "nothing: it saves when asked"
    assert ours.work == "14 min, 412 steps, 19,776 rows since save 0060"
    # Points that count saves say nothing of steps.
    assert at_stake(run(saved(60, step=1000), losses=points, losses_by="save"), NOW).steps is None


@pytest.mark.parametrize(
    ("newest", "end", "begin", "words"),
    [
        (saved(840), asked(), Begin(), "stopping: saving… 12 s of 30"),
        (saved(840), asked(), None, "stopping: asked to end… 12 s of 30"),
        (saved(2, 61), asked(), Begin(), "stopping: saved 0061, ending… 12 s of 30"),
        (saved(840), asked(stop_how="kill"), Begin(), "stopping: killing… 12 s"),
        (None, asked(grace_seconds=None), Begin(), "stopping: saving… 12 s"),
        (None, asked(ended_at=NOW), Begin(), None),
        (None, None, Begin(), None),
    ],
)
def test_how_far_a_stop_is(newest: Checkpoint | None, end: EndFacts | None, begin: Begin | None, words: str) -> None:
    assert stopping_words(run(newest, end=end, begin=begin), NOW) == words


@pytest.mark.parametrize(
    ("end", "newest", "words"),
    [
        (asked(ended_at=NOW - 7.9), saved(8, 61), "stopped on request by ann@gpu-03: saved 0061, ended after 4.1 s"),
        (
            asked(ended_at=NOW - 11.6),
            saved(840),
            "stopped on request by ann@gpu-03: ended after 0.4 s without a save: what it did since save 0060 is lost",
        ),
        (
            asked(ended_at=NOW + 18, killed=True),
            None,
            "stopped on request by ann@gpu-03: killed after 30.0 s without a save: nothing of it is saved",
        ),
        (
            asked(ended_at=NOW - 11.9, killed=True),
            None,
            "stopped on request by ann@gpu-03: killed at once without a save: nothing of it is saved",
        ),
        (asked(stop_at="at the end of epoch 2"), saved(1), "stopped at the end of epoch 2, asked by ann@gpu-03"),
        (EndFacts(stop_requested=True, stop_by="SIGTERM"), saved(1), "stopped on request by SIGTERM"),
        (EndFacts(stop_requested=True), None, "stopped on request"),
    ],
)
def test_what_became_of_it(end: EndFacts, newest: Checkpoint | None, words: str) -> None:
    assert stopped_words(end, newest) == words
    assert decide_state(RunFacts(now=NOW, end=end, newest=newest)) == (RunState.STOPPED, words)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (StopAt.EPOCH_END.value, "completed epoch 3 of 3 (asked to stop at the end of the epoch by ann@gpu-03)"),
        ("graceful", "completed epoch 3 of 3 (asked to stop by ann@gpu-03)"),
    ],
)
def test_a_training_that_was_through_when_it_stopped_is_finished(how: str, words: str) -> None:
    end = asked(stop_how=how, stop_at="at the end of epoch 3", ended_at=NOW)
    through = saved(1, epoch=3, epochs=3, epoch_complete=True)
    assert decide_state(RunFacts(now=NOW, end=end, newest=through)) == (RunState.FINISHED, words)
    before = saved(1, epoch=2, epochs=3, epoch_complete=True)
    assert decide_state(RunFacts(now=NOW, end=end, newest=before))[0] is RunState.STOPPED


def test_a_live_run_says_what_it_is_asked_for() -> None:
    request = StopRequest(what=StopAt.EPOCH_END, asked_at=NOW, who="ann@gpu-03")
    _, reason = decide_state(RunFacts(now=NOW, processes=LIVE, request=request))
    assert reason == "1 live process; stops at the end of the epoch, asked by ann@gpu-03"
    _, reason = decide_state(RunFacts(now=NOW, processes=LIVE, end=asked(), request=request))
    assert reason == "1 live process; asked to end by ann@gpu-03"


def test_a_job_that_was_told_to_end_and_still_runs_is_not_called_stopped() -> None:
    job = JobFacts(name="Slurm job 7", state="COMPLETING")
    state, _ = decide_state(RunFacts(now=NOW, job=job, end=asked()))
    assert state is RunState.RUNNING
    assert run(saved(840), end=asked(), processes=()).is_stopping
    state, _ = decide_state(RunFacts(now=NOW, job=job, end=asked(ended_at=NOW)))
    assert state is RunState.STOPPED


def test_the_epoch_is_named_only_where_its_saves_tell_it_for_sure() -> None:
    begun = run(begin=Begin(epoch=1, requests=True))
    assert epoch_to_end(begun) == 1
    inside = saved(60, epoch=2, epochs=3)
    assert epoch_to_end(replace(begun, newest=inside, checkpoints=(inside,))) is None, "its ends are never saved"
    end = saved(90, epoch=1, epochs=3, epoch_complete=True)
    assert epoch_to_end(replace(begun, newest=end, checkpoints=(end,))) == 2
    assert epoch_to_end(replace(begun, newest=inside, checkpoints=(end, inside))) == 2
    last = saved(30, epoch=3, epochs=3, epoch_complete=True)
    assert epoch_to_end(replace(begun, newest=last, checkpoints=(end, last))) is None


def test_one_that_came_to_where_it_was_asked_to_end_counts_no_seconds() -> None:
    """It was asked two hours ago, and ends since it has saved."""
    served = asked(stop_how=StopAt.NEXT_SAVE.value, stop_at="at save 0060", stop_asked_at=NOW - 7200)
    assert stopping_words(run(saved(5), end=served), NOW) == "stopping: saved 0060, ending…"


@pytest.mark.parametrize(
    "lives",
    [{"processes": LIVE}, {"elsewhere": "gpu-07"}, {"job": JobFacts(name="Slurm job 1", state="RUNNING")}],
    ids=["here", "on another host", "as a job"],
)
def test_what_it_is_asked_for_is_said_wherever_it_lives(lives: dict[str, object]) -> None:
    request = StopRequest(what=StopAt.EPOCH_END, asked_at=NOW - 60, who="ann@gpu-03")
    _, reason = decide_state(RunFacts(now=NOW, request=request, **lives))  # type: ignore[arg-type]
    assert reason.endswith("; stops at the end of the epoch, asked by ann@gpu-03")
