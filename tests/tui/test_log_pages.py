"""The log's page on real files: any place of a long one, search, errors with one key, bars, rotation, many ranks."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from textual.message import Message
from textual.pilot import Pilot

from lavender_tui.launch import rotation
from lavender_tui.launch.record import ExitRecord, write_exit
from lavender_tui.tui.log_reader import TAIL
from lavender_tui.tui.messages import LogRead
from lavender_tui.tui.widgets.log_view import LogView
from tests.tui import runs
from tests.tui.conftest import SMALL, Play, lines_of, press, text_of, until, until_shown

FAILED = "run-2026-04-24_18-53-41"
LINES = 20_000
TRACEBACK = [
    "[default1]:Traceback (most recent call last):",
    '[default1]:  File "train.py", line 20, in main',
    "[default1]:RuntimeError: boom [/x]",
]


def write(path: Path, *, traceback_at: int | None = 7000) -> None:
    """Lines that know their number, metrics that are called errors, one traceback."""
    with open(path, "w") as file:
        for number in range(1, LINES + 1):
            if traceback_at is not None and 0 <= number - traceback_at < len(TRACEBACK):
                file.write(TRACEBACK[number - traceback_at] + "\n")
            else:
                file.write(f"[default0]:line {number} loss 2.{number * 7919 % 1000} error: 0.25 {'x' * 40}\n")


@pytest.fixture
def log(root: Path) -> Path:
    path = root / FAILED / "train.log"
    write(path)
    return path


def view_of(pilot: Pilot[int]) -> LogView:
    return pilot.app.screen.query_one(LogView)


async def surveyed(pilot: Pilot[int]) -> None:
    await until_shown(pilot, "1 error: rank 1: RuntimeError: boom")  # type: ignore[arg-type]


async def test_the_tail_then_any_place_of_the_file(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        await surveyed(pilot)
        await until_shown(pilot, "(line 7,002)")
        await until_shown(pilot, f"of {LINES:,}  100 %")
        await press(pilot, "g")
        await until_shown(pilot, "line 1 loss")
        await until(pilot, lambda: re.search(rf"lines 1-\d+ of {LINES:,}  0 %", text_of(pilot.app)), "the front")
        await press(pilot, "percent_sign", *"50%", "enter")
        await until(pilot, lambda: f"of {LINES:,}  50 %" in text_of(pilot.app) or "  49 %" in text_of(pilot.app))
        await press(pilot, "percent_sign", *"12,345", "enter")
        await until(pilot, lambda: re.search(rf"lines 12,345-12,3\d\d of {LINES:,}", text_of(pilot.app)), "that line")
        assert "line 12345 loss" in lines_of(pilot.app)[2]
        await press(pilot, "G")
        await until_shown(pilot, f"line {LINES} loss")
        assert len(view_of(pilot).lines) < LINES


async def test_nothing_is_read_while_nothing_happens(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await surveyed(pilot)
        screen = pilot.app.screen
        read: list[str] = []
        screen._reader._post = lambda message: bool(read.append(type(message).__name__)) or screen.post_message(message)
        await press(pilot, "g")
        await until_shown(pilot, "line 1 loss")
        await press(pilot, "G")
        await until_shown(pilot, f"line {LINES} loss")
        await until(pilot, lambda: view_of(pilot).is_at_end)
        done = len(read)
        with log.open("a") as file:
            file.write("the end\n")
        await until_shown(pilot, "the end")
        assert done <= 3 and len(read) == done + 1


@pytest.mark.long
async def test_paging_through_all_of_it_misses_no_line(play: Play, root: Path) -> None:
    path = root / FAILED / "train.log"
    path.write_text("".join(f"number {number} {'x' * 60}\n" for number in range(6000)))
    seen: set[int] = set()
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "number 5999")
        view = view_of(pilot)
        while not (view.window.first == 0 and view.top_index == 0):
            seen |= {int(line.split()[1]) for line in view.visible_text()}
            before = view.top_offset
            await pilot.press("pageup")
            await until(pilot, lambda before=before: view.top_offset < before)
        seen |= {int(line.split()[1]) for line in view.visible_text()}
    assert seen == set(range(6000))


async def test_search_marks_counts_and_goes_around(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        await press(pilot, "slash", *"line 777", "enter")
        await until_shown(pilot, "“line 777”: match 1 of 11")
        await until_shown(pilot, "line 777 loss")  # from the end on it goes around
        view = view_of(pilot)
        for key, wanted in (("n", 7770), ("n", 7771), ("N", 7770), ("N", 777)):
            await press(pilot, key)
            await until(pilot, lambda wanted=wanted: view.current is not None and f"line {wanted} " in _current(view))
        y = next(y for y, line in enumerate(lines_of(pilot.app)[2:]) if "line 777 " in line)
        marked = [one for one in view.render_line(y) if one.style is not None and one.style.reverse]
        assert [one.text for one in marked] == ["line 777"] and marked[0].style.underline  # type: ignore[union-attr]
        await press(pilot, "escape")
        assert view.wanted is None and "“line 777”" not in text_of(pilot.app)
        await press(pilot, "slash", *"nowhere", "enter")
        await until_shown(pilot, "no match in this file")
        await press(pilot, "slash", *"\\v(", "enter")
        await until_shown(pilot, "no pattern: missing )")
        await press(pilot, "escape")
        await until(pilot, lambda: pilot.app.focused is view, "the keys with the log again")


def _current(view: LogView) -> str:
    assert view.current is not None
    return view.window.rows[view.window.index_of(view.current[0])].text


async def test_one_key_goes_to_the_error_and_another_copies_it(play: Play, root: Path, log: Path) -> None:
    async with play(root, size=(140, 24)) as pilot:
        await press(pilot, "l")
        await surveyed(pilot)
        await press(pilot, "e")
        await until_shown(pilot, "▶[default1]:RuntimeError: boom [/x]")
        assert "│[default1]:Traceback" in text_of(pilot.app) and "error 1 of 1: rank 1" in text_of(pilot.app)
        await press(pilot, "y")
        await until(pilot, lambda: pilot.app.clipboard == "\n".join(TRACEBACK) + "\n")
        await press(pilot, "E")
        await until_shown(pilot, ", from the other end")
        await press(pilot, "Y")
        await until(pilot, lambda: pilot.app.clipboard.count("\n") > 10)


async def test_the_list_leads_to_the_traceback_that_ended_the_run(play: Play, root: Path) -> None:
    run = root / "run-2026-05-01_10-00-00"
    runs.launched(run, ["torchrun", "train.py"])
    where = "ranks/id_x/attempt_0/1/stderr.log"
    (run / where).parent.mkdir(parents=True)
    (run / where).write_text("\n".join(line.removeprefix("[default1]:") for line in TRACEBACK) + "\n")
    (run / "train.log").write_text("nothing of it\n")
    traceback = [line.removeprefix("[default1]:") for line in TRACEBACK]
    failure = {"rank": 1, "exception": "RuntimeError: boom", "where": where, "traceback": traceback}
    record = ExitRecord(code=1, signal=None, ended_at=1.0, error="rank 1: RuntimeError: boom", failure=failure)
    write_exit(str(run), record)
    async with play(root) as pilot:
        await until_shown(pilot, "failed: rank 1: RuntimeError: boom")
        assert "e goes to its traceback: train.py:20 in main" in text_of(pilot.app)
        await press(pilot, "e")
        await until_shown(pilot, "▶RuntimeError: boom")
        assert "rank 1 stderr" in lines_of(pilot.app)[0]


ABORT = ("terminate called after throwing an instance of 'gloo::EnforceNotMet'", "Fatal Python error: Aborted")


async def test_the_exception_comes_before_what_aborted_after_it_and_e_goes_on(play: Play, root: Path) -> None:
    """At once, before the file was surveyed, and after that."""
    log = root / FAILED / "train.log"
    log.write_text("\n".join([*TRACEBACK, *(f"[default1]:{line}" for line in ABORT), "the end"]) + "\n")
    async with play(root) as pilot:
        await pilot.press("l", "e")
        await until(pilot, lambda: re.search("error(?: 1 of 3)?: rank 1: RuntimeError: boom", text_of(pilot.app)))
        await press(pilot, "escape")
        await press(pilot, "l")
        await until_shown(pilot, "3 errors, first: rank 1: RuntimeError: boom")
        await press(pilot, "e")
        await until_shown(pilot, "error 1 of 3: rank 1: RuntimeError: boom")
        await press(pilot, "e")
        await until_shown(pilot, "error 2 of 3: rank 1: terminate called")
        await press(pilot, "e")
        await until_shown(pilot, "error 3 of 3: rank 1: Fatal Python error: Aborted")


async def test_a_bar_changes_where_it_stands(play: Play, root: Path) -> None:
    path = root / FAILED / "train.log"
    path.write_text("begin\n")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "begin")
        for percent in (10, 40, 90):
            with path.open("a") as file:
                file.write(f"\r {percent}%|####| {percent}/100 [00:01<00:09, 1.00s/it]")
            await until_shown(pilot, f"{percent}%|####| {percent}/100")
            assert text_of(pilot.app).count("%|####|") == 1
        for percent in (10, 40, 90):
            with path.open("a") as file:
                file.write(f"\n[default0]: {percent}%|##| {percent}/100 [00:01<00:09, 1.00s/it]")
            await until_shown(pilot, f"{percent}%|##| {percent}/100")
            assert text_of(pilot.app).count("%|##|") == 1


async def test_a_rotation_is_followed(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        rotation.rotate(str(log))
        await until_shown(pilot, "its older part is in train.log.1 now")
        with log.open("a") as file:
            file.write("after it\n")
        await until_shown(pilot, "after it")
        assert view_of(pilot).is_following


async def test_lines_written_before_the_end_was_shown_are_shown(play: Play, root: Path, log: Path) -> None:
    """The file grows after its tail was read and before the screen has it: whoever reads doesn't know who has what."""
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        reader, held = pilot.app.screen._reader, []
        post = reader._post

        def hold(message: Message) -> bool:
            held.append(message)
            if isinstance(message, LogRead) and message.what == TAIL:
                with log.open("a") as file:
                    file.write("after it\n")
                reader._look()
                reader._post = post
                return all(map(post, held))
            return True

        reader._post = hold
        pilot.app.screen._open()
        await until_shown(pilot, "after it")
        assert [message.what for message in held if isinstance(message, LogRead)] == [TAIL, "grown"]
        assert view_of(pilot).is_following


async def test_megabytes_at_once_below_what_is_looked_at_leave_no_line_out(play: Play, root: Path) -> None:
    path = root / FAILED / "train.log"
    path.write_text("".join(f"number {number} {'x' * 60}\n" for number in range(1000)))
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "number 999")
        await press(pilot, "k")
        view = view_of(pilot)
        assert not view.is_following
        with path.open("a") as file:
            file.write("".join(f"number {number} {'x' * 60}\n" for number in range(1000, 31_000)))
        await until(pilot, lambda: view.file_size == path.stat().st_size)
        while not any("number 1500 " in line for line in view.visible_text()):
            before = view.top_offset
            await pilot.press("pagedown")
            await until(pilot, lambda before=before: view.top_offset > before)
        numbers = [int(row.text.split()[1]) for row in view.window.rows]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))


async def test_lines_that_a_rotation_took_away_stay_on_the_screen(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        await press(pilot, "percent_sign", *"100", "enter")
        await until_shown(pilot, "line 100 loss")
        rotation.rotate(str(log))
        await until_shown(pilot, "the log was rotated: these lines are in train.log.1 now")
        await until(pilot, lambda: "line 100 loss" in lines_of(pilot.app)[2])
        assert "train.log.1 (older)" in lines_of(pilot.app)[0]


async def test_a_file_that_is_cut_or_deleted_is_said(play: Play, root: Path, log: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, f"line {LINES} loss")
        log.write_text("all new\n")
        await until_shown(pilot, "train.log was cut and begun anew")
        await until_shown(pilot, "all new")
        os.replace(root / FAILED / "metrics.jsonl", root / FAILED / "kept.jsonl")
        other = log.with_name("other")
        other.write_text("quite another\n")
        os.replace(other, log)
        await until_shown(pilot, "train.log was replaced by another file")
        await until_shown(pilot, "quite another")


async def test_one_of_hundreds_of_files_is_chosen_by_typing(play: Play, root: Path, log: Path) -> None:
    for rank in range(256):
        directory = root / FAILED / "ranks" / "id_x" / "attempt_0" / str(rank)
        directory.mkdir(parents=True)
        (directory / "stderr.log").write_text(f"I am rank {rank}\n")
        (directory / "stdout.log").touch()
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "1 of 513")
        await press(pilot, "o")
        await until_shown(pilot, "513 log files")
        await press(pilot, *"17 err")
        await until_shown(pilot, "rank 117 stderr")
        await press(pilot, "enter")
        await until_shown(pilot, "I am rank 17")
        assert "rank 17 stderr" in lines_of(pilot.app)[0]
        await press(pilot, "tab")
        await until_shown(pilot, "empty: nothing was written to it")
