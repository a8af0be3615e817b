"""Whether a resumed run carried on: the words on the screens, and one curve through a family of runs."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.model.proof import Finding, Outcome, Proof
from lavender_tui.model.run import LiveProcess, LossPoint, Run, RunState
from lavender_tui.tui.facts import fact_lines
from lavender_tui.tui.listing import ListRow
from lavender_tui.tui.outlook import follower_lines, outlook
from lavender_tui.tui.proof_words import proof_line
from lavender_tui.tui.widgets.run_table import run_cells
from tests.model.build import checkpoint, run
from tests.tui import runs
from tests.tui.conftest import LARGE, Play, press, text_of, until, until_shown

OLD = "run-2026-04-24_18-53-41"
ALIVE = (LiveProcess(pid=1, start_ticks=1, role="worker"),)


def proved(verdict: Outcome, words: str, *evidence: Finding) -> Run:
    return run(
        "r", checkpoint(1), state_reason="1 live process", proof=Proof(verdict=verdict, words=words, evidence=evidence)
    )


def line(spans) -> str:
    return "".join(words for words, _ in spans)


@pytest.mark.parametrize(
    ("verdict", "words", "shown", "mark", "why"),
    [
        (Outcome.CARRIES_ON, "carries on", "✓ carried on", ": carried on ✓", "carried on ✓  1 live process"),
        (Outcome.JUMPED, "loss 2.1 → 4.4", "✗ jumped: loss 2.1 → 4.4", ": jumped ✗", "✗ jumped: loss 2.1 → 4.4"),
        (
            Outcome.WRONG_START,
            "epoch 1, not 2",
            "✗ wrong start: epoch 1, not 2",
            ": wrong start ✗",
            "✗ wrong start: epoch 1, not 2",
        ),
        (Outcome.NOT_YET, "not yet: no step is logged", None, "idle", "1 live process"),
    ],
)
def test_a_verdict_is_said_in_the_pane_and_in_the_row(verdict, words, shown, mark, why) -> None:
    one = proved(verdict, words)
    said = [line(spans) for spans in outlook(one)]
    assert (said[0] == shown) if shown else not any("carries on" in each for each in said)
    assert line(follower_lines([one])[0]).endswith(mark)
    assert run_cells(ListRow(one), 0.0)["why"].text == why


def test_a_living_run_carries_on_and_an_ended_one_carried_on() -> None:
    ended = proved(Outcome.CARRIES_ON, "carries on")
    alive = replace(ended, processes=ALIVE)
    assert (line(outlook(ended)[0]), line(outlook(alive)[0])) == ("✓ carried on", "✓ carries on")
    assert line(follower_lines([ended])[0]).endswith(": carried on ✓")
    assert line(follower_lines([alive])[0]).endswith(": carries on ✓")


def test_a_living_run_says_that_the_verdict_will_come() -> None:
    one = replace(proved(Outcome.NOT_YET, "not yet: 2 of 5 steps logged"), processes=ALIVE)
    assert line(outlook(one)[0]) == "… whether it carries on: not yet: 2 of 5 steps logged"


def test_a_run_that_starts_says_that_waiting_is_right() -> None:
    one = replace(
        proved(Outcome.NOT_YET, "not yet: no step is logged"), processes=ALIVE, state=RunState.RUNNING, losses=(),
        newest=None, checkpoints=(), world_size=4, started_at=1_000.0,
    )  # fmt: skip
    assert line(proof_line(one, 1_003.4)) == "… starting for 3 s, 0 of 4 ranks alive: wait for its first steps"
    worker = LiveProcess(pid=11, start_ticks=1, role="worker", rank=2, world_size=4)
    assert "1 of 4 ranks alive" in line(proof_line(replace(one, processes=(*ALIVE, worker)), 1_003.4))
    assert "starting" not in line(proof_line(replace(one, losses=(LossPoint(step=1, loss=2.0),)), 1_003.4))
    assert "starting" not in line(proof_line(replace(one, state=RunState.STALLED), 1_003.4))
    assert line(proof_line(one, 1_300.0)) == "… no step is logged after 5 min, 0 of 4 ranks alive"
    [first, began] = [line(spans) for spans in outlook(replace(one, started_at=time.time() - 5))]
    assert first.startswith("… starting for ") and began.startswith("nothing logged yet"), "said once"
    alone = replace(one, proof=None, started_at=time.time() - 5)
    assert ", 0 of 4 ranks alive: wait for its first steps" in line(outlook(alone)[0])


def test_the_page_lists_every_comparison() -> None:
    found = [Finding(id=str(agrees), agrees=agrees, what=f"it is {agrees}") for agrees in (True, False, None)]
    lines = [line(spans) for spans in fact_lines(proved(Outcome.CARRIES_ON, "carries on", *found), 0.0)]
    assert lines[-3:] == ["✓ it is True", "✗ it is False", "? it is None"]


async def test_one_curve_goes_through_the_family(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    saved = runs.save(root / OLD, 5, each=100)  # at step 50
    runs.metrics(root / OLD, [4.0, 3.9, 3.8, 3.7, 3.6, 3.5, 3.4])  # steps 10 … 70: two of them are not in the weights
    new = root / "run-2026-04-25_09-12-07"
    runs.launched(new, ["python"], source=root / OLD, checkpoint=saved)
    with (new / "metrics.jsonl").open("w") as file:
        for step in range(60, 160, 10):
            file.write(json.dumps({"step": step, "loss": 3.0}) + "\n")
    async with play(root, size=LARGE) as pilot:
        pilot.app.screen.go_to_run(str(new))
        await until(pilot, lambda: pilot.app.screen.cursor_run.path == str(new), "the cursor")
        await press(pilot, "enter")
        await until_shown(pilot, "15 points")
        assert "┊ resumed at 50, 2 runs" in text_of(pilot.app)
