"""What is shown before the watcher is there: names, what the newest checkpoints hold, then states."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lavender_tui.tui import first_look
from lavender_tui.tui.first_look import LOOK, NAMES, NEWEST, look, names_under, newest_of
from lavender_tui.tui.listing import ListRow
from lavender_tui.tui.widgets.run_table import run_cells
from lavender_tui.watch.index import Index
from tests.tui import runs
from tests.tui.conftest import Play, until_shown

FIRST, SECOND, EMPTY = (f"run-2026-04-2{day}_18-53-41" for day in (4, 5, 6))


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A run of three saves of which the newest is cut off, one of a single save, and one without any."""
    for count in (8, 9, 10):
        runs.save(tmp_path / FIRST, count, age_seconds=7200)
    (newest,) = (tmp_path / FIRST).glob("*-0010.pt")
    newest.write_bytes(newest.read_bytes()[:400])
    os.utime(newest, (1_700_000_000, 1_700_000_000))
    runs.save(tmp_path / SECOND, 1, age_seconds=7200)
    (tmp_path / EMPTY).mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read doesn't depend on how busy the machine is."""
    monkeypatch.setattr(first_look, "READING_SECONDS", 60.0)


def test_names_then_newest_checkpoints_then_states(two: Path) -> None:
    index = Index()
    names = names_under([str(two)])
    assert [run.name for run in names.runs] == [EMPTY, SECOND, FIRST] and all(run.is_unread for run in names.runs)
    newest = newest_of(names, index)
    assert NAMES == names.sequence < NEWEST == newest.sequence < LOOK
    counts = [run.newest.save_count if run.newest else None for run in newest.runs]
    assert counts == [None, 1, 9] and newest.changed == {str(two / SECOND), str(two / FIRST)}
    assert all(run.is_unread for run in newest.runs), "nothing of their states is known"
    reads = index.reads
    whole = look([str(two)], index)
    assert [run.newest.save_count if run.newest else None for run in whole.runs] == [None, 1, 9]
    assert not any(run.is_unread for run in whole.runs) and whole.sequence == LOOK
    assert index.reads == reads, "what was read is remembered"


async def test_a_fault_of_its_own_is_told_where_the_runs_would_stand(
    play: Play, two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ValueError("what nobody thought of")

    monkeypatch.setattr(first_look, "look", broken)
    async with play(two, complete=False) as pilot:
        await until_shown(pilot, "ValueError: what nobody thought of")


def test_a_row_whose_state_is_not_known_says_what_is_known(two: Path) -> None:
    newest = newest_of(names_under([str(two)]), Index())
    at = newest.runs[1].newest
    assert at is not None
    cells = run_cells(ListRow(newest.runs[1]), at.facts.mtime_ns / 1e9 + 7200)
    assert (cells["state"].text, cells["left"].text) == ("…", "…"), "whether anything is left its state would say"
    assert (cells["stage"].text, cells["saves"].text, cells["saved"].text) == ("pretrain", "0001", "2 h ago")
    waiting = run_cells(ListRow(newest.runs[0]), 0.0)
    assert waiting["stage"].text == waiting["state"].text == "…" and "saved" not in waiting


def test_a_slow_disk_holds_nothing_up(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_look, "READING_SECONDS", 0.0)
    names = names_under([str(two)])
    newest = newest_of(names, Index())
    assert newest.runs == names.runs and not newest.changed
