"""The log: long lines, empty files, and an end that is not what it looks like."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from lavender_tui.logs.pager import Page
from lavender_tui.model.log_text import Row
from lavender_tui.model.run import RunState
from lavender_tui.tui.screens.log import is_stop_of_torchrun
from lavender_tui.tui.widgets.log_view import LogView
from tests.model.build import run
from tests.tui.conftest import SMALL, Play, lines_of, press, text_of, until_shown

FAILED = "run-2026-04-24_18-53-41"
TORCHRUN = "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4711 got signal: 15"


async def test_long_lines_wrap_or_move_sideways(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text("short\n" + "x" * 100 + " the far end\n")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "xxxx")
        assert "the far end" not in text_of(pilot.app) and "w wrap" in text_of(pilot.app)
        await press(pilot, *["right"] * 6)
        assert "the far end" in text_of(pilot.app)
        await press(pilot, "w")
        await until_shown(pilot, "wrapped")
        assert "the far end" in text_of(pilot.app) and " short" in text_of(pilot.app)
        await press(pilot, "w")
        assert "the far end" not in text_of(pilot.app)


async def test_an_empty_file_says_so_until_something_comes(play: Play, root: Path) -> None:
    log = root / FAILED / "train.log"
    log.touch()
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "empty: nothing was written to it")
        with log.open("a") as file:
            file.write("epoch 1 begins\n")
        await until_shown(pilot, "epoch 1 begins")
        assert "empty:" not in text_of(pilot.app)


async def test_torchruns_own_traceback_is_named_as_such(play: Play, root: Path) -> None:
    stopped = root / "run-2026-04-25_09-12-07"
    (stopped / "train.log").write_text(f"Traceback (most recent call last):\n  …\n{TORCHRUN}\n")
    async with play(root) as pilot:
        await press(pilot, "j", "l")
        await until_shown(pilot, "stopped on request; the traceback above is torchrun's own")
        assert text_of(pilot.app).count("torchrun's own") == 1


@pytest.mark.parametrize("state", [state for state in RunState if state is not RunState.STOPPED])
def test_a_traceback_of_a_run_that_nobody_stopped_stands_for_itself(state: RunState) -> None:
    stopped = run("r", state=RunState.STOPPED)
    assert is_stop_of_torchrun(stopped, ["a", TORCHRUN]) and not is_stop_of_torchrun(stopped, ["ValueError"])
    assert not is_stop_of_torchrun(replace(stopped, state=state), ["a", TORCHRUN])


class _LogApp(App[None]):
    def compose(self) -> ComposeResult:
        yield LogView()


def pages(*lines: str) -> list[Page]:
    """One page, as it comes from a file of these lines."""
    rows, offset = [], 0
    for line in lines:
        rows.append(Row(offset, line))
        offset += len(line.encode()) + 1
    return [Page(0, 0, offset, tuple(rows), tuple(range(len(rows))), ("",) * len(rows))]


async def test_the_same_line_stays_on_top_when_wrapping_changes() -> None:
    async with _LogApp().run_test(size=(40, 10)) as pilot:
        view = pilot.app.query_one(LogView)
        fresh = pages(*(f"{number} " + "x" * (number % 7) * 30 for number in range(200)))
        view.put(fresh, fresh[0].end, 0)
        await pilot.pause()
        view.go_to(fresh[0].rows[50].offset)
        for wanted in (True, False):
            view.wrap(wanted)
            await pilot.pause()
            assert view.render_line(0).text.split()[0] == "50"


async def test_a_block_that_was_found_before_the_first_layout_is_on_the_screen_after_it() -> None:
    app = _LogApp()
    async with app.run_test(size=(40, 10)) as pilot:
        await app.query_one(LogView).remove()
        view = LogView()
        view.display = False  # as while nothing of the log is read
        await app.mount(view)
        fresh = pages(*(f"{number} line" for number in range(200)))
        view.put(fresh, fresh[0].end, 0)
        rows = fresh[0].rows
        assert not view.size.height
        view.show_block(rows[50].offset, rows[53].offset, rows[52].offset)
        view.display = True
        await pilot.pause()
        shown = [view.render_line(y).text.split()[0] for y in range(view.size.height)]
        assert {"50", "51", "52"} <= set(shown) and not view.is_following


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=120), max_size=5))
def test_a_wrapped_line_loses_no_character(lines: list[str]) -> None:
    view = LogView()
    view.is_wrapped = True
    for line in lines:
        assert "".join(view._parts(line)) == line


async def test_its_tabs_lead_to_the_runs_page_and_esc_to_where_one_came_from(play: Play, root: Path) -> None:
    run = root / "run-2026-04-24_18-53-41"
    (run / "train.log").write_text("hello\n")
    async with play(root, size=SMALL) as pilot:
        pilot.app.screen.go_to_run(str(run))
        for way, back in ((("enter", "2", "6"), "[2 Checkpoints]"), (("escape", "l"), "RUN ↓")):
            await press(pilot, *way)
            await until_shown(pilot, "[6 Log]")
            await press(pilot, "6", "escape")
            await until_shown(pilot, back)
        for way in (("l",), ("enter", "6")):
            for number, name in ((3, "Loss"), (1, "Overview"), (7, "History")):
                await press(pilot, *way)
                await until_shown(pilot, "[6 Log]")
                await press(pilot, str(number))
                await until_shown(pilot, f"[{number} {name}]")
                assert len(pilot.app.screen_stack) == 2
                await press(pilot, "escape")
                await until_shown(pilot, "RUN ↓")


async def test_a_tab_is_clicked_in_the_log(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "[6 Log]")
        await pilot.click(None, offset=(lines_of(pilot.app)[1].index("Data") + 1, 1))
        await until_shown(pilot, "[4 Data]")


async def test_a_place_that_is_none_is_said(play: Play, root: Path) -> None:
    (root / "run-2026-04-24_18-53-41" / "train.log").write_text("hello\n")
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "hello")
        await press(pilot, "percent_sign", *"half", "enter")
        await until_shown(pilot, "“half” is neither a line nor a percentage")
        await press(pilot, "percent_sign", "escape")
        await until_shown(pilot, "hello")
