"""A check that hangs, breaks off or isn't heard of: the sheet says so in one sentence, and one key tries again."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import lavender_tui.resume
from lavender_tui import one_writer
from lavender_tui.errors import LavenderError
from lavender_tui.launch import KILL, bad_files, stop
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.tui.question import Question
from lavender_tui.tui.screens import checking
from tests.tui.conftest import Play, press, text_of, until, until_shown
from tests.tui.sheets import choose_local, launched_run, open_sheet


@pytest.fixture
def hanging() -> Iterator[Callable[[], Callable[[], None]]]:
    """Checks hang in the kernel, as on a disk that doesn't answer. Returns what mends it for those to come."""
    reads, writes = os.pipe()
    patch = pytest.MonkeyPatch()
    propose = lavender_tui.resume.propose

    def slow(*args: Any, **options: Any) -> Any:
        os.read(reads, 1)
        return propose(*args, **options)

    def hang() -> Callable[[], None]:
        patch.setattr(lavender_tui.resume, "propose", slow)
        return patch.undo

    yield hang
    patch.undo()
    os.close(writes)  # whoever hangs there goes on


async def test_a_check_that_hangs_says_so_and_is_tried_again(
    play: Play, one_run: Path, hanging: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "SLOW_SECONDS", 0.5)
    monkeypatch.setattr(checking, "HANGING_SECONDS", 4.0)
    async with play(one_run) as pilot:
        mend = hanging()
        await press(pilot, "r")
        await until(pilot, lambda: re.search(r"checking: [123] s", text_of(pilot.app)), "how long it takes")
        hangs = r"no answer for \d+ s: perhaps a disk that hangs   F5 checks again"
        await until(pilot, lambda: re.search(hangs, text_of(pilot.app)), "that it hangs")
        monkeypatch.setattr(checking, "HANGING_SECONDS", 2.0)
        await press(pilot, "f5")
        await until(pilot, lambda: pilot.app.screen._sequence == 2, "another question")
        mend()
        await press(pilot, "enter", "escape")
        await until_shown(pilot, "no answer for")
        await press(pilot, "f5")
        await until_shown(pilot, "checks passed")
        before = time.monotonic()
    assert time.monotonic() - before < 20, "two checks hang for ever, and the app ends"


@pytest.mark.parametrize("error", [ZeroDivisionError("of a kind"), SystemExit(3), MemoryError()], ids=repr)
async def test_a_check_that_breaks_off_says_so_and_is_tried_again(
    play: Play, one_run: Path, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: Any, **options: Any) -> Any:
        raise error

    async with play(one_run) as pilot:
        with monkeypatch.context() as patch:
            patch.setattr(lavender_tui.resume, "propose", broken)
            await press(pilot, "r")
            await until_shown(pilot, f"the check itself broke off: {type(error).__name__}")
            assert "F5 checks again" in text_of(pilot.app)
            await press(pilot, "enter", "v", "m", "d")
        await press(pilot, "f5")
        await until_shown(pilot, "checks passed")


async def test_an_answer_that_no_message_brings_is_found(play: Play, one_run: Path) -> None:
    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        answer = screen._proposal
        screen._answered, screen._proposal = -1, None
        screen._question = Question(lambda: answer, lambda asked: 1 / 0)
        await until(pilot, lambda: screen._proposal is answer, "the answer")
        await until_shown(pilot, "checks passed")


async def test_an_answer_launches_nothing_under_another_screen(play: Play, one_run: Path) -> None:
    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "question_mark")
        assert pilot.app.screen is not screen
        screen._launch_when = screen._sequence  # Enter came before the answer
        screen._launch_if_asked()
        assert screen._launching_since is None
        assert len(list(one_run.glob("run-*"))) == 1


async def test_where_no_thread_can_be_started_it_says_so(
    play: Play, one_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = threading.Thread.start

    def refused(self: threading.Thread) -> None:
        if self.name == "lavender-check":
            raise RuntimeError("can't start new thread")
        start(self)

    async with play(one_run) as pilot:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            await press(pilot, "r")
            await until_shown(pilot, "it could not even begin (can't start new thread)")
        await press(pilot, "f5")
        await until_shown(pilot, "checks passed")


async def test_other_work_that_hangs_holds_up_no_check_and_no_page(play: Play, one_run: Path) -> None:
    is_over = threading.Event()
    try:
        async with play(one_run) as pilot:
            for _ in range(12):  # twice as many as the usual pool of two cores
                pilot.app.run_worker(is_over.wait, thread=True)
            await open_sheet(pilot)
            await press(pilot, "escape", "enter", "7")
            await until_shown(pilot, "launched")
            for _ in range(80):
                pilot.app.run_worker(is_over.wait, thread=True)
            await press(pilot, "escape")
            await open_sheet(pilot)
            is_over.set()
    finally:
        is_over.set()


async def test_a_warm_child_that_is_killed_costs_nothing(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        child = await until(pilot, lambda: screen._warm.child, "the warm child")
        os.kill(child._process.pid, signal.SIGKILL)  # type: ignore[attr-defined]
        await choose_local(pilot)
        await press(pilot, "v")
        await until_shown(pilot, "every checksum agrees")
        await press(pilot, "enter")
        stop((await launched_run(pilot)).path, KILL)
    assert nothing_survives() == []


async def test_a_child_that_is_killed_in_the_middle_is_one_sentence(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        await choose_local(pilot)
        child = await until(pilot, lambda: screen._warm.child, "the warm child")
        pid = child._process.pid  # type: ignore[attr-defined]
        is_asked, merge = threading.Event(), child.merge  # type: ignore[attr-defined]
        child.merge = lambda states: is_asked.set() or merge(states)  # type: ignore[attr-defined]
        os.kill(pid, signal.SIGSTOP)  # while it imports: it will not answer
        await press(pilot, "enter")
        await until_shown(pilot, "merging, then launching")
        await until(pilot, is_asked.is_set, "the request")
        os.kill(pid, signal.SIGKILL)
        await until_shown(pilot, "the merging process ended by signal 9")
        assert len(list(one_run.glob("run-*"))) == 1
        await press(pilot, "enter")
        stop((await launched_run(pilot)).path, KILL)
    assert nothing_survives() == []


async def test_a_yes_to_what_is_checked_anew_meanwhile_launches_nothing_unchecked(play: Play, one_run: Path) -> None:
    def broken() -> None:
        raise LavenderError("the disk is gone")

    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        screen._ask_again("it was resumed before")
        screen._work = lambda: broken
        screen.action_check_again()  # as a stop does that has just ended
        await until(pilot, lambda: screen._error, "what went wrong")
        await press(pilot, "y")
        await until_shown(pilot, "the disk is gone")
        assert screen.is_in_front and screen._launching_since is None and pilot.app.is_running


def test_one_that_holds_the_memory_of_bad_files_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    monkeypatch.setattr(one_writer, "LOCK_SECONDS", 0.2)
    directory = os.path.dirname(bad_files.memory_path())
    os.makedirs(directory)
    held = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        facts = FileFacts(dev=1, inode=2, size_bytes=3, mtime_ns=4, ctime_ns=5)
        assert bad_files.remember("/a", facts, "why") and bad_files.remembered()
    finally:
        os.close(held)
