"""A run's page at any size: nothing of it is scrolled away, and the checkpoints keep their lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.tui.page_layout import ROWS_LEAST, heights, outlook_alone
from tests.tui import runs
from tests.tui.conftest import SMALL, Play, lines_of, press, text_of, until, until_shown

FAILED = "run-2026-04-24_18-53-41"


@given(st.integers(1, 200), st.integers(0, 40), st.integers(0, 500), st.none() | st.integers(0, 500))
def test_the_parts_fit_and_leave_the_checkpoints_their_lines(height, outlook, checkpoints, splits) -> None:
    fitted = heights(height, outlook=outlook, checkpoints=checkpoints, splits=splits)
    parts = fitted.plot + fitted.outlook + fitted.data
    assert min(fitted.plot, fitted.outlook, fitted.data) >= 0
    assert parts == 0 or 3 + parts + 2 + min(max(1, checkpoints), ROWS_LEAST) <= height


def test_the_plot_goes_first() -> None:
    roomy, low = heights(40, outlook=4, checkpoints=50, splits=8), heights(24, outlook=4, checkpoints=50, splits=8)
    assert roomy.plot >= 9 and roomy.data == 10
    assert low.plot == 0 and low.outlook >= 4 and low.data >= 3


def test_on_a_low_terminal_the_words_are_whole_and_facts_stay_in_sight() -> None:
    assert outlook_alone(24, 8) == 8
    assert outlook_alone(24, 40) == 13
    assert outlook_alone(9, 8) == 0


async def test_what_it_was_resumed_as_stands_on_the_smallest_overview(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    saved = runs.save(root / FAILED, 6)
    runs.ended(root / FAILED, code=1, error="RuntimeError: CUDA error: " + "uncorrectable ECC error " * 3)
    new = root / "run-2026-04-25_09-12-07"
    runs.launched(root / FAILED, ["python"])
    runs.launched(new, ["python"], source=root / FAILED, checkpoint=saved)
    async with play(root, size=SMALL) as pilot:
        pilot.app.screen.go_to_run(str(root / FAILED))
        await until(pilot, lambda: pilot.app.screen.cursor_run.path == str(root / FAILED), "the cursor")
        await press(pilot, "enter")
        await until_shown(pilot, f"resumed as {new.name}")
        assert "world_size 4 →" in text_of(pilot.app)


@pytest.mark.parametrize("size", [SMALL, (200, 60)], ids=str)
async def test_facts_that_go_on_below_say_so_and_how_to_get_there(
    play: Play, tmp_path: Path, size: tuple[int, int]
) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 6, model_cfg={f"long{'er' * (number % 7)}_{number:02}": 1234 for number in range(60)})
    async with play(root, size=size) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "more lines below: " + ("j" if size == SMALL else "→ then j"))
        assert len({line.index("1234") for line in lines_of(pilot.app) if "1234" in line}) == 1
        await press(pilot, "right", "G")
        await until(pilot, lambda: "longererer_59" in text_of(pilot.app), "the last setting")
        assert "below: " not in text_of(pilot.app)


@pytest.mark.parametrize("size", [(100, 30), (120, 30), (60, 15), (80, 24), (200, 60)], ids=str)
async def test_the_page_opens_at_its_head_and_stays_there(play: Play, tmp_path: Path, size: tuple[int, int]) -> None:
    root = tmp_path / "checkpoints"
    for count in range(1, 11):
        runs.save(root / FAILED, count, each=10 * count, age_seconds=60 * (11 - count))
    runs.metrics(root / FAILED, runs.falling(300))
    async with play(root, size=size) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "resumes from pretrain 0010")
        for key in (None, "G", "g", "pagedown", "home", "2", "end", "3", "4", "5", "7", "1"):
            if key is not None:
                await press(pilot, key)
            if pilot.app.screen.query_one("#checkpoints").display:
                least = min(ROWS_LEAST, size[1] - 9)
                await until(pilot, lambda least=least: text_of(pilot.app).count("✓ whole") >= least, str(key))
            lines = lines_of(pilot.app)
            assert FAILED in lines[0] and "1 Over" in lines[1] and "esc back" in lines[-1], key
            assert pilot.app.screen.scroll_offset.y == 0
        await pilot.resize_terminal(60, 15)
        await until(pilot, lambda: "LOSS  " not in text_of(pilot.app), "the plot gone")
        assert FAILED in lines_of(pilot.app)[0]
