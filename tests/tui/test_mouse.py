"""The mouse on the other pages: a click puts the cursor on a row, the wheel scrolls."""

from __future__ import annotations

from pathlib import Path

from textual import events
from textual.widget import Widget

from lavender_tui.tui.widgets.line_table import LineTable
from tests.tui.conftest import SMALL, Play, lines_of, press, until, until_shown


def place_of(lines: list[str], words: str) -> tuple[int, int]:
    """Where on the screen these words begin."""
    at = next(number for number, line in enumerate(lines) if words in line)
    return lines[at].index(words), at


def wheel(widget: Widget) -> None:
    """One notch down, over that widget."""
    x, y = widget.region.offset
    widget.post_message(events.MouseScrollDown(widget, 2, 2, 0, 1, 0, False, False, False, x + 2, y + 2))


async def test_in_the_keys_of_a_checkpoint(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "enter", "2", "enter")
        await until_shown(pilot, "optimizer_state_dict")
        table = pilot.app.screen.query_one(LineTable)
        await pilot.click(None, offset=place_of(lines_of(pilot.app), "optimizer_state_dict"))
        await until(
            pilot, lambda: any(line.startswith("▌") and "optimizer_state_dict" in line for line in lines_of(pilot.app))
        )
        before = table.cursor_key
        wheel(table)
        await until(pilot, lambda: table.scroll_offset.y > 0, "further down")
        assert table.cursor_key == before, "the wheel moves what is seen, not the cursor"


async def test_in_the_comparison(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "space", "space", "c")
        await until_shown(pilot, "compare  2 runs")
        differences = pilot.app.screen.query_one("#differences")
        await until(pilot, lambda: differences.max_scroll_y > 0, "more than there is room for")
        wheel(differences)
        await until(pilot, lambda: differences.scroll_offset.y > 0, "further down")


async def test_on_the_page_of_the_disk(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "D")
        await until_shown(pilot, "of each run and stage")
        name = "run-2026-04-25_09-12-07"
        await until_shown(pilot, name)
        await pilot.click(None, offset=place_of(lines_of(pilot.app), name))
        await until(pilot, lambda: any(line.startswith("▌") and name in line for line in lines_of(pilot.app)), name)
