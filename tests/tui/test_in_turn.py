"""Keys that are read at once, as over a slow line: each goes to whom those before it have led to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from lavender_tui.tui.widgets.run_table import RunTable
from tests.tui import runs
from tests.tui.conftest import LARGE, Play, press, quiet, text_of, until, until_shown

NAMES = {"/": "slash", "\n": "enter", " ": "space", "<": "less_than_sign"}


def read_at_once(pilot: Pilot[Any], typed: str) -> None:
    """As the terminal's thread does with what it has read."""
    for character in typed:
        pilot.app.post_message(events.Key(NAMES.get(character, character), character))


@pytest.fixture
def several(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    for number in range(3):
        runs.save(root / f"run-2026-03-0{number + 1}_00-00-00", 1, age_seconds=3600.0)
    return root


@pytest.mark.parametrize("typed", ["/S", "/xR", "/state", "/loss<2"])
async def test_what_follows_the_slash_is_the_filter(play: Play, several: Path, typed: str) -> None:
    async with play(several) as pilot:
        before = pilot.app.screen.view
        for _ in range(2):  # the line is made when it is first wanted
            read_at_once(pilot, typed)
            await until(pilot, lambda: pilot.app.screen.view.query == typed[1:], "the filter")
            await quiet(pilot)
            assert pilot.app.focused.value == typed[1:] and not pilot.app.screen.marked
            assert pilot.app.screen.view.sorting is before.sorting and not pilot.app.screen.view.is_reversed
            await press(pilot, "escape", "escape")
            assert pilot.app.screen.view == before


async def test_what_follows_the_filter_is_a_key_again(play: Play, several: Path) -> None:
    async with play(several) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        await until(pilot, lambda: len(table.keys) == 3, "three runs")
        await press(pilot, "g")
        read_at_once(pilot, "/run\njj/ 20\nk")
        await until(pilot, lambda: pilot.app.screen.view.query == "run 20" and pilot.app.focused is table, "the list")
        await quiet(pilot)
        assert table.cursor_index == 1


@pytest.mark.parametrize(("way", "ready", "typed"), [
    (("enter",), "1 Overview", "/dim"), (("enter", "enter"), "scheduler_state_dict", "/bias"), (("l",), "log", "/step"),
])  # fmt: skip
async def test_the_other_lines_take_what_follows_the_slash(
    play: Play, several: Path, way: tuple[str, ...], ready: str, typed: str
) -> None:
    async with play(several, size=LARGE) as pilot:
        await press(pilot, *way)
        await until_shown(pilot, ready)
        read_at_once(pilot, typed)
        await until(pilot, lambda: isinstance(pilot.app.focused, Input) and pilot.app.focused.value == typed[1:], typed)


async def test_a_key_whose_page_goes_does_not_hold_up_the_next(play: Play, several: Path) -> None:
    async with play(several) as pilot:
        read_at_once(pilot, "\n4")
        await until_shown(pilot, "4 Data]")
        pilot.app.post_message(events.Key("escape", None))
        read_at_once(pilot, "S")
        await until(pilot, lambda: pilot.app.screen.query(RunTable), "the list")
        await until(pilot, lambda: pilot.app.screen.view.is_reversed, lambda: text_of(pilot.app))


async def test_a_paste_after_the_slash_is_the_filter(play: Play, several: Path) -> None:
    async with play(several) as pilot:
        read_at_once(pilot, "/")
        pilot.app.post_message(events.Paste("state:idle"))
        await until(pilot, lambda: pilot.app.screen.view.query == "state:idle", "what was pasted")


async def test_a_second_enter_goes_to_the_page_that_the_first_has_led_to(play: Play, several: Path) -> None:
    async with play(several) as pilot:
        read_at_once(pilot, "\n\n")
        await until(
            pilot,
            lambda: [type(one).__name__ for one in pilot.app.screen_stack] == ["RunsScreen", "RunScreen", "TreeScreen"],
            "the run's page, then its checkpoint",
        )
