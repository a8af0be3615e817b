"""The app at rest in a terminal: its share of a processor, and the bytes that it sends, as over a slow ssh line."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.identity import process_stat
from lavender_tui.launch.record import ProcessId
from tests.bench.terminal import OURS, Terminal
from tests.tui import runs

SECONDS = 20.0
REST_SECONDS = 8.0  # until it has looked at everything twice
LIVING = 50
MOST_LIVING_PERCENT = 2.0

pytestmark = pytest.mark.bench


def at_rest(cache: Path, root: Path, shown: bytes) -> tuple[float, float]:
    """(percent of a processor, bytes a second)."""
    with Terminal(cache, OURS, str(root)) as terminal:
        terminal.wait_for(shown)
        terminal.read_for(REST_SECONDS)
        begun, spent = time.perf_counter(), terminal.cpu_seconds()
        written = terminal.read_for(SECONDS)
        seconds = time.perf_counter() - begun
        return (terminal.cpu_seconds() - spent) / seconds * 100, len(written) / seconds


def test_nothing_changes(tmp_path: Path, record_property) -> None:
    root = tmp_path / "checkpoints"
    for number in range(50):
        runs.save(root / f"run-2026-03-01_00-{number:02d}-00", 1, age_seconds=86_400 * 3)
    percent, rate = at_rest(tmp_path / "cache", root, b"idle")
    words = f"50 runs, nothing changing: {percent:.2f} % of a processor, {rate:.0f} bytes/s"
    record_property("idle", words)
    print("\n" + words)
    assert percent < 0.5 and rate < 200, words


@pytest.fixture
def living(tmp_path: Path) -> Iterator[Path]:
    """50 runs with a process each, found by its record; they save every half hour, at different times."""
    root = tmp_path / "checkpoints"
    children: list[subprocess.Popen[bytes]] = []
    for number in range(LIVING):
        run = root / f"run-2026-03-01_00-{number:02d}-00"
        runs.save(run, 1, age_seconds=36 * number)
        children.append(subprocess.Popen(["sleep", "600"], env={**os.environ, "LAVENDER_RUN_DIR": str(run)}))
        stat = process_stat(children[-1].pid)
        assert stat is not None
        runs.launched(run, ["train"], leader=ProcessId(pid=children[-1].pid, start_ticks=stat[2]))
    yield root
    for child in children:
        child.kill()
        child.wait()


def test_living_runs(living: Path, tmp_path: Path, record_property) -> None:
    percent, rate = at_rest(tmp_path / "cache", living, b"running")
    words = f"{LIVING} living runs: {percent:.2f} % of a processor, {rate:.0f} bytes/s"
    record_property("living", words)
    print("\n" + words)
    assert percent < MOST_LIVING_PERCENT and rate < 200, words
