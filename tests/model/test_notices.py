"""What is worth a notice."""

from __future__ import annotations

from typing import Any

from lavender_tui.model.notices import Event, news
from lavender_tui.model.proof import Outcome, Proof
from lavender_tui.model.run import LossPoint, Run, RunState
from tests.model.build import checkpoint, run


def at(state: RunState, loss: float | None = 2.0, **fields: Any) -> Run:
    saved = checkpoint(1, loss=loss, loss_text=None if loss is not None else "nan")
    return run("a", saved, state=state, state_reason=f"it is {state.value}", **fields)


def told(before: Run, after: Run) -> list[Event]:
    return [notice.event for notice in news({before.key: before}, [after])]


def test_each_end_is_told_once() -> None:
    alive = at(RunState.RUNNING)
    for state, event in (
        (RunState.FAILED, Event.FAILED),
        (RunState.STALLED, Event.STALLED),
        (RunState.FINISHED, Event.FINISHED),
        (RunState.STOPPED, Event.STOPPED),
    ):
        assert told(alive, at(state)) == [event]
        assert told(at(state), at(state)) == []
    assert told(at(RunState.STALLED), alive) == [] and told(alive, at(RunState.IDLE)) == []


def test_a_run_that_comes_into_sight_is_no_news() -> None:
    assert news({}, [at(RunState.FAILED)]) == []
    assert told(at(RunState.IDLE, unreadable="Permission denied"), at(RunState.STOPPED)) == []


def test_a_loss_that_is_no_number_any_more_is_told_once_whatever_the_state() -> None:
    assert told(at(RunState.RUNNING), at(RunState.RUNNING, None)) == [Event.NAN]
    assert told(at(RunState.RUNNING, None), at(RunState.RUNNING, None)) == []
    assert told(at(RunState.RUNNING), at(RunState.FAILED, None)) == [Event.FAILED, Event.NAN]
    good = at(RunState.RUNNING, losses=(LossPoint(step=1, loss=2.0),))
    bad = at(RunState.RUNNING, losses=(LossPoint(step=1, loss=2.0), LossPoint(step=2, loss=None, is_no_number=True)))
    assert told(good, bad) == [Event.NAN] and told(bad, good) == []


def test_a_resume_that_does_not_carry_on_is_told() -> None:
    def proved(verdict: Outcome) -> Run:
        return at(RunState.RUNNING, proof=Proof(verdict=verdict, words="jumped: loss 2.1 → 5.7"))

    assert told(proved(Outcome.NOT_YET), proved(Outcome.JUMPED)) == [Event.JUMPED]
    assert told(proved(Outcome.NOT_YET), proved(Outcome.CARRIES_ON)) == []
