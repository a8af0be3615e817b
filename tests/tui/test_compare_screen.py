"""Marked runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lavender_tui.tui.screens.compare import CompareScreen, telling
from lavender_tui.tui.screens.runs import RunsScreen
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown


@pytest.mark.parametrize("size", [SMALL, (120, 40), LARGE], ids=str)
async def test_marked_runs_are_compared(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root, size=size) as pilot:
        assert pilot.app.screen.check_action("compare", ()) is False
        await press(pilot, "space", "space", "space")
        assert "◆" in text_of(pilot.app) and len(pilot.app.screen.marked) == 3
        await press(pilot, "c")
        await until(pilot, lambda: isinstance(pilot.app.screen, CompareScreen), "the comparison")
        await until_shown(pilot, "LOSS  by")
        shown = text_of(pilot.app)
        assert "3 runs" in shown and "A ✗" in shown and "B ■" in shown and "stage" in shown
        await press(pilot, "G", "g", "j", "k", "escape")
        assert isinstance(pilot.app.screen, RunsScreen) and len(pilot.app.screen.marked) == 3
        await press(pilot, "escape")
        assert not pilot.app.screen.marked


async def test_on_a_low_terminal_the_curves_have_room_and_the_table_scrolls(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "space", "space", "space", "c")
        await until(pilot, lambda: any("└──" in line for line in lines_of(pilot.app)), "the plot")
        assert sum("│" in line or "┤" in line for line in lines_of(pilot.app)) >= 8
        table = pilot.app.screen.query_one("#differences")
        assert table.size.height >= 9 and table.max_scroll_y > 0
        assert "j k scroll" in lines_of(pilot.app)[-1]
        await press(pilot, "ctrl+d")
        await until(pilot, lambda: table.scroll_offset.y == table.size.height // 2, "half a screen down")
        await press(pilot, "ctrl+u")
        await until(pilot, lambda: table.scroll_offset.y == 0, "half a screen up")
        await press(pilot, "G")
        await until(pilot, lambda: table.scroll_offset.y == table.max_scroll_y, "the end of the table")


def test_values_that_differ_look_different() -> None:
    tags = ("lavender-run-2026-11-30_02-40-26", "lavender-run-2026-11-30_02-44-13")
    assert len(set(telling(tags, 20))) == 2
    assert all(cell_len(shown) == 20 for shown in telling(tags, 20))
    assert telling(("same", ""), 6) == ["same  ", "–     "]


@given(
    st.text("ab", min_size=1, max_size=200),
    st.text("xy", max_size=200),
    st.text("ab", max_size=200),
    st.integers(8, 60),
)
def test_two_values_that_differ_anywhere_look_different(front: str, one: str, back: str, room: int) -> None:
    first, second = telling((front + one + back, front + "z" + back), room)
    assert first != second and cell_len(first) == cell_len(second) == room


async def test_it_is_live_and_copies_all_of_it(play: Play, root: Path) -> None:
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "space", "space", "c")
        await until_shown(pilot, "compare")
        runs.save(root / "run-2026-04-24_18-53-41", 61, loss=1.2345)
        await until_shown(pilot, "1.2345")
        await press(pilot, "y")
        assert "1.2345" in pilot.app.clipboard and "lowest loss" in pilot.app.clipboard


async def test_any_metric_is_drawn_and_compared_and_a_log_scale_leaves_out_what_has_none(
    play: Play, root: Path
) -> None:
    for name, rate in (("run-2026-04-24_18-53-41", 0.5), ("run-2026-04-25_09-12-07", 0.25)):
        with (root / name / "metrics.jsonl").open("a") as file:
            for step in range(1, 31):
                told = {"step": step, "loss": 2.0, "learning_rate": rate / step, "gain": step - 10}
                file.write(json.dumps(told) + "\n")
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "slash", *"run:04-2", "enter", "space", "space", "c")
        await until_shown(pilot, "metric 1 of 3")
        assert "metrics at step" in text_of(pilot.app) and "learning_rate" in text_of(pilot.app)
        await press(pilot, "M")
        await until_shown(pilot, "metric 3 of 3")
        assert "learning_rate at the same step" in text_of(pilot.app)
        await press(pilot, "o")
        await until_shown(pilot, "log scale   metric 3 of 3")
        await press(pilot, "M")
        await until_shown(pilot, "gain  by step   log scale")
        await press(pilot, "m", "m")
        await until_shown(pilot, "LOSS  by step   log scale   metric 1 of 3")


async def test_hostile_names_are_text(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root, size=LARGE) as pilot:
        for _ in range(8):
            await press(pilot, "space")
        await press(pilot, "c")
        await until_shown(pilot, "the first 6 of those marked")
        assert all(line.isprintable() for line in text_of(pilot.app).split("\n"))
