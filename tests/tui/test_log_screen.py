"""The log: long lines, empty files, and an end that is not what it looks like."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from lavender_tui.launch import KILL, start, stop
from lavender_tui.logs.pager import Page
from lavender_tui.model.log_text import Row
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import RunState
from lavender_tui.tui.screens.log_of_run import is_stop_of_torchrun
from lavender_tui.tui.widgets.log_view import LogView
from tests.model.build import run
from tests.tui.conftest import SMALL, Play, lines_of, press, quiet, text_of, until, until_shown

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


@pytest.fixture
def begun(root: Path) -> Iterator[Path]:
    """A run that lives and has printed nothing yet."""
    made = root / time.strftime("run-%Y-%m-%d_%H-%M-%S")
    made.mkdir()
    sleeping = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
    start(Launch(backend="local", argv=sleeping, cwd=str(root)), str(made))
    yield made
    stop(str(made), KILL)


async def test_what_a_run_that_just_began_prints_is_awaited(play: Play, root: Path, begun: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        pilot.app.screen.go_to_run(str(begun))
        await until(pilot, lambda: (run := pilot.app.screen.cursor_run) and run.key == str(begun) and run.is_alive)
        await press(pilot, "l")
        await until(pilot, lambda: re.search(r"nothing yet: \d+ s since the start", text_of(pilot.app)), "awaited")
        shown = text_of(pilot.app)
        await until(pilot, lambda: text_of(pilot.app) != shown, "the seconds go on")
        assert "following" in lines_of(pilot.app)[0] and "f follow" in lines_of(pilot.app)[-1]


RANKS = "".join(f"[default{rank}]:epoch 1 step {step} loss 2.5\n" for step in range(40) for rank in (0, 1))
REPORT = """[default1]:[rank1]: Traceback (most recent call last):
[default1]:[rank1]:   File "train.py", line 90, in train
[default1]:[rank1]: RuntimeError: uncorrectable ECC error
[default0]:[rank0]: Traceback (most recent call last):
[default0]:[rank0]:   File "train.py", line 91, in train
[default0]:[rank0]: RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:33972
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-30_02:41:11
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 15047)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


async def test_the_log_of_a_failure_opens_where_its_reason_stands(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(RANKS + REPORT)
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "error 1 of 3: rank 1: RuntimeError: uncorrectable")
        shown = lines_of(pilot.app)
        assert any(line.startswith("▶[default1]:[rank1]: RuntimeError: uncorrectable ECC") for line in shown)
        assert shown[0].endswith("ended") and "following" not in shown[0] and "f follow" not in shown[-1]
        await press(pilot, "G")
        await until_shown(pilot, "exitcode  : 1 (pid: 15047)")


async def test_a_log_that_was_whole_long_ago_tells_no_errors_so_far(play: Play, root: Path) -> None:
    log = root / FAILED / "train.log"
    log.write_text(RANKS + REPORT[: REPORT.index('Traceback (most recent call last):\n  File "torchrun')])
    os.utime(log, (time.time() - 60,) * 2)
    said = []
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until(pilot, lambda: said.append(lines_of(pilot.app)[-2]) or "2 errors" in said[-1], "all of them")
        assert "e goes to it" not in text_of(pilot.app)  # it is on the screen
        await press(pilot, "g")
        await until_shown(pilot, "e goes to it")
        assert "e error" in lines_of(pilot.app)[-1]


async def test_where_no_error_is_known_no_key_leads_to_one(play: Play, root: Path) -> None:
    stopped = root / "run-2026-04-25_09-12-07"
    (stopped / "train.log").write_text(RANKS + f'Traceback (most recent call last):\n  File "x"\n{TORCHRUN}\n')
    async with play(root, size=SMALL) as pilot:
        assert "e error" in lines_of(pilot.app)[-1]
        await press(pilot, "j")
        await until(pilot, lambda: "e error" not in lines_of(pilot.app)[-1], "the keys of a run that was stopped")
        await press(pilot, "e")
        await until_shown(pilot, "no error of this run is known; l shows its log")
        await press(pilot, "l")
        await until_shown(pilot, "no error  ")
        await until(pilot, lambda: "e error" not in lines_of(pilot.app)[-1], "the keys of its log")
        await press(pilot, "e")
        await until_shown(pilot, "no error in this file")


def said_and_shown(app: Any) -> tuple[list[int], list[int]]:
    """The first and the last line by the words below the log, and those that are on the screen."""
    said = re.findall(r"(\d+)-(\d+) of 100", text_of(app))
    shown = [int(line.split()[1]) for line in lines_of(app) if line.startswith(" line ")]
    return [int(one) for one in said[0]] if said else [], [shown[0], shown[-1]] if shown else [0]


async def test_the_lines_on_the_screen_are_counted_and_torchruns_mark_is_explained(play: Play, root: Path) -> None:
    stopped = root / "run-2026-04-25_09-12-07"
    (stopped / "train.log").write_text("".join(f"[default1]:line {number}\n" for number in range(1, 5)))
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "j", "l")
        await until_shown(pilot, "1-4 of 4")
        await until_shown(pilot, "[default1]: is what rank 1 printed")
        (stopped / "train.log").write_text("".join(f"line {number}\n" for number in range(1, 101)))
        await until_shown(pilot, "of 100")
        await until(pilot, lambda: said_and_shown(pilot.app)[0] == said_and_shown(pilot.app)[1], "the end")
        assert said_and_shown(pilot.app)[0][1] == 100
        await press(pilot, "g")
        await until(pilot, lambda: said_and_shown(pilot.app)[0] == said_and_shown(pilot.app)[1], "the front")
        assert said_and_shown(pilot.app)[0][0] == 1


async def test_a_search_says_which_match_and_how_to_go_on(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(RANKS + REPORT)
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "error 1 of 3")
        await press(pilot, "g", "slash", *"step 7 ", "enter")
        await until_shown(pilot, "“step 7 ”: match 1 of 2")
        shown = lines_of(pilot.app)
        assert any(line.startswith("▶[default0]:epoch 1 step 7") for line in shown) and "n N match" in shown[-1]
        await press(pilot, "n")
        await until_shown(pilot, "“step 7 ”: match 2 of 2")
        await press(pilot, "escape")
        await until(pilot, lambda: "n N match" not in lines_of(pilot.app)[-1], "no search")


async def test_what_is_appended_while_a_search_stands_is_counted_as_well(play: Play, root: Path) -> None:
    log = root / FAILED / "train.log"
    log.write_text("step 1\nsaved 1\nstep 2\nsaved 2\n")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l", "g", "slash", *"saved", "enter")
        await until_shown(pilot, "“saved”: match 1 of 2")
        for first in (3, 6):
            with log.open("a") as file:
                file.write("".join(f"saved {number}\n" for number in range(first, first + 3)))
            await until_shown(pilot, f"“saved”: match 1 of {first + 2}")
        await press(pilot, *"nnnnnnn")
        await until_shown(pilot, "“saved”: match 8 of 8")


async def test_each_press_of_a_key_that_steps_counts_though_the_one_before_is_still_on_its_way(
    play: Play, root: Path
) -> None:
    (root / FAILED / "train.log").write_text("".join(f"step {number}\nsaved {number}\n" for number in range(1, 9)))
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l", "g", "slash", *"saved", "enter")
        await until_shown(pilot, "“saved”: match 1 of 8")
        hunter, held = pilot.app.screen.hunter, []
        look, hunter.look = hunter.look, held.append
        await press(pilot, *"nnnNnn")
        assert len(held) == 1
        hunter.look = look
        look(held[0])
        await until_shown(pilot, "“saved”: match 5 of 8")


async def test_what_a_key_went_to_stays_on_the_screen_where_long_lines_are_wrapped(play: Play, root: Path) -> None:
    long = "".join(f"[default0]:step {number} {'x' * 300}\n" for number in range(100))
    (root / FAILED / "train.log").write_text(
        long + "Traceback (most recent call last):\n  at\nValueError: here\n" + long
    )
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l", "e")
        await until_shown(pilot, "▶ValueError: here")
        await press(pilot, "w")
        await until_shown(pilot, "wrapped")
        await until_shown(pilot, "▶ValueError: here")


async def test_torchruns_cause_is_on_the_screen_with_the_line_that_sums_it_up(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(RANKS + REPORT)
    async with play(root, size=(80, 20)) as pilot:
        await press(pilot, "l")
        for number in (1, 2, 3):
            await until_shown(pilot, f"error {number} of 3")
            await press(pilot, "e")
        await press(pilot, "E")
        await until_shown(pilot, "error 3 of 3")
        shown = text_of(pilot.app)
        assert re.search("(?m)^▶.*ChildFailedError", shown) and "rank      : 1" in shown


async def test_the_title_keeps_the_states_word_where_lines_are_wrapped(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(RANKS + REPORT)
    for rank in range(2):
        ranks = root / FAILED / "ranks" / "x" / "attempt_0" / str(rank)
        ranks.mkdir(parents=True)
        (ranks / "stdout.log").write_text("x\n")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "error 1 of 3")
        await press(pilot, "w")
        await until_shown(pilot, "wrapped")
        assert "✗ failed" in lines_of(pilot.app)[0] and "1 of 3" in lines_of(pilot.app)[0]


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
        await quiet(pilot)
        view.go_to(fresh[0].rows[50].offset)
        for wanted in (True, False):
            view.wrap(wanted)
            await quiet(pilot)
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

        def shown() -> set[str]:
            return {"".join(view.render_line(y).text.split()[:1]) for y in range(view.size.height)}

        await until(pilot, lambda: {"50", "51", "52"} <= shown(), "the block")
        assert not view.is_following


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
