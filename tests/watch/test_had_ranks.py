"""Torchrun is seen alone: whether it has had ranks is told by what was written since it began, or by what was seen."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lavender_tui.launch.identity import start_ticks, started_at
from lavender_tui.model.run import LiveProcess, RunState
from lavender_tui.watch.assemble import assemble
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import list_run
from lavender_tui.watch.records import read_papers
from lavender_tui.watch.standing import Observed
from lavender_tui.watch.survey import Survey
from tests.watch import saves
from tests.watch.saves import RUN

AGENT = LiveProcess(pid=6, start_ticks=1, role="agent")
BEGAN = started_at(AGENT.start_ticks)
GONE = "its ranks are gone; torchrun hasn't ended yet"
NOT_SEEN = "no rank is seen yet"


def reason(run: Path, observed: Observed) -> str:
    index, listing = Index(), list_run(str(run))
    found = assemble(
        listing, str(run.parent), read_papers(listing, index), index=index, observed=observed, now=time.time()
    )
    assert found is not None and found.state is RunState.RUNNING
    return found.state_reason


@pytest.mark.parametrize(
    ("saved_at", "searched_at", "words"),
    [
        (10.0, 11.0, GONE),  # seconds after it began
        (10.0, 9.0, NOT_SEEN),  # a rank that no search has found yet may have written it
        (10.0, None, NOT_SEEN),
        (-10.0, 11.0, NOT_SEEN),  # another start's, in the same directory
    ],
)
def test_what_was_saved_since_torchrun_began_is_of_ranks_that_it_had(
    tmp_path: Path, saved_at: float, searched_at: float | None, words: str
) -> None:
    saves.save(tmp_path / RUN, 1, mtime=BEGAN + saved_at)
    searched = None if searched_at is None else BEGAN + searched_at
    assert reason(tmp_path / RUN, Observed(processes=(AGENT,), searched_at=searched)) == words
    assert reason(tmp_path / RUN, Observed(processes=(AGENT,), searched_at=searched_at, had_ranks=True)) == GONE


def test_a_step_tells_of_ranks_before_the_first_save(tmp_path: Path) -> None:
    run = tmp_path / RUN
    run.mkdir()
    assert reason(run, Observed(processes=(AGENT,), searched_at=BEGAN + 11.0)) == "starting"
    (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    os.utime(run / "metrics.jsonl", (BEGAN + 10.0, BEGAN + 10.0))
    assert reason(run, Observed(processes=(AGENT,), searched_at=BEGAN + 11.0)) == GONE


def test_ranks_that_were_seen_count_for_the_very_torchrun_that_led_them(tmp_path: Path) -> None:
    saves.save(tmp_path / RUN, 1, mtime=BEGAN - 10.0)
    path, survey = str(tmp_path / RUN), Survey([str(tmp_path)], Index())
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    agent = LiveProcess(pid=os.getpid(), start_ticks=ticks, role="agent")
    rank = LiveProcess(pid=os.getpid(), start_ticks=ticks, role="worker", rank=0, world_size=1)
    assert not survey._has_had_ranks(path, (agent,))
    assert survey._has_had_ranks(path, (agent, rank))
    assert survey._has_had_ranks(path, (agent,))
    assert not survey._has_had_ranks(path, (AGENT,))
