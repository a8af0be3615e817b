"""In a real terminal: frames as it draws them, signals, hang-up, quiet while nothing happens, what is imported."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

_CODES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])")
RUN = "import sys; from lavender_tui.tui.start import run_app; sys.exit(run_app(sys.argv[1:]))"


class Terminal:
    """The app in a pseudo-terminal, with all that it wrote."""

    def __init__(self, root: Path, *, rows: int = 30, columns: int = 100, argv: Sequence[str] = (), **env: str) -> None:
        self.written = b""
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", **env})
            os.execv(sys.executable, [sys.executable, *(argv or ("-c", RUN, str(root)))])
        self.resize(rows, columns)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds: float) -> bytes:
        """What it writes within that time."""
        new, end = b"", time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and select.select([self.descriptor], [], [], left)[0]:
            try:
                new += os.read(self.descriptor, 65536)
            except OSError:
                break
        self.written += new
        return new

    def read_until(self, words: bytes, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while words not in self.written:
            assert time.monotonic() < end, f"waited in vain for {words!r}: {self.written[-2000:]!r}"
            self.read(0.1)

    @property
    def text(self) -> str:
        """What it wrote, without colours and places."""
        return _CODES.sub("", self.written.decode("utf-8", "replace"))

    def read_until_any(self, *words: str, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while not any(one in self.text for one in words):
            assert time.monotonic() < end, f"waited in vain for {words!r}: {self.text[-2000:]}"
            self.read(0.1)

    def wait(self, seconds: float) -> int:
        """The exit code; fails if it still runs."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
            self.read(0.05)
        pytest.fail(f"still running after {seconds} s")

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
        try:
            os.close(self.descriptor)
        except OSError:
            return  # hung up by the test


@pytest.fixture
def terminal(root: Path) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def make(**options: object) -> Terminal:
        made.append(Terminal(root, **options))  # type: ignore[arg-type]
        made[-1].read_until(b"pretrain", 60)
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_sigterm_gives_the_terminal_back(terminal: Callable[..., Terminal]) -> None:
    app = terminal()
    app.written = b""
    os.kill(app.pid, signal.SIGTERM)
    assert app.wait(30) == 128 + signal.SIGTERM
    app.read(0.2)
    for code in (b"?1049l", b"?1000l", b"?25h"):
        assert code in app.written
    assert b"Traceback" not in app.written


def test_a_dropped_connection_ends_it(terminal: Callable[..., Terminal]) -> None:
    app = terminal()
    os.close(app.descriptor)
    end = time.monotonic() + 30
    while os.waitpid(app.pid, os.WNOHANG) == (0, 0):
        assert time.monotonic() < end, "still there 30 s after the hang-up"
        time.sleep(0.05)
    app.pid = 0


def test_quit_is_immediate(terminal: Callable[..., Terminal]) -> None:
    app = terminal()
    os.write(app.descriptor, b"q")
    assert app.wait(30) == 0


def test_nothing_happens_means_nearly_no_bytes(terminal: Callable[..., Terminal]) -> None:
    app = terminal()
    app.read_until_any("inotify", "polling")  # the watcher has looked, and tells news from now on
    end = time.monotonic() + 60  # the first frames, and ages that still say seconds
    while len(app.read(5.0)) >= 5 * 200:
        assert time.monotonic() < end, "it goes on writing"


def _paste(app: Terminal, words: bytes) -> None:
    """As a terminal hands on a paste: between brackets, as fast as it is read."""
    os.set_blocking(app.descriptor, False)
    left, end = b"\x1b[200~" + words + b"\x1b[201~", time.monotonic() + 30
    while left:
        assert time.monotonic() < end, "it doesn't read what is pasted"
        app.read(0.01)
        with contextlib.suppress(BlockingIOError):
            left = left[os.write(app.descriptor, left) :]
    os.set_blocking(app.descriptor, True)


def test_a_paste_presses_no_key(terminal: Callable[..., Terminal], root: Path) -> None:
    """Into the list: nothing is resumed, stopped, deleted or left. Into the filter: its first line alone."""
    before = sorted(os.listdir(root))
    app = terminal()
    _paste(app, b"R\nx\ny\nD\nP\ny\nr\n\nq\n" * 500)
    app.written = b""
    os.write(app.descriptor, b"/")
    app.read_until(b"loss<2")
    _paste(app, b"zzz\n" * 5000)
    app.read_until_any("No run matches zzz")
    assert sorted(os.listdir(root)) == before
    app.written = b""
    os.write(app.descriptor, b"\x1b")
    app.read_until(b"finished")  # all of them again; before that the two would be one key
    os.write(app.descriptor, b"q")
    assert app.wait(30) == 0


def test_a_terminal_that_shrinks_to_nothing_and_grows(terminal: Callable[..., Terminal]) -> None:
    app = terminal()
    for rows, columns in ((5, 20), (1, 1), (24, 80), (60, 200)):
        app.resize(rows, columns)
        app.read(0.3)
    app.read_until(b"SAVES")
    os.write(app.descriptor, b"q")
    assert app.wait(30) == 0 and b"Traceback" not in app.written


@pytest.mark.parametrize(
    "env",
    [
        {"NO_COLOR": "1"},
        {"TERM": "screen", "COLORTERM": ""},
        {"LANG": "C", "LC_ALL": "C"},
        {"TEXTUAL_THEME": "ansi-dark"},
    ],
    ids=lambda env: "-".join(env),
)
def test_plain_terminals(terminal: Callable[..., Terminal], env: dict[str, str]) -> None:
    app = terminal(**env)
    app.read_until(b"failed")
    assert b"Traceback" not in app.written
    os.write(app.descriptor, b"q")
    assert app.wait(30) == 0


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
def test_the_list_in_tmux(root: Path, tmp_path: Path, until: Callable[..., object]) -> None:
    tmux = ["tmux", "-L", f"lavender-{os.getpid()}", "-f", "/dev/null"]
    command = [sys.executable, "-c", RUN, str(root)]
    env = {**os.environ, "TERM": "xterm-256color", "TMUX_TMPDIR": str(tmp_path)}

    def pane() -> str:
        return subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, env=env).stdout

    subprocess.run([*tmux, "new-session", "-d", "-x", "80", "-y", "24", *command], check=True, env=env)
    try:
        until(lambda: "✗ failed" in pane() and "2.4000     3 h ago" in pane(), 60, what="the list")
        subprocess.run([*tmux, "send-keys", "g"], check=True, env=env)
        until(lambda: "▌▾ run-2026-04-24_18-53-41" in pane(), what="the cursor on it")
        row = next(line for line in pane().splitlines() if line.startswith("▌▾ run-2026-04-24_18-53-41"))
        assert row.split()[2:] == ["✗", "failed", "1/3", "0060", "2.4000", "3", "h", "ago"]
        subprocess.run([*tmux, "send-keys", "Enter"], check=True, env=env)
        until(lambda: "resumes from pretrain 0060" in pane() and "1 Overview" in pane(), what="the run's page")
        subprocess.run([*tmux, "send-keys", "Escape"], check=True, env=env)
        until(lambda: "└ run-2026-04-25_09-12-07" in pane(), what="the list again")
        subprocess.run([*tmux, "send-keys", "r"], check=True, env=env)
        until(lambda: "checks passed" in pane(), 60, what="the sheet")
    finally:
        subprocess.run([*tmux, "kill-server"], env=env, capture_output=True)


HEADLESS = """
import asyncio, sys
from lavender_tui.tui.app import LavenderApp

async def main():
    app = LavenderApp(sys.argv[1:])
    async with app.run_test(size=(120, 40)) as pilot:
        while app.snapshot is None or not app.snapshot.is_complete:
            await pilot.pause(0.05)
        for key in ("enter", "escape", "l", "escape", "question_mark", "escape", "r"):
            await pilot.press(key)
            await pilot.pause(0.2)
        while getattr(app.screen, "_is_waiting", True):
            await pilot.pause(0.05)

asyncio.run(main())
print(sorted({name.split(".")[0] for name in sys.modules} & {"torch", "lancedb", "pyarrow", "pandas"}))
"""


def test_the_app_never_imports_the_heavy_libraries(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", HEADLESS, str(root)], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr
