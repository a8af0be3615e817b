"""Pages on terminals that are too low for all of their parts: the keys stay, then the row that a key would act on."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.tui.screens.disk import DiskScreen
from lavender_tui.tui.widgets.disk_tables import CostTable
from tests.tui.conftest import Play, lines_of, press, text_of, until, until_shown

LOW = [(40, 10), (20, 5)]
FAILED = "run-2026-04-24_18-53-41"
PAGES = {
    "list": ((), "▌"),
    "overview": (("enter",), "path"),
    "checkpoints": (("enter", "2"), "▌"),
    "curve": (("enter", "3"), "loss"),
    "processes": (("enter", "5"), "PROCESS"),
    "history": (("enter", "7"), "▌"),
    "log": (("l",), "line 39"),
    "sheet": (("r",), "ready: "),
    "disk": (("D",), "▌run-"),
    "tree": (("enter", "2", "enter"), "▌"),
    "comparison": (("space", "space", "c"), "compare"),
}


@pytest.fixture
def logged(root: Path) -> Path:
    (root / FAILED / "train.log").write_text("".join(f"line {number}\n" for number in range(40)))
    return root


@pytest.mark.parametrize("size", LOW, ids=str)
@pytest.mark.parametrize("page", PAGES)
async def test_the_keys_have_the_last_line_and_the_cursors_row_is_seen(
    play: Play, logged: Path, page: str, size: tuple[int, int]
) -> None:
    keys, shown = PAGES[page]
    async with play(logged, size=size) as pilot:
        await press(pilot, *keys)
        await until_shown(pilot, shown)
        last = lines_of(pilot.app)[-1]
        assert "? help  q quit" in last and pilot.app.screen.max_scroll_y == 0


async def test_a_run_is_under_the_cursor_of_the_disk_page_whatever_the_focus_was_on(play: Play, root: Path) -> None:
    async with play(root, size=(120, 40)) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "of checkpoints")
        await press(pilot, "tab", "j")
        assert isinstance(pilot.app.screen, DiskScreen)
        for size in ((40, 10), (20, 5), (120, 40)):
            await pilot.resize_terminal(*size)
            await until(pilot, lambda size=size: len(lines_of(pilot.app)) == size[1], "the other size")
            await until(pilot, lambda: isinstance(pilot.app.screen.focused, CostTable), "the focus")
            before = pilot.app.screen.query_one(CostTable).cursor_index
            await press(pilot, "j")
            assert pilot.app.screen.query_one(CostTable).cursor_index == before + 1


async def test_where_no_curve_has_room_that_is_said(play: Play, root: Path) -> None:
    async with play(root, size=(40, 8)) as pilot:
        await press(pilot, "enter", "3")
        await until_shown(pilot, "too low for a curve: make it higher")
        await pilot.resize_terminal(40, 10)
        await until(pilot, lambda: "┤" in text_of(pilot.app), "the curve")
        assert "too low" not in text_of(pilot.app)
