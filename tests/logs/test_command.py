"""`lavender-tui logs`: nothing of a training's control codes comes through, bars are folded, errors whole."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.commands import logs
from lavender_tui.logs.follow import Folder

BAR = "[default0]:{0:3}%|###| {0}/100 [00:05<00:05, 2.00it/s]\n"
TEXT = (
    "start \x1b[31mred\x1b[0m\x1b]52;c;Zm9v\x07\n"
    + "".join(BAR.format(percent) for percent in range(0, 101, 5))
    + "error: 0\n[default1]:Traceback (most recent call last):\n[default0]:step 2\n[default1]:  File\n"
    + "[default1]:RuntimeError: boom\n[default0]:step 3\n"
)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / "run-2026-01-02_03-04-05"
    path.mkdir()
    (path / "train.log").write_text(TEXT)
    return path


def call(run_dir: Path, *options: str, **more: object) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lavender_tui", "logs", str(run_dir), *options]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60, **more)  # type: ignore[call-overload, no-any-return]


def test_the_tail_is_harmless_also_in_a_pipe(run_dir: Path) -> None:
    told = call(run_dir)
    assert told.returncode == 0 and "\x1b" not in told.stdout
    lines = told.stdout.splitlines()
    assert lines[0] == "start red" and lines[1] == BAR.format(100).rstrip() and lines[2] == "error: 0"
    assert call(run_dir, "-n", "1").stdout == "[default0]:step 3\n"


def test_raw_is_for_pipes_alone(run_dir: Path) -> None:
    told = call(run_dir, "--raw", "-n", "1000")
    assert told.stdout == TEXT
    leader, follower = pty.openpty()
    argv = [sys.executable, "-m", "lavender_tui", "logs", str(run_dir), "--raw"]
    refused = subprocess.run(argv, stdout=follower, stderr=subprocess.PIPE, text=True, check=False, timeout=60)
    os.close(follower)
    os.close(leader)
    assert refused.returncode == 2 and "this terminal" in refused.stderr


def test_errors_are_printed_whole_with_their_line(run_dir: Path) -> None:
    told = call(run_dir, "--errors")
    assert told.returncode == 0
    assert told.stdout.splitlines() == [
        "train.log line 24: rank 1: RuntimeError: boom",
        "    [default1]:Traceback (most recent call last):",
        "    [default1]:  File",
        "    [default1]:RuntimeError: boom",
        "",
    ]
    assert "1 error: rank 1: RuntimeError: boom" in told.stderr


def test_lines_are_found_with_their_number(run_dir: Path) -> None:
    assert call(run_dir, "--grep", "STEP").returncode == 1
    assert call(run_dir, "--grep", "step").stdout == "25:[default0]:step 2\n28:[default0]:step 3\n"
    assert call(run_dir, "--grep", r"\v^start|boom$", "-n", "1").stdout == "27:[default1]:RuntimeError: boom\n"
    assert call(run_dir, "--grep", r"\v(").returncode == 2
    assert call(run_dir, "--grep", "x", "--errors").returncode == 2


def test_a_bar_is_held_back_until_it_stands() -> None:
    folder = Folder()
    given = [folder.feed(line.encode()) for line in TEXT.split("\n")[:-1]]
    assert given[0] == ["start red"] and not any(given[1:22])
    assert given[22] == [BAR.format(100).rstrip(), "error: 0"]


def test_what_moves_the_cursor_up_is_folded_as_it_comes() -> None:
    folder = Folder()
    assert folder.feed(b"a") == ["a"]
    assert folder.feed(b"\router 0%\x1b[A") == [] and folder.feed(b"\router 9%\x1b[A") == []
    assert folder.feed(b"\rdone     ") == ["done"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_bar_changes_in_its_place(
    run_dir: Path, until: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, lives = _Terminal(), threading.Event()
    monkeypatch.setattr("lavender_tui.launch.living.is_alive", lambda _: not lives.is_set())
    follower = threading.Thread(target=lambda: logs.follow_to_the_end(str(run_dir), rank=None, lines=1, out=out))
    follower.start()
    until(lambda: "step 3" in out.getvalue())
    for percent in (10, 20):
        with open(run_dir / "train.log", "a") as file:
            file.write(f"\r{percent}%|##| {percent}/100")
        until(lambda percent=percent: f"\r\033[K{percent}%|##| {percent}/100" in out.getvalue())
    with open(run_dir / "train.log", "a") as file:
        file.write("\nend\x1b[2J\n")
    lives.set()
    follower.join(20)
    assert out.getvalue().endswith("20%|##| 20/100\nend\n") and "\x1b[2J" not in out.getvalue()
