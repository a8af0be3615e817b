"""What each front door loads, seen in a fresh interpreter."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"torch", "lancedb", "pyarrow", "numpy"}

DOORS = [
    ("lavender_tui", HEAVY | {"textual", "click", "psutil"}),
    ("lavender_tui.cli", HEAVY | {"textual", "psutil", "watchdog"}),
    ("lavender_tui.training", HEAVY | {"textual", "psutil", "click"}),
    ("lavender_tui.checkpoints", HEAVY | {"textual", "psutil", "click"}),
    ("lavender_tui.launch.record", HEAVY | {"textual", "psutil", "click"}),
    ("lavender_tui.watch.scan", HEAVY | {"textual"}),
    ("lavender_tui.resume", HEAVY | {"textual"}),
    ("lavender_tui.tui.start", HEAVY | {"textual"}),
    ("lavender_tui.tui.app", HEAVY),
]


@pytest.mark.parametrize(("door", "absent"), DOORS, ids=[door for door, _ in DOORS])
def test_a_front_door_loads_only_its_own_floor(door: str, absent: set[str]) -> None:
    code = f"import sys, {door}; print(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert "lavender_tui" in loaded
    assert not loaded & absent


FIRST_FRAME = """
import asyncio, sys
from lavender_tui.tui import feed
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.feed import Feed

feed.FRAME_SECONDS = 60.0  # a frame that is slow to come changes nothing of what it needs
loaded = []
go_on = Feed.go_on
Feed.go_on = lambda feed: (loaded.extend(sys.modules), go_on(feed))

async def main():
    app = LavenderApp([sys.argv[1]])
    app.feed.start()
    async with app.run_test() as pilot:
        while not loaded:
            await pilot.pause()
        shown = [run.name for run in app.runs]
    print(*shown, *loaded)

asyncio.run(main())
"""
NOT_FOR_THE_FIRST_FRAME = HEAVY | {
    "psutil", "watchdog", "click", "ctypes", "json", "hashlib", "getpass", "pwd", "secrets", "shlex", "tomllib",
    "lavender_tui.checkpoints", "lavender_tui.launch", "lavender_tui.logs", "lavender_tui.resume",
    "lavender_tui.training", "lavender_tui.watch", "lavender_tui.model.plan", "lavender_tui.model.rank_state",
    "lavender_tui.model.lineage", "lavender_tui.model.query", "lavender_tui.tui.messages",
}  # fmt: skip


def test_the_first_frame_has_the_names_and_loads_nothing_else(tmp_path: Path) -> None:
    """What asyncio and Textual load themselves (subprocess, socket) isn't ours to leave out."""
    (tmp_path / "run-2026-01-01_00-00-00").mkdir()
    command = [sys.executable, "-c", FIRST_FRAME, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    name, *loaded = done.stdout.split()
    assert name == "run-2026-01-01_00-00-00" and "lavender_tui.tui.screens.runs" in loaded
    bare = (
        "import sys, asyncio, textual.app, textual.widgets, textual.scroll_view, textual.command; print(*sys.modules)"
    )
    textual = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, check=True).stdout.split()
    assert not {one for one in loaded if one.startswith("lavender_tui") or one not in textual} & NOT_FOR_THE_FIRST_FRAME


def test_an_interrupt_while_it_starts_ends_it_without_a_traceback() -> None:
    script = """
import os, signal, sys

class Impatient:
    def find_spec(self, name, *_):
        if name == "click":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Impatient())
from lavender_tui.__main__ import main
main()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT and done.stderr == ""
