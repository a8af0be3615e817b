"""News of runs in the app, on real runs that really end."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from lavender_tui.config import NotifySettings
from lavender_tui.launch import start
from lavender_tui.launch.record import LaunchRecord
from lavender_tui.model.plan import Launch
from lavender_tui.tui.start import Look
from lavender_tui.tui.telling import desktop_notice
from tests.tui import runs
from tests.tui.conftest import LARGE, Play, press, text_of, until, until_shown


def living(root: Path, name: str) -> LaunchRecord:
    runs.save(root / name, 1)
    argv = (sys.executable, "-c", "import time; time.sleep(600)")
    return start(Launch(backend="local", argv=argv, cwd=str(root)), str(root / name))


async def test_a_run_that_dies_is_told_by_line_terminal_and_hook(play: Play, tmp_path: Path) -> None:
    root, told = tmp_path / "checkpoints", tmp_path / "told"
    record = living(root, "run-2026-04-24_18-53-41 [bold]")
    hook = f"{sys.executable} -c \"import sys; open('{told}', 'w').write(sys.argv[1])\" {{run}}"
    written: list[str] = []
    async with play(root, size=LARGE, look=Look(notify=NotifySettings(terminal=True, failed=hook))) as pilot:
        pilot.app.telling.write = written.append
        await until(pilot, lambda: pilot.app.runs[0].is_alive, "the run alive")
        os.kill(record.leader.pid, signal.SIGKILL)
        await until_shown(pilot, "[bold]: failed")
        await until_shown(pilot, "killed by signal 9")
        await until(pilot, lambda: told.exists() and told.read_text() == "run-2026-04-24_18-53-41 [bold]", "the hook")
        assert written and written[0].startswith("\x1b]9;run-2026-04-24_18-53-41 [bold]: failed, killed by")


async def test_a_hook_that_fails_is_said_and_nothing_is_told_twice(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    record = living(root, "run-2026-04-24_18-53-41")
    async with play(root, size=LARGE, look=Look(notify=NotifySettings(failed="/no/such/hook"))) as pilot:
        await until(pilot, lambda: pilot.app.runs[0].is_alive, "the run alive")
        os.kill(record.leader.pid, signal.SIGKILL)
        await until_shown(pilot, "the hook /no/such/hook can't be started")
        await press(pilot, "f5")
        await until(pilot, lambda: text_of(pilot.app).count("41: failed") == 1, "one line")


def test_no_name_ends_the_notice_or_begins_another_code() -> None:
    words = desktop_notice("run\x07\x1b]52;c;aGk=\x07\x9c\n")
    assert words.startswith("\x1b]9;") and words.endswith("\x07")
    assert words[4:-1].isprintable()


def test_a_name_that_begins_as_a_terminals_command_is_a_name() -> None:
    assert desktop_notice("4;3;50: failed") == "\x1b]9;run 4;3;50: failed\x07"
