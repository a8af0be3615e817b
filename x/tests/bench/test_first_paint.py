"""From exec to the first frame with rows: 200 runs of 10 checkpoints, against a bare Textual app with 200 rows.

Both run in a pseudo-terminal of 120x40, in turns, so that load on the machine meets both alike.
"""

from __future__ import annotations

import shutil
import statistics
from pathlib import Path

import pytest

from tests.bench.terminal import OURS, Terminal
from tests.tui import runs

RUNS, CHECKPOINTS, ROUNDS = 200, 10, 7
MOST = 1.5
BARE = """
from textual.app import App
from textual.widgets import DataTable
class Bare(App):
    def compose(self):
        yield DataTable()
    def on_mount(self):
        table = self.query_one(DataTable)
        table.add_columns("run", "state", "stage", "epoch", "saves", "loss", "saved", "left")
        for number in range(200):
            name = f"run-2026-01-01_00-{number:03d}"
            table.add_row(name, "running", "pretrain", "1/3", "0010", "2.4000", "3 h", "31 h")
Bare().run()
"""


@pytest.fixture(scope="module")
def many_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("many") / "checkpoints"
    first = root / "run-2026-01-01_00-00-00"
    for count in range(1, CHECKPOINTS + 1):
        runs.save(first, count, each=2 * count, age_seconds=60 * (CHECKPOINTS - count))
    for number in range(1, RUNS):
        shutil.copytree(first, root / f"run-2026-01-01_{number // 60:02d}-{number % 60:02d}-00")
    return root


def seconds_to_rows(cache: Path, *arguments: str) -> float:
    """From before the fork until the name of a run is on the terminal."""
    with Terminal(cache, *arguments) as terminal:
        return terminal.wait_for(b"run-2026-01-01_0") - terminal.started


@pytest.mark.bench
def test_first_rows(many_runs: Path, tmp_path: Path, record_property) -> None:
    def ours_once() -> float:
        return seconds_to_rows(tmp_path, OURS, str(many_runs))

    def bare_once() -> float:
        return seconds_to_rows(tmp_path, BARE)

    ours_once(), bare_once()  # compiles both once, as an installation does
    pairs = [(ours_once(), bare_once()) for _ in range(ROUNDS)]
    ours, bare = (min(column) for column in zip(*pairs, strict=True))
    middle = statistics.median(one / other for one, other in pairs)
    words = f"first rows {ours:.3f} s, bare Textual {bare:.3f} s: {ours / bare:.2f}x (median of pairs {middle:.2f}x)"
    record_property("first_paint", words)
    print(words)
    assert ours <= MOST * bare, words
