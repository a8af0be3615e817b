"""The real program in a real tmux: its window changes size while it lives, and texts are pasted into it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.tui import runs
from tests.tui.test_terminal import RUN

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
FAILED, AGAIN = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07"
FINISHED = "run-2026-04-20_22-41-55"
Until = Callable[..., object]


class Tmux:
    """A server of its own with one window, in which a program runs."""

    def __init__(self, directory: Path) -> None:
        self._base = ["tmux", "-L", f"lavender-{os.getpid()}", "-f", "/dev/null"]
        self._env = {**os.environ, "TERM": "xterm-256color", "TMUX_TMPDIR": str(directory)}

    def call(self, *arguments: str) -> str:
        return subprocess.run([*self._base, *arguments], capture_output=True, text=True, env=self._env).stdout

    def start(self, width: int, height: int, *command: str) -> None:
        self.call("new-session", "-d", "-x", str(width), "-y", str(height), *command)

    def keys(self, *keys: str) -> None:
        self.call("send-keys", *keys)

    def resize(self, width: int, height: int) -> None:
        self.call("resize-window", "-x", str(width), "-y", str(height))

    def paste(self, words: str, *, bracketed: bool) -> None:
        subprocess.run([*self._base, "load-buffer", "-"], input=words, text=True, env=self._env, check=True)
        self.call("paste-buffer", *(["-p"] if bracketed else []))

    @property
    def screen(self) -> str:
        return self.call("capture-pane", "-p")

    @property
    def lines(self) -> list[str]:
        return self.screen.rstrip("\n").split("\n")

    @property
    def is_running(self) -> bool:
        return self.call("list-panes", "-F", "#{pane_dead}").strip() == "0"

    def close(self) -> None:
        self.call("kill-server")


@pytest.fixture
def tmux(tmp_path: Path) -> Iterator[Tmux]:
    made = Tmux(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shown(tmux: Tmux, root: Path, until: Until) -> Tmux:
    """The list, with the cursor on the finished run."""
    tmux.start(80, 24, sys.executable, "-c", RUN, str(root))
    until(lambda: "✓ finished" in tmux.screen and "▌" in tmux.screen, 60, what="the list")
    tmux.keys("g", "j", "j", "j")
    until(lambda: f"▌  {FINISHED}" in tmux.screen, what="the cursor on the finished run")
    return tmux


def test_the_window_changes_its_size_and_nothing_is_lost(shown: Tmux, until: Until) -> None:
    for width, height, kept in (
        (200, 60, "WHY"),
        (60, 15, "STATE"),
        (80, 24, "EPOCH"),
        (40, 10, "STATE"),
        (80, 24, ""),
    ):
        shown.resize(width, height)
        until(
            lambda width=width, height=height, kept=kept: (
                kept in shown.screen
                and any(line.startswith("▌") and FINISHED[-8:] in line for line in shown.lines)
                and max(map(len, shown.lines)) <= width
                and ("? help" in shown.lines[-1])
            ),
            what=f"the list at {width}x{height}: {shown.screen}",
        )
    shown.keys("Enter")
    until(lambda: "1 Overview" in shown.screen and FINISHED in shown.lines[0], what="its page")
    for width, height in ((200, 60), (60, 15), (80, 24)):
        shown.resize(width, height)
        until(
            lambda height=height: (
                len(shown.lines) == height and FINISHED[-8:] in shown.lines[0] and "? help" in shown.lines[-1]
            ),
            what=f"the page at {width}x{height}",
        )
    shown.keys("Escape")
    until(lambda: f"▌  {FINISHED}" in shown.screen, what="the cursor where it was")


def test_a_bracketed_paste_goes_into_the_filter_and_no_further(shown: Tmux, root: Path, until: Until) -> None:
    before = sorted(os.listdir(root))
    shown.keys("/")
    until(lambda: "loss<2" in shown.screen, what="the line to type in")
    shown.paste("state:failed\nq\nR\nx\ny\n", bracketed=True)
    until(lambda: "state:failed" in shown.screen and FINISHED not in shown.screen, what="what was pasted, at work")
    assert FAILED in shown.screen and shown.is_running and sorted(os.listdir(root)) == before
    shown.keys("Escape")
    until(lambda: FINISHED in shown.screen, what="all of them again")


def test_a_bracketed_paste_into_the_list_presses_nothing(shown: Tmux, root: Path, until: Until) -> None:
    before, seen = sorted(os.listdir(root)), shown.lines[2:8]
    shown.paste("R\ny\nx\ny\nD\nP\ny\nq\n" * 20, bracketed=True)
    shown.keys("j")
    until(lambda: "▌" in shown.screen and f"▌  {FINISHED}" not in shown.screen, what="the key after it")
    shown.keys("k")
    until(lambda: shown.lines[2:8] == seen, what="the list as before")
    assert shown.is_running and sorted(os.listdir(root)) == before


@pytest.mark.parametrize("words", ["Resume it, then stop\nx\n", "R\nR\nx\ny\ny\n", "x y\nKK\nRy\nPy\n"])
def test_a_paste_without_brackets_changes_nothing(tmux: Tmux, tmp_path: Path, until: Until, words: str) -> None:
    """Where a terminal types a paste as keys: no run is started, none is stopped, nothing is deleted by it."""
    root = runs.small_root(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    tmux.start(80, 24, sys.executable, "-c", RUN, str(root))
    until(lambda: "✗ failed" in tmux.screen, 60, what="the list")
    tmux.paste(words, bracketed=False)
    until(lambda: tmux.keys("Escape") or "s sort" in tmux.screen, what="the list again, all that was pasted read")
    after = {path: path.stat().st_mtime_ns for path in root.rglob("*") if path.is_file()}
    assert after == before
