"""`lavender-tui stop` on a terminal: it asks about what runs, and says at once where nothing does."""

from __future__ import annotations

import os
import pty
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.launch import stop
from tests.launch.conftest import POLITE, Lab, lab
from tests.resume.saves import save

__all__ = ["lab"]  # a fixture


def on_a_terminal(*words: str, answer: str = "") -> tuple[int, str]:
    """Exit code and what was said; a question is answered once, and ends the terminal where there is no answer."""
    pid, terminal = pty.fork()
    if not pid:
        os.execv(sys.executable, [sys.executable, "-m", "lavender_tui", *words])
    told, answered = b"", 0
    try:
        while chunk := os.read(terminal, 4096):
            told += chunk
            if told.count(b"[y/N]") > answered:
                answered += 1
                os.write(terminal, f"{answer}\n".encode())
    except OSError:
        pass  # the other end is closed
    finally:
        os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), told.decode()


@pytest.mark.parametrize("option", [(), ("--kill",), ("--interrupt",)])
def test_where_nothing_runs_it_says_so_and_asks_nothing(lab: Lab, option: tuple[str, ...]) -> None:
    run_dir, record = lab.start(sys.executable, "-c", "pass")
    lab.ended(run_dir)
    lab.until(lambda: record.supervisor is not None and not record.supervisor.is_alive, what="the supervisor's end")
    code, told = on_a_terminal("stop", run_dir, *option)
    assert code == 0 and "[y/N]" not in told, told
    assert told.startswith("lavender-tui: it isn't running: its processes are gone")


def test_where_nobody_wrote_a_record_it_is_not_asked_about_either(tmp_path: Path) -> None:
    run = str(tmp_path / "run-2026-04-24_18-53-41")
    save(run)
    code, told = on_a_terminal("stop", run)
    assert code == 102 and "[y/N]" not in told and "it has no launch.json" in told


def test_what_runs_is_asked_about(lab: Lab, until: Callable[..., object]) -> None:
    run_dir, record = lab.train(POLITE)
    assert record.leader is not None
    code, told = on_a_terminal("stop", run_dir, answer="n")
    assert code == 1 and "[y/N]" in told and "nothing was stopped" in told and record.leader.is_alive
    code, told = on_a_terminal("stop", run_dir, answer="y")
    assert code == 0 and "[y/N]" in told and not record.leader.is_alive
    assert stop(run_dir).how == "not running"
