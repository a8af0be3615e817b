"""What is said of a copy is true: into tmux's buffer where tmux takes it, else it was sent to the terminal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.tui import clipboard
from lavender_tui.tui.screens.ask import Document
from tests.tui.conftest import Play, press, until, until_shown
from tests.tui.test_terminal import RUN

FAILED = "run-2026-04-24_18-53-41"
needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


async def test_outside_of_tmux_it_is_sent_to_the_terminal(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "y", "y")
        await until_shown(pilot, clipboard.TO_TERMINAL)
        assert pilot.app.clipboard == str(root / FAILED)


async def test_a_tmux_that_does_not_answer_is_no_lie(
    play: Play, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMUX", f"{tmp_path}/gone,1,0")
    async with play(root) as pilot:
        await press(pilot, "y", "y")
        await until_shown(pilot, clipboard.TO_TERMINAL)


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Callable[..., str]]:
    env = {**os.environ, "TERM": "xterm-256color", "TMUX_TMPDIR": str(tmp_path)}
    base = ["tmux", "-L", f"copy-{os.getpid()}", "-f", "/dev/null"]

    def call(*arguments: str) -> str:
        return subprocess.run([*base, *arguments], capture_output=True, text=True, env=env).stdout

    yield call
    call("kill-server")


@needs_tmux
def test_in_tmux_its_buffer_holds_what_was_copied(
    root: Path, tmux: Callable[..., str], until: Callable[..., object]
) -> None:
    tmux("new-session", "-d", "-x", "100", "-y", "30", sys.executable, "-c", RUN, str(root))
    until(lambda: "✗ failed" in tmux("capture-pane", "-p"), 60, what="the list")
    tmux("send-keys", "g")
    until(lambda: f"▌▾ {FAILED}" in tmux("capture-pane", "-p"), what="the cursor on it")
    tmux("send-keys", "y", "y")
    until(lambda: clipboard.IN_TMUX in tmux("capture-pane", "-p"), what="the notice")
    assert tmux("show-buffer") == str(root / FAILED)


async def test_what_is_copied_is_chosen(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        run = pilot.app.screen.cursor_run
        await press(pilot, "y", "c")
        assert pilot.app.clipboard.endswith("train.py")
        await press(pilot, "y", "j")
        assert json.loads(pilot.app.clipboard)["path"] == run.path
        await press(pilot, "y", "v")
        await until(pilot, lambda: isinstance(pilot.app.screen, Document), "the text to select from")
        assert '"state": "failed"' in pilot.app.screen._words
        await press(pilot, "escape", "y", "n")
        assert pilot.app.screen.cursor_run is run
