"""Chains of real trainings: real torchrun, real tables, real kills; small enough for two cores."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from lavender_tui.demo.chain import GLOBAL_BATCH, NUM_SPLITS, Chain
from lavender_tui.demo.corpus import make_corpus
from lavender_tui.demo.coverage import Coverage, judge
from lavender_tui.demo.order import global_batches

ROWS = 1536  # 48 steps
TINY = ("--width", "16", "--layers", "1", "--experts", "2")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that is copied for every chain: a training puts tags on its table."""
    place = tmp_path_factory.mktemp("corpus") / "data"
    make_corpus(str(place), ROWS)
    return place


@pytest.fixture(scope="session")
def expected(corpus: Path) -> Callable[[int], list[list[int]]]:
    """`expected(epoch)`: the global batches of that epoch (1-based), as nothing interrupts it."""
    return cache(
        lambda epoch: global_batches(str(corpus), epoch=epoch, num_splits=NUM_SPLITS, global_batch=GLOBAL_BATCH)
    )


@pytest.fixture
def make_chain(tmp_path: Path, corpus: Path, nothing_survives: object) -> Iterator[Callable[..., Chain]]:
    """`make_chain(save_seconds=0.4, pause=0.1, epochs=1)`: a chain of the tiny model, ended after the test."""
    chains: list[Chain] = []

    def make(*, save_seconds: float = 0.4, pause: float = 0.1, epochs: int = 1) -> Chain:
        options = (*TINY, "--epochs", str(epochs), "--save-seconds", str(save_seconds), "--pause", str(pause))
        directory = tmp_path / f"chain{len(chains)}"
        shutil.copytree(corpus, directory / "data")
        chains.append(Chain(str(directory), rows=ROWS, options=options))
        return chains[-1]

    yield make
    for chain in chains:
        chain.close()


@pytest.fixture
def coverage_of(expected: Callable[[int], list[list[int]]]) -> Callable[..., Coverage]:
    """`coverage_of(chain, epoch=1)` judges a whole chain from the rows that its trainings logged."""
    return lambda chain, epoch=1: judge(chain.generations(), expected(epoch), epoch=epoch)
