"""Marked runs side by side."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lavender_tui.model.compare import Line, Section
from lavender_tui.tui.screens.compare import CompareScreen, section_lines, telling
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.watch import all_metrics
from tests.model.build import run
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
    days = ("run-2026-11-29_00-00-00", "run-2026-11-30_00-00-00", "run-2026-11-30_05-00-00")
    assert len(set(telling(days, 8))) == 3
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


FIRST, SECOND = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07"
BOTH = ("slash", *"run:04-2", "enter", "space", "space", "c")


def log(root: Path, name: str, **told: Callable[[int], float]) -> None:
    lines = [
        json.dumps({"step": step, "loss": 2.0, **{key: of(step) for key, of in told.items()}}) for step in range(1, 31)
    ]
    (root / name / "metrics.jsonl").write_text("".join(line + "\n" for line in lines))


async def test_what_is_being_read_says_so_and_each_run_is_there_as_soon_as_it_is_read(
    play: Play, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (FIRST, SECOND):
        log(root, name, gain=lambda step: step)
    turns = [threading.Semaphore(0) for _ in range(2)]
    read = all_metrics.Reader.read

    def slow(reader: all_metrics.Reader, *args: Callable[[], bool]) -> object:
        if waits:
            waits.pop(0).acquire(timeout=30)
        return read(reader, *args)

    waits = list(turns)
    monkeypatch.setattr(all_metrics.Reader, "read", slow)
    async with play(root, size=LARGE) as pilot:
        try:
            await press(pilot, *BOTH)
            await until_shown(pilot, "LOSS  by step   reading…")
            await press(pilot, "m")
            await until_shown(pilot, "what else was logged is still being read")
            turns[0].release()
            await until_shown(pilot, "LOSS  by step   metric 1 of 2   reading…")
            assert "metrics at step 30" in text_of(pilot.app)
            await press(pilot, "m")
            await until_shown(pilot, "gain  by step   metric 2 of 2   reading…")
        finally:
            turns[0].release()
            turns[1].release()
        await until_shown(pilot, "gain at the same step")
        assert "reading…" not in text_of(pilot.app)


async def test_a_lone_metric_says_that_it_is_one(play: Play, root: Path) -> None:
    for name in (FIRST, SECOND):
        log(root, name)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, *BOTH)
        await until(pilot, lambda: "LOSS" in text_of(pilot.app) and "reading" not in text_of(pilot.app), "all is read")
        await press(pilot, "m")
        await until_shown(pilot, "nothing but the loss was logged")


async def test_what_the_plot_leaves_out_is_told(play: Play, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(root, FIRST, gain=lambda step: 1e305 if step > 28 else step, low=lambda step: -step)
    log(root, SECOND, gain=lambda step: step, low=lambda step: -step)
    size = (root / FIRST / "metrics.jsonl").stat().st_size
    with (root / SECOND / "metrics.jsonl").open("r+") as file:
        text = file.read()
        file.seek(0)
        file.write("\n" * size + text)
    monkeypatch.setattr(all_metrics, "MOST_BYTES", size)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, *BOTH)
        await until_shown(pilot, "metric 1 of 3")
        await press(pilot, "m")
        await until_shown(pilot, "metric 2 of 3   2 points can't be drawn")
        await until_shown(pilot, "from step")
        place = next(at for at, one in enumerate(pilot.app.screen._runs) if one.name == SECOND)
        assert f"{'AB'[place]} from step" in text_of(pilot.app)
        assert f"{'BA'[place]} from step" not in text_of(pilot.app)
        await press(pilot, "m", "o")
        await until_shown(pilot, "points can be drawn on a log scale")


async def test_metrics_that_are_left_out_are_counted(play: Play, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(root, FIRST, gain=lambda step: step, low=lambda step: -step, high=lambda step: step + 1)
    log(root, SECOND, gain=lambda step: step)
    monkeypatch.setattr(all_metrics, "MOST_METRICS", 2)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, *BOTH)
        await until_shown(pilot, "metric 1 of 2")
        place = next(at for at, one in enumerate(pilot.app.screen._runs) if one.name == FIRST)
        await until_shown(pilot, f"{'AB'[place]}: 2 metrics left out")
        await press(pilot, "m")
        await until_shown(pilot, f"{'AB'[place]}: 2 metrics left out")
        assert f"{'BA'[place]}: " not in text_of(pilot.app)


async def test_a_runs_own_page_counts_them_too(play: Play, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log(root, FIRST, gain=lambda step: step, low=lambda step: -step, high=lambda step: step + 1)
    monkeypatch.setattr(all_metrics, "MOST_METRICS", 2)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "slash", *f"run:{FIRST[4:]}", "enter", "enter", "3")
        await until_shown(pilot, "metric 1 of")
        await until_shown(pilot, "2 metrics left out")


@pytest.mark.parametrize("width", [40, 78, 79, 118])
@pytest.mark.parametrize("count", [2, 5, 6])
def test_columns_never_wrap(width: int, count: int) -> None:
    marked = [run(f"run-2026-11-{day:02}_00-00-00") for day in range(1, count + 1)]
    lines = section_lines(
        [Section(title="runs", lines=(Line(name="state", values=("running " * 9,) * count),))], marked, width
    )
    shown = ["".join(words for words, _ in line) for line in lines]
    assert all(cell_len(line) <= width for line in shown if "wider" not in line)
    columns = sum(f"{letter} ○" in shown[0] for letter in "ABCDEF")
    names = shown[0].split("○")[1:]
    assert columns == len(names) == len({name[:-3] for name in names[:-1]} | {names[-1]})
    assert (columns == count) == ("on a wider screen" not in shown[1])
    assert columns == count or f"… and {count - columns} more" in shown[1]


async def test_the_columns_are_made_for_the_width_that_there_is(play: Play, root: Path) -> None:
    async with play(root, size=LARGE) as pilot:
        await press(pilot, *["space"] * 5, "c")
        await until_shown(pilot, "compare  5 runs")
        await pilot.resize_terminal(*SMALL)
        await until_shown(pilot, "… and 1 more on a wider screen (E)")
        table = pilot.app.screen.query_one("#sections")
        assert all(sum(cell_len(words) for words, _ in line) <= table.size.width for line in table._lines[:8])


async def test_a_deleted_run_is_no_longer_marked_and_stands_as_deleted(play: Play, root: Path) -> None:
    log(root, FIRST, gain=lambda step: step)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, *BOTH)
        await until_shown(pilot, "metric 1 of 2")
        (root / FIRST).rename(root.parent / "elsewhere")  # at once: else it is seen empty before it is gone
        await until_shown(pilot, "deleted")
        await press(pilot, "m")
        await until_shown(pilot, "gain  by step")
        await press(pilot, "escape")
        await until(pilot, lambda: len(pilot.app.screen.marked) == 1, "one mark")
        assert "◆ 1 marked" in text_of(pilot.app)
        await press(pilot, "c")
        await until_shown(pilot, "mark one more run with ␣ first")


async def test_hostile_names_are_text(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root, size=LARGE) as pilot:
        for _ in range(8):
            await press(pilot, "space")
        await press(pilot, "c")
        await until_shown(pilot, "the first 6 of those marked")
        assert all(line.isprintable() for line in text_of(pilot.app).split("\n"))
