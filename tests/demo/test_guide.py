"""What the demo says next follows what happened, and leaving it asks only while something would end by that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lavender_tui.demo import guide
from lavender_tui.model.proof import Outcome, Proof
from lavender_tui.model.run import EndFacts, Lineage, LiveProcess, Run, RunState, unread_run

LIVE = (LiveProcess(pid=7, start_ticks=1, role="agent"),)
FIRST = replace(
    unread_run("/d/run-2026-01-01_00-00-00", "/d"), format="lavender", state=RunState.RUNNING, processes=LIVE
)
DEAD = replace(FIRST, state=RunState.FAILED, processes=(), end=EndFacts(signal="SIGKILL", ended_at=1.0))
SECOND = replace(FIRST, path="/d/run-2026-01-02_00-00-00", resumed_from=Lineage(run=FIRST.path))


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ((), guide.BEGIN),
        ((unread_run("/d/run-2026-01-01_00-00-00", "/d"),), guide.BEGIN),
        ((FIRST,), guide.BEGIN),
        ((replace(FIRST, end=EndFacts(stop_requested=True)),), "It saves and ends, then r resumes it"),
        ((DEAD,), "r resumes it where it stopped"),
        ((replace(DEAD, state=RunState.STOPPED),), "r resumes it where it stopped"),
        ((replace(DEAD, state=RunState.FINISHED),), "It is through"),
        ((SECOND, DEAD), "Resumed: ⏎ opens its page"),
        ((replace(SECOND, proof=Proof(verdict=Outcome.NOT_YET, words="")), DEAD), "Resumed: "),
        ((replace(SECOND, processes=(), state=RunState.FAILED), DEAD), "r resumes it where it stopped"),
    ],
)
def test_the_hint_follows_what_happened(runs: tuple[Run, ...], words: str) -> None:
    assert guide.hint(runs).startswith(words)


@pytest.mark.parametrize(
    ("newest", "words"),
    [
        (SECOND, "Resumed as run-2026-01-02_00-00-00: on its row ⏎ opens its page"),
        (
            replace(SECOND, processes=(), state=RunState.STOPPED),
            "run-2026-01-02_00-00-00 ended: on its row r resumes",
        ),
        (replace(SECOND, end=EndFacts(stop_requested=True)), "run-2026-01-02_00-00-00 saves and ends; on its row r"),
        (replace(SECOND, processes=(), state=RunState.FINISHED), "run-2026-01-02_00-00-00 is through"),
        (replace(SECOND, resumed_from=None), "run-2026-01-02_00-00-00 trains: on its row x stops it"),
    ],
)
def test_with_the_cursor_on_another_run_it_names_the_one_that_it_speaks_of(newest: Run, words: str) -> None:
    newest = replace(newest, name="run-2026-01-02_00-00-00")
    assert guide.hint((newest, DEAD), DEAD).startswith(words)
    assert len(words) < 77, "whole at 80 columns"
    assert guide.hint((newest, DEAD), newest) == guide.hint((newest, DEAD))
    assert "run-" not in guide.hint((newest, DEAD), newest)


def test_it_is_gone_when_the_resumed_training_carries_on() -> None:
    carries_on = replace(SECOND, proof=Proof(verdict=Outcome.CARRIES_ON, words="carries on"))
    assert guide.hint((carries_on, DEAD)) == guide.hint((carries_on, DEAD), DEAD) == ""


def test_leaving_asks_while_something_lives() -> None:
    assert guide.leaving(()) == ("The demo's training ends with it; its files stay.", None)
    assert guide.leaving((DEAD,)) is None
    told = guide.leaving((SECOND, DEAD))
    assert told == ("The demo's training (run-2026-01-01_00-00-00) ends with it; its files stay.", SECOND.key)
    both = guide.leaving((SECOND, FIRST))
    assert both is not None and both[0] == "The demo's 2 trainings end with it; their files stay."
