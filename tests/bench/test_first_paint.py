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
MOST = 1.3
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


def until_rows(cache: Path, text: bytes, *arguments: str) -> tuple[float, float]:
    """(seconds from before the fork until `text` is on the terminal, seconds of processor spent for that)."""
    with Terminal(cache, *arguments) as terminal:
        at = terminal.wait_for(text)
        return at - terminal.started, terminal.cpu_seconds()


def told(what: str, ours: list[tuple[float, float]], bare: list[tuple[float, float]]) -> tuple[float, str]:
    """(the median of the ratios of processor time, and all of it in words)."""
    seconds, spent = (min(one[part] for one in ours) for part in (0, 1))
    ratios = [one[1] / other[1] for one, other in zip(ours, bare, strict=True)]
    middle = statistics.median(ratios)
    return middle, f"{what} {seconds:.3f} s ({spent:.3f} s of processor): {middle:.2f}x"


@pytest.mark.bench
def test_first_rows(many_runs: Path, tmp_path: Path, record_property) -> None:
    """The goal is 1.3 times, of what the processors do: on a busy machine both wait for others.

    A person sees three things after each other: the names, what the newest checkpoints hold, and the states.
    """
    name, stage, state = b"run-2026-01-01_0", b"pretrain", b"idle"

    def ours_once(text: bytes) -> tuple[float, float]:
        return until_rows(tmp_path, text, OURS, str(many_runs))

    ours_once(state), until_rows(tmp_path, name, BARE)  # compiles both once, as an installation does
    rounds = [(until_rows(tmp_path, name, BARE), *map(ours_once, (name, stage, state))) for _ in range(ROUNDS)]
    bare, *ours = (list(column) for column in zip(*rounds, strict=True))
    parts = ("names", "and what the newest checkpoints hold", "and the states")
    found = [told(what, column, bare) for what, column in zip(parts, ours, strict=True)]
    words = f"bare Textual {min(one[1] for one in bare):.3f} s of processor; " + "; ".join(one for _, one in found)
    record_property("first_paint", words)
    print(words)
    assert found[0][0] <= MOST and found[1][0] <= MOST, words
