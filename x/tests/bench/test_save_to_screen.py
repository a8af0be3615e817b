"""From a save to the snapshot that has it, and how long a first list takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from lavender_tui.watch.index import Index
from lavender_tui.watch.observe import Snapshot, Watcher
from lavender_tui.watch.scan import scan

SAVES = 100
RUNS, CHECKPOINTS = 200, 10
MAKE_MANY = """\
import sys
from pathlib import Path
from tests.watch import saves
contents = [saves.as_bytes(save_count=count) for count in range(1, int(sys.argv[3]) + 1)]
for number in range(int(sys.argv[2])):
    run = Path(sys.argv[1]) / f"run-2025-03-{1 + number // 24:02d}_{number % 24:02d}-00-00"
    run.mkdir()
    for count, content in enumerate(contents, 1):
        (run / saves.name(count)).write_bytes(content)
"""

pytestmark = pytest.mark.bench


class Arrivals:
    """When a checkpoint was first delivered as whole, by its path; `time.monotonic()` seconds."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        self.snapshots: list[tuple[float, Snapshot]] = []
        self.news = threading.Condition()

    def __call__(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        with self.news:
            self.snapshots.append((now, snapshot))
            for run in snapshot.runs:
                for one in run.checkpoints:
                    if one.is_whole:
                        self.at.setdefault(one.path, now)
            self.news.notify_all()

    def wait_for(self, path: str) -> float:
        with self.news:
            assert self.news.wait_for(lambda: path in self.at, timeout=10), f"{path} never came"
            return self.at[path]


@pytest.mark.parametrize("way", ["rename", "direct"])
def test_save_to_snapshot(tmp_path: Path, way: str):
    run = tmp_path / "run-2025-03-14_09-00-00"
    command = [sys.executable, "-m", "tests.watch.writer", str(run), way, "1", str(SAVES + 1)]
    arrivals = Arrivals()
    watcher = Watcher([str(tmp_path)], arrivals)
    delays = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as writer:
        assert writer.stdin and writer.stdout
        assert writer.stdout.readline() == "ready\n"
        watcher.start()
        for _ in range(SAVES + 1):
            writer.stdin.write("\n")
            at, path = writer.stdout.readline().rstrip("\n").split(" ", 1)
            delays.append((arrivals.wait_for(path) - float(at)) * 1000)
    watcher.close()
    watcher.join(5)
    del delays[0]  # the first save makes the run directory and waits for watchdog's start
    ordered = sorted(delays)
    p50, p99 = statistics.median(ordered), ordered[int(len(ordered) * 0.99) - 1]
    print(f"\n{way} to snapshot: p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {ordered[-1]:.1f} ms over {SAVES} saves")
    assert p99 < 150


def test_save_to_screen(tmp_path: Path):
    """From the rename to the new count on the terminal, among 50 runs; saves come at uneven distances."""
    from tests.bench.terminal import OURS, Terminal
    from tests.tui import runs

    root, made = tmp_path / "checkpoints", tmp_path / "made"
    live = root / "run-2026-04-24_18-53-41"
    runs.save(live, 1000)
    for number in range(50):
        runs.save(root / f"run-2026-03-01_00-{number:02d}-00", 1)
    saves = [runs.save(made, 1001 + number, age_seconds=0) for number in range(SAVES)]
    delays = []
    with Terminal(tmp_path / "cache", OURS, str(root)) as terminal:
        terminal.wait_for(b"1000")
        time.sleep(3)  # the app has come to rest
        for number, path in enumerate(saves):
            time.sleep(0.1 + (number * 37 % 50) / 100)
            renamed = time.perf_counter()
            os.rename(path, live / path.name)
            delays.append((terminal.wait_for(str(1001 + number).encode(), 10) - renamed) * 1000)
    p50, p99, worst = statistics.median(delays), sorted(delays)[int(SAVES * 0.99) - 1], max(delays)
    print(f"\nrename to screen: p50 {p50:.1f} ms, p99 {p99:.1f} ms, worst {worst:.1f} ms over {SAVES} saves")
    assert p99 < 150


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many")
    subprocess.run([sys.executable, "-c", MAKE_MANY, str(root), str(RUNS), str(CHECKPOINTS)], check=True)
    return root


def test_first_snapshot_of_many_runs(many_runs: Path):
    arrivals = Arrivals()
    watcher = Watcher([str(many_runs)], arrivals)
    begun = time.monotonic()
    watcher.start()
    with arrivals.news:
        assert arrivals.news.wait_for(lambda: any(one.is_complete for _, one in arrivals.snapshots), timeout=60)
    watcher.close()
    watcher.join(5)
    at, first = arrivals.snapshots[0]
    done, last = next((at, one) for at, one in arrivals.snapshots if one.is_complete)
    read = sum(run.newest is not None for run in first.runs)
    print(
        f"\nfirst snapshot: {(at - begun) * 1000:.0f} ms, {len(first.runs)} runs, newest read of {read}; "
        f"complete after {(done - begun) * 1000:.0f} ms in {len(arrivals.snapshots)} snapshots"
    )
    assert len(first.runs) == RUNS
    assert all(len(run.checkpoints) == CHECKPOINTS for run in last.runs)
    assert at - begun < 0.6


def test_full_scan_of_many_runs(many_runs: Path):
    index = Index()
    begun = time.monotonic()
    scan([str(many_runs)], index=index)
    cold = time.monotonic() - begun
    begun = time.monotonic()
    runs = scan([str(many_runs)], index=index)
    warm = time.monotonic() - begun
    print(f"\nfull scan of {RUNS} runs with {CHECKPOINTS} checkpoints: {cold:.2f} s, again {warm * 1000:.0f} ms")
    assert index.reads == RUNS * CHECKPOINTS
    assert len(runs) == RUNS
    assert warm < cold / 3
