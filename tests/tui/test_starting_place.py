"""Where the cursor stands when the app opens, and after a launch."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.tui.widgets.run_table import RunTable
from tests.tui import runs
from tests.tui.conftest import SMALL, Play, press, until, until_shown

HOUR = 3600.0


def name(number: int) -> str:
    return f"run-2026-04-{number:02d}_10-00-00"


def chain(root: Path, numbers: list[int], *, failed_ago: float, saves: bool = True) -> None:
    """Runs, each resumed from the one before; all have failed, the last one so long ago (seconds)."""
    source = None
    for place, number in enumerate(numbers):
        run, ago = root / name(number), failed_ago + (len(numbers) - 1 - place) * HOUR
        if saves:
            runs.save(run, 1, each=2 * place + 2, age_seconds=ago + 60)
        runs.launched(run, runs.script(root.parent), source=source, ago=ago + 600)
        runs.ended(run, code=1, ago=ago)
        source = run


async def opened_on(play: Play, root: Path, size: tuple[int, int] = SMALL) -> str:
    async with play(root, size=size, as_opened=True) as pilot:
        return Path(str(pilot.app.screen.query_one(RunTable).cursor_key)).name


async def test_on_the_tip_of_a_chain_and_not_at_its_root(play: Play, tmp_path: Path) -> None:
    chain(tmp_path / "runs", [1, 2, 3, 4], failed_ago=90 * HOUR)
    assert await opened_on(play, tmp_path / "runs") == name(4)


async def test_on_what_failed_today_rather_than_on_what_is_newer_and_well(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    chain(root, [1, 2], failed_ago=2 * HOUR)
    runs.save(root / name(9), 7, complete=True, stage="final", each=None)
    assert await opened_on(play, root) == name(2)


@pytest.mark.parametrize("reason", ["long ago", "nothing saved", "resumed"])
async def test_on_the_newest_where_nothing_needs_a_hand(play: Play, tmp_path: Path, reason: str) -> None:
    root = tmp_path / "runs"
    chain(root, [1, 2], failed_ago=30 * HOUR if reason == "long ago" else HOUR, saves=reason != "nothing saved")
    runs.save(root / name(9), 7, complete=True, stage="final", each=None)
    if reason == "resumed":
        runs.launched(root / name(9), ["true"], source=root / name(2))
    assert await opened_on(play, root) == name(9)


async def test_the_list_is_not_scrolled_away_for_it(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    chain(root, [1], failed_ago=HOUR)
    for number in range(2, 29):
        (root / name(number)).mkdir()
    assert await opened_on(play, root) == name(28)
    assert await opened_on(play, root, (120, 60)) == name(1)


async def test_it_stays_where_a_person_has_put_it(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    chain(root, [1, 2, 3], failed_ago=HOUR)
    async with play(root, complete=False, as_opened=True) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        await until(pilot, lambda: len(table.keys) == 3, "names")
        await press(pilot, "G", "k")
        under = table.cursor_key
        await until(pilot, lambda: pilot.app.snapshot.is_complete, "all of it")
        runs.save(root / name(20), 1)
        await until(pilot, lambda: len(table.keys) == 4, "another run")
        assert table.cursor_key == under


async def test_a_key_that_moves_nothing_is_a_hand_all_the_same(play: Play, tmp_path: Path) -> None:
    chain(tmp_path / "runs", [1], failed_ago=HOUR)
    async with play(tmp_path / "runs", as_opened=True) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        before = table.cursor_key
        assert not table.was_touched
        await press(pilot, "g")
        assert table.was_touched and table.cursor_key == before


async def test_after_a_launch_it_is_on_the_launched_run(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    chain(root, [1, 2], failed_ago=HOUR)
    async with play(root, as_opened=True) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        before = set(table.keys)
        assert table.cursor_key == str(root / name(2))
        await press(pilot, "R")
        await until(pilot, lambda: table.cursor_key not in before, "the cursor on the launched run", 60)
        run = table.cursor_run
        assert run is not None and run.resumed_from is not None and run.resumed_from.run == str(root / name(2))
        await until(pilot, lambda: table.cursor_run.is_alive, "its process")
        await press(pilot, "x")
        await until_shown(pilot, "SIGTERM")
        await press(pilot, "y")
        await until(pilot, lambda: not table.cursor_run.is_alive, "its end", 60)
