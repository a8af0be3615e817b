"""What each front door loads, seen in a fresh interpreter."""

from __future__ import annotations

import signal
import subprocess
import sys

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
