"""The state of a run from facts: each rule with its words, and the laws of the stall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.rhythm import (
    PAUSE_FACTOR,
    SAVES_FLOOR_SECONDS,
    STALL_INTERVALS,
    STEPS_FLOOR_SECONDS,
    Rhythm,
    rhythm_of_gaps,
    rhythm_of_saves,
)
from lavender_tui.model.run import EndFacts, LiveProcess, RunState
from lavender_tui.model.state import JobFacts, RunFacts, Sign, Vanished, decide_state
from tests.model.build import checkpoint

WORKER = LiveProcess(pid=7, start_ticks=1, role="worker", rank=0, world_size=1)
OTHER = LiveProcess(pid=8, start_ticks=1, role="worker", rank=1, world_size=2)
MINUTE, EACH_MINUTE = 60.0, Rhythm(60.0, 61.0, SAVES_FLOOR_SECONDS)
EACH_SECOND = Rhythm(0.8, 2.0, STEPS_FLOOR_SECONDS)
NOON = 1_795_953_600.0  # some day, far from its ends in any time zone's minutes


def job(state: str, words: str | None = None, **other: object) -> JobFacts:
    return JobFacts(name="Slurm job 12", state=state, words=words, **other)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        (RunFacts(now=100.0, processes=(WORKER,)), RunState.RUNNING, "1 live process"),
        (
            RunFacts(now=1020.0, processes=(WORKER,), last_save_at=0.0, saves=EACH_MINUTE),
            RunState.STALLED,
            "no save for 17 min; it used to save every 60 s",
        ),
        (
            RunFacts(now=720.0, processes=(WORKER,), last_step_at=0.0, steps=EACH_SECOND),
            RunState.STALLED,
            "no step for 12 min; it used to log one every 0.8 s",
        ),
        (RunFacts(now=1.0, newest=checkpoint(stage="final")), RunState.FINISHED, "final"),
        (
            RunFacts(now=1.0, newest=checkpoint(epoch=3, epochs=3, epoch_complete=True), end=EndFacts(exit_code=0)),
            RunState.FINISHED,
            "completed epoch 3 of 3",
        ),
        (
            RunFacts(now=1.0, end=EndFacts(exit_code=1, error="rank 2 failed")),
            RunState.FAILED,
            "exit code 1: rank 2 failed",
        ),
        (RunFacts(now=1.0, end=EndFacts(signal="SIGKILL")), RunState.FAILED, "killed by SIGKILL"),
        (RunFacts(now=1.0, end=EndFacts(signal="SIGSEGV")), RunState.FAILED, "killed by SIGSEGV"),
        (RunFacts(now=1.0, end=EndFacts(exit_code=143)), RunState.STOPPED, "stopped by signal 15"),
        (RunFacts(now=1.0, end=EndFacts(signal="SIGTERM")), RunState.STOPPED, "stopped by signal 15"),
        (RunFacts(now=1.0, end=EndFacts(signal="SIGINT", error="KeyboardInterrupt")), RunState.STOPPED, "Ctrl-C"),
        (RunFacts(now=1.0, end=EndFacts(exit_code=130)), RunState.STOPPED, "stopped by signal 2"),
        (RunFacts(now=1.0, end=EndFacts(exit_code=1, stop_requested=True, stop_by="ann")), RunState.STOPPED, "by ann"),
        (RunFacts(now=1.0, has_record=True), RunState.FAILED, "left no exit record"),
        (RunFacts(now=1.0, has_record=True, end=EndFacts()), RunState.IDLE, "nothing says how"),
        (RunFacts(now=1.0, has_record=True, end=EndFacts(exit_code=0)), RunState.IDLE, "ended well"),
        (
            RunFacts(now=1.0, end=EndFacts(exit_code=0), newest=checkpoint(epoch=2, epochs=4)),
            RunState.IDLE,
            "the last epoch is not complete",
        ),
        (RunFacts(now=1.0, newest=checkpoint()), RunState.IDLE, "no process"),
        (RunFacts(now=1.0, has_record=True, restarted_at=0.5), RunState.FAILED, "the machine was restarted at"),
        (RunFacts(now=1.0, has_record=True, copied_from="run-a"), RunState.IDLE, "a copy"),
    ],
)
def test_a_run_has_a_state_with_its_reason(facts: RunFacts, state: RunState, words: str) -> None:
    decided, reason = decide_state(facts)
    assert decided is state
    assert words in reason


@pytest.mark.parametrize(
    ("facts", "state", "words"),
    [
        (job("PENDING", "Resources"), RunState.IDLE, "Slurm job 12 waits: Resources"),
        (job("RUNNING", "on n1"), RunState.RUNNING, "Slurm job 12 runs on n1"),
        (job("PREEMPTED"), RunState.STOPPED, "preempted"),
        (job("TIMEOUT"), RunState.STOPPED, "time limit"),
        (job("CANCELLED", "by ann"), RunState.STOPPED, "cancelled: by ann (Slurm job 12)"),
        (job("OUT_OF_MEMORY"), RunState.FAILED, "out of memory: killed by the kernel"),
        (job("NODE_FAIL"), RunState.FAILED, "went down"),
        (job("FAILED", exit_code=7), RunState.FAILED, "exit code 7 (Slurm job 12)"),
        (job("FAILED", signal="SIGSEGV"), RunState.FAILED, "killed by SIGSEGV"),
        (job("", "the Slurm controller can't be reached since 14:02"), RunState.IDLE, "can't be reached since 14:02"),
        (job("COMPLETED"), RunState.IDLE, "ended well, but the last epoch is not complete"),
    ],
)
def test_a_batch_job_tells_the_state(facts: JobFacts, state: RunState, words: str) -> None:
    decided, reason = decide_state(RunFacts(now=1.0, has_record=True, job=facts))
    assert decided is state
    assert words in reason


def test_what_the_run_recorded_goes_before_what_the_batch_system_says() -> None:
    end = EndFacts(exit_code=1, stop_requested=True, stop_by="ann")
    assert decide_state(RunFacts(now=1.0, end=end, job=job("FAILED", exit_code=1)))[0] is RunState.STOPPED


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        (RunFacts(now=1.0, has_record=True), "its process is gone and left no exit record"),
        (RunFacts(now=1.0), "the process that led it is gone"),
        (RunFacts(now=1.0, end=EndFacts(signal="SIGKILL")), "killed by SIGKILL"),
    ],
)
def test_left_over_workers_never_make_a_run_alive(facts: RunFacts, start: str) -> None:
    both = RunFacts(**{name: getattr(facts, name) for name in facts.__slots__} | {"leftovers": (WORKER, OTHER)})
    state, reason = decide_state(both)
    assert state is RunState.FAILED
    assert reason.startswith(start)
    assert reason.endswith("; 2 left-over workers still run (pid 7, 8)")


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        (None, "on gpu-07: whether it lives can't be seen from here, and it left no sign of life"),
        (Sign(what="heartbeat", at=NOON - 4), "on gpu-07: last sign less than 10 s ago (heartbeat)"),
        (Sign(what="step 1830", at=NOON - 29), "on gpu-07: last sign 20 s ago (step 1830)"),
    ],
)
def test_another_host_is_never_guessed_alive(sign: Sign | None, words: str) -> None:
    state, reason = decide_state(RunFacts(now=NOON, has_record=True, elsewhere="gpu-07", sign=sign))
    assert state is RunState.IDLE
    assert reason.startswith(words)


def test_an_old_sign_of_another_host_is_said_with_its_time() -> None:
    sign = Sign(what="save 0060", at=NOON - 3 * MINUTE)
    state, reason = decide_state(RunFacts(now=NOON, has_record=True, elsewhere="gpu-07", sign=sign))
    assert state is RunState.IDLE
    assert reason.startswith("on gpu-07: unknown since ")
    assert reason.endswith(" (last sign: save 0060, 3 min ago)")


def test_the_end_of_a_run_elsewhere_is_believed_where_it_is_recorded() -> None:
    end = EndFacts(signal="SIGKILL", ended_at=NOON)
    assert decide_state(RunFacts(now=NOON, elsewhere="gpu-07", end=end))[0] is RunState.FAILED


def test_who_was_seen_and_is_gone_failed_only_where_the_saves_say_so() -> None:
    gone = Vanished(pid=7, at=NOON)
    halfway = decide_state(RunFacts(now=NOON, vanished=gone, newest=checkpoint(epoch=2, epochs=4)))
    assert halfway[0] is RunState.FAILED
    assert "in epoch 2 of 4" in halfway[1]
    assert decide_state(RunFacts(now=NOON, vanished=gone))[0] is RunState.IDLE
    done = checkpoint(epoch=4, epochs=4, epoch_complete=True)
    assert decide_state(RunFacts(now=NOON, vanished=gone, newest=done))[0] is RunState.FINISHED


# The laws of the stall

GAPS = st.lists(st.floats(0.01, 5000.0), min_size=1, max_size=60)


def state_after(silence: float, steps: Rhythm | None, saves: Rhythm | None = None) -> RunState:
    facts = RunFacts(now=silence, processes=(WORKER,), last_step_at=0.0, last_save_at=0.0, steps=steps, saves=saves)
    return decide_state(facts)[0]


@given(GAPS, st.floats(0.0, 100_000.0))
def test_a_silence_is_a_stall_exactly_when_it_exceeds_the_patience(gaps: list[float], silence: float) -> None:
    rhythm = rhythm_of_gaps(gaps, STEPS_FLOOR_SECONDS)
    assert rhythm is not None
    stalled = state_after(silence, rhythm) is RunState.STALLED
    assert stalled == (silence > rhythm.patience_seconds)


@given(GAPS)
def test_no_pause_that_it_came_back_from_is_a_stall(gaps: list[float]) -> None:
    rhythm = rhythm_of_gaps(gaps, STEPS_FLOOR_SECONDS)
    assert all(state_after(gap, rhythm) is RunState.RUNNING for gap in gaps)


@given(st.floats(0.01, 5000.0), st.integers(1, 60))
def test_an_even_rhythm_has_three_intervals_of_patience_and_a_floor(interval: float, count: int) -> None:
    rhythm = rhythm_of_gaps([interval] * count, STEPS_FLOOR_SECONDS)
    assert rhythm is not None
    assert rhythm.patience_seconds == max(STEPS_FLOOR_SECONDS, STALL_INTERVALS * interval)


@given(GAPS, st.floats(0.01, 5000.0))
def test_a_longer_pause_never_makes_it_less_patient(gaps: list[float], more: float) -> None:
    before, after = rhythm_of_gaps(gaps, 6.0), rhythm_of_gaps([*gaps, max(gaps) + more], 6.0)
    assert before is not None
    assert after is not None
    assert after.patience_seconds >= before.patience_seconds
    assert after.patience_seconds >= PAUSE_FACTOR * (max(gaps) + more)


@given(GAPS, GAPS, st.floats(0.0, 100_000.0))
def test_saves_alone_keep_a_run_alive_and_steps_alone_do(
    steps: list[float], saves: list[float], silence: float
) -> None:
    by_steps, by_saves = rhythm_of_gaps(steps, STEPS_FLOOR_SECONDS), rhythm_of_gaps(saves, SAVES_FLOOR_SECONDS)
    for fresh in ({"last_step_at": silence, "last_save_at": 0.0}, {"last_step_at": 0.0, "last_save_at": silence}):
        facts = RunFacts(now=silence, processes=(WORKER,), steps=by_steps, saves=by_saves, **fresh)
        assert decide_state(facts)[0] is RunState.RUNNING


def test_steps_that_stop_are_noticed_long_before_three_intervals_of_saves() -> None:
    half_hour = Rhythm(1800.0, 1805.0, SAVES_FLOOR_SECONDS)
    assert state_after(59.0, EACH_SECOND, half_hour) is RunState.RUNNING
    assert state_after(61.0, EACH_SECOND, half_hour) is RunState.STALLED


def test_a_training_that_saves_on_without_logging_steps_is_no_stall() -> None:
    facts = RunFacts(
        now=10_000.0,
        processes=(WORKER,),
        last_step_at=0.0,
        last_save_at=9_000.0,
        steps=EACH_SECOND,
        saves=Rhythm(1800.0, 1805.0, SAVES_FLOOR_SECONDS),
    )
    assert decide_state(facts)[0] is RunState.RUNNING


@given(st.lists(st.floats(1.0, 1000.0), min_size=2, max_size=40), st.floats(10_000.0, 1e6))
def test_a_night_between_two_processes_is_no_pause_of_the_rhythm(gaps: list[float], night: float) -> None:
    instants = [1e9]
    for gap in gaps:
        instants.append(instants[-1] + gap)
    morning = instants[-1] + night
    again = [*instants, morning, morning + gaps[0]]
    known = rhythm_of_saves(again, begun_at=morning - 1.0)
    assert known is not None
    assert known.longest_seconds < 10_000.0
    unknown = rhythm_of_saves(again)
    assert unknown is not None
    assert unknown.longest_seconds >= night - 1.0


def test_without_a_rhythm_nothing_is_called_a_stall() -> None:
    assert rhythm_of_gaps([], 6.0) is None
    assert rhythm_of_saves([1e9]) is None
    assert state_after(1e9, None) is RunState.RUNNING


AGENT = LiveProcess(pid=6, start_ticks=1, role="agent")
SUPERVISOR = LiveProcess(pid=5, start_ticks=1, role="supervisor")
RANKS = tuple(LiveProcess(pid=10 + rank, start_ticks=1, role="worker", rank=rank, world_size=4) for rank in range(4))


@pytest.mark.parametrize(
    ("ranks", "had_all", "words"),
    [
        (RANKS, True, "4 of 4 ranks alive"),
        ((), False, "starting"),
        (RANKS[:3], False, "3 of 4 ranks seen on this machine"),
        ((RANKS[0], *RANKS[2:]), True, "rank 1 is gone; torchrun hasn't noticed yet"),
        (RANKS[2:], True, "ranks 0, 1 are gone; torchrun hasn't noticed yet"),
    ],
)
def test_ranks_are_counted_and_neither_torchrun_nor_a_supervisor(
    ranks: tuple[LiveProcess, ...], had_all: bool, words: str
) -> None:
    facts = RunFacts(now=1.0, processes=(SUPERVISOR, AGENT, *ranks), had_all_ranks=had_all)
    assert decide_state(facts) == (RunState.RUNNING, words)


@pytest.mark.parametrize(
    ("newest", "had_ranks", "end", "words"),
    [
        (None, False, None, "starting"),
        (checkpoint(), False, None, "no rank is seen yet"),
        (checkpoint(), True, None, "its ranks are gone; torchrun hasn't ended yet"),
        (None, True, EndFacts(exit_code=1, ended_at=1.0), "its ranks are gone; torchrun hasn't ended yet"),
        (checkpoint(), True, EndFacts(exit_code=0, ended_at=1.0), "its ranks have ended; torchrun hasn't ended yet"),
        (checkpoint(stage="final"), True, None, "its ranks have ended; torchrun hasn't ended yet"),
    ],
)
def test_torchrun_alone_has_no_ranks_yet_or_no_longer(
    newest: Checkpoint | None, had_ranks: bool, end: EndFacts | None, words: str
) -> None:
    facts = RunFacts(now=1.0, processes=(SUPERVISOR, AGENT), newest=newest, had_ranks=had_ranks, end=end)
    assert decide_state(facts) == (RunState.RUNNING, words)


def test_a_rank_that_ends_after_the_last_epoch_did_not_die() -> None:
    through = checkpoint(epoch=3, epochs=3, epoch_complete=True)
    facts = RunFacts(now=1.0, processes=(AGENT, *RANKS[1:]), had_all_ranks=True, newest=through)
    assert decide_state(facts) == (RunState.RUNNING, "rank 0 has ended")


def test_a_stall_names_the_rank_that_is_gone() -> None:
    facts = RunFacts(now=720.0, processes=(AGENT, *RANKS[1:]), had_all_ranks=True, last_step_at=0.0, steps=EACH_SECOND)
    state, reason = decide_state(facts)
    assert state is RunState.STALLED and reason.endswith("; rank 0 is gone; torchrun hasn't noticed yet")
