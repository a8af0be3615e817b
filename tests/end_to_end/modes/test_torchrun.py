"""The same with everything real: torchrun, gloo, kill -9 of agent and ranks, and `lavender-tui`'s own resume."""

from __future__ import annotations

import os
import sys

import pytest

from lavender_tui.demo.chain import Chain
from lavender_tui.demo.coverage import judge
from lavender_tui.launch import start
from lavender_tui.launch.command import build
from lavender_tui.launch.record import new_run_id
from lavender_tui.launch.run_dir import new_run_dir
from tests.end_to_end.modes import script
from tests.end_to_end.modes.kinds import PACKED, ROWS, make_table, uninterrupted

pytestmark = pytest.mark.filterwarnings("ignore:blocks_per_epoch='auto':UserWarning", "ignore::DeprecationWarning")


class KindChain(Chain):
    """A chain whose training is this folder's script."""

    def start(self, world_size):
        run_dir = new_run_dir(self.root)
        run_id = new_run_id(run_dir)
        words = (sys.executable, os.path.abspath(script.__file__), "--data", self.data, "--root", self.root)
        words += self.options
        launch = build(words, world_size=world_size, run_dir=run_dir, run_id=run_id, cwd=self.directory)
        start(launch, run_dir, run_id=run_id, world_size=world_size, command=words)
        self.runs.append(run_dir)
        return run_dir


@pytest.fixture
def chain_of(tmp_path, nothing_survives):
    made = []

    def make(kind, rows, *options):
        chain = KindChain(str(tmp_path), rows=rows, options=("--kind", kind.title, *options))
        make_table(chain.data, rows)
        made.append(chain)
        return chain

    yield make
    for chain in made:
        chain.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "rows", "workers", "sizes"),
    [(PACKED, 1000, 0, (2, 4, 1)), (ROWS, 485, 2, (2, 1, 2))],
    ids=["packed", "two workers"],
)
def test_two_kills_and_every_row_once(chain_of, kind, rows, workers, sizes):
    chain = chain_of(kind, rows, "--num-workers", str(workers))
    chain.start(sizes[0])
    for size in sizes[1:]:
        chain.wait_for_work_after_a_save(1)  # of two a slow machine has none between two saves
        chain.kill()
        chain.wait_for_end()
        chain.resume(size)
    assert chain.wait_for_end() == 0
    coverage = judge(chain.generations(), uninterrupted(chain.data, kind, 16))
    assert coverage.is_exact, coverage
    assert coverage.steps >= 30
