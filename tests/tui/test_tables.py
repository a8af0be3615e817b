"""What a line of either table says: times that no clock set, files that aren't read yet, runs that saved nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from lavender_tui.model.proof import Begin
from lavender_tui.model.run import EndFacts, Lineage, LiveProcess, LossPoint, Run
from lavender_tui.tui import ages
from lavender_tui.tui.facts import fact_lines
from lavender_tui.tui.listing import ListRow
from lavender_tui.tui.outlook import outlook
from lavender_tui.tui.widgets.checkpoint_table import checkpoint_cells
from lavender_tui.tui.widgets.line_table import Cell
from lavender_tui.tui.widgets.run_table import run_cells
from tests.model.build import checkpoint, run

NOW = 1_800_000_000.0
SOURCE = "/runs/run-2026-04-24_18-53-41"


def saved(moment: float, **fields) -> Checkpoint:
    one = checkpoint(**fields)
    return replace(one, facts=replace(one.facts, mtime_ns=int(moment * 1e9)))


def unread(count: int = 7) -> Checkpoint:
    return checkpoint(
        count, wholeness=Wholeness.UNREAD, reason="not read yet", stage=None, save_count=None, epoch=None, epochs=None,
        loss=None, has_model=False,
    )  # fmt: skip


def words(lines) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def facts(of: Run) -> dict[str, str]:
    return {line[:13].strip(): line[13:] for line in words(fact_lines(of, NOW))}


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        (0.0, "clock differs"),
        (364 * 86_400.0, "clock differs"),
        (NOW + 3, "clock differs"),
        (NOW + 1.5, "now"),
        (NOW, "now"),
        (NOW - 240, "4 min ago"),
        (400 * 86_400.0, "20433 d ago"),
    ],
)
def test_a_time_that_no_clock_of_ours_set_is_called_so_everywhere(moment: float, shown: str) -> None:
    one = saved(moment)
    assert checkpoint_cells(one, False, NOW)["saved"].text == shown
    assert run_cells(ListRow(run("r", one)), NOW)["saved"].text == ("<1 min ago" if shown == "now" else shown)
    assert facts(run("r", one))["last save"] == shown


def test_the_words_for_an_odd_clock_fit_and_warn() -> None:
    cell = checkpoint_cells(saved(0.0), False, NOW)["saved"]
    assert cell.ink == "warn" and len(cell.text) <= ages.CLOCK_WIDTH


def test_the_watchers_own_time_of_the_last_save_is_taken_first() -> None:
    assert run_cells(ListRow(run("r", saved(0.0), last_save_at=NOW - 60)), NOW)["saved"].text == "1 min ago"


def test_what_only_time_changes_changes_seldom() -> None:
    """In the list at most once a minute, else every ten seconds; an age is never more than it says."""
    listed = [ages.minutes_since(NOW, NOW + seconds) for seconds in range(300)]
    assert listed[0] == listed[59] == "<1 min ago" and listed[60] == listed[119] == "1 min ago"
    assert len(set(listed)) == 5 and max(map(len, listed)) <= ages.AGE_WIDTH
    single = [ages.since(NOW, NOW + seconds) for seconds in range(61)]
    assert single[0] == single[9] == "now" and single[10] == single[19] == "10 s ago"
    assert single[59] == "50 s ago" and single[60] == "1 min ago"
    for moment in (None, 0.0, NOW + 1.0, NOW + 60):
        assert ages.minutes_since(moment, NOW) in (ages.since(moment, NOW), "<1 min ago")


@pytest.mark.parametrize(("seconds", "shown"), [(None, "–"), (0.0, "–"), (0.4, "–"), (1.0, "1 s"), (660.0, "11 min")])
def test_an_interval_below_a_second_is_none(seconds: float | None, shown: str) -> None:
    assert facts(run("r", save_interval_seconds=seconds))["saves every"] == shown


def test_a_file_that_is_not_read_yet_is_quiet_and_not_bad() -> None:
    cells = checkpoint_cells(unread(), False, NOW)
    assert cells["whole"] == Cell("… not read yet", "quiet")
    assert all(cells[key] == Cell("…", "faint") for key in ("epoch", "step", "loss", "ranks"))
    assert cells["why"].text == "" and cells["save"].text == "0007"


def test_a_run_whose_files_are_not_read_yet_is_known_by_their_names() -> None:
    pending = run("r", unread(6), unread(7), newest=None)
    cells = run_cells(ListRow(pending), NOW)
    assert (cells["stage"].text, cells["saves"].text) == ("pretrain", "0007")
    assert all(cells[key] == Cell("…", "faint") for key in ("epoch", "loss", "left"))
    assert words(outlook(pending)) == ["reading its checkpoints …"]
    older = run("r", checkpoint(6), unread(7))
    assert words(outlook(older)) == ["reading its checkpoints …"], "the newer one may be the one to resume from"


@pytest.mark.parametrize(
    ("name", "stage", "began"),
    [
        ("sft-18-53-41-0060.pt", "sft", "sft 0060 of run-2026-04-24_18-53-41"),
        ("checkpoint-500", "–", "checkpoint-500 of run-2026-04-24_18-53-41"),
        (None, "–", "run-2026-04-24_18-53-41"),
    ],
)
def test_a_resumed_run_without_a_save_says_what_it_began_from(name: str | None, stage: str, began: str) -> None:
    source = Lineage(run=SOURCE, checkpoint=f"{SOURCE}/{name}" if name else None)
    new = run("r", resumed_from=source, losses=(LossPoint(step=1, loss=2.5),))
    cells = run_cells(ListRow(new), NOW)
    assert (cells["stage"].text, cells["epoch"].text, cells["loss"].text) == (stage, "–", "2.5000")
    assert words(outlook(new)) == [f"nothing saved yet; r resumes again from {began}"]


@pytest.mark.parametrize(
    ("how", "saved_ago", "begins"),
    [
        ("graceful", 900.0, "once it has ended, r resumes from its newest save, so far pretrain 0007  whole"),
        ("graceful", 1.0, "once it has ended, r resumes from pretrain 0007  whole"),
        ("kill", 900.0, "once it has ended, r resumes from pretrain 0007  whole"),
    ],
)
def test_of_a_run_that_is_stopping_it_says_what_can_be_done_then(how: str, saved_ago: float, begins: str) -> None:
    alive = (LiveProcess(pid=1, start_ticks=1, role="worker"),)
    end = EndFacts(stop_requested=True, stop_how=how, stop_asked_at=NOW - 5)
    one = run("r", saved(NOW - saved_ago, save_count=7), processes=alive, end=end, begin=Begin())
    first = words(outlook(one))[0]
    assert first.startswith(begins) and "x " not in first
    assert words(outlook(replace(one, end=None)))[0].startswith("x stops it; then r resumes from pretrain 0007")
    quiet = words(outlook(one, readonly=True))[0]
    assert quiet == first.replace("r resumes", "a resume starts")
    empty = run("r", processes=alive, end=end, resumed_from=Lineage(run=SOURCE), losses=(LossPoint(step=1, loss=2.5),))
    assert words(outlook(empty))[0].startswith("nothing saved yet; once it has ended, r resumes again from run-2026-")


def test_rank_states_that_do_not_fit_promise_no_start() -> None:
    states = replace(checkpoint().rank_states, found=2, expected=2, num_splits=4, problems=("rank 1 has 8",))
    lines = words(outlook(run("r", checkpoint(rank_states=states))))
    assert "its rank states can't be merged: rank 1 has 8" in lines[1]
    assert not any("starts at" in line for line in lines)
