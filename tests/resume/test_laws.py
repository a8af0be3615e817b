"""The law: whatever the splits, the world sizes, the kills and the way of reading, each row is trained exactly once."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lavender_tui.resume import Child, warm_child
from tests.end_to_end.modes.kinds import KINDS, PACKED, Kind, make_table, uninterrupted
from tests.end_to_end.modes.lives import Topology, Training

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:blocks_per_epoch='auto':UserWarning", "ignore::DeprecationWarning"),
]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with warm_child() as made:
        yield made


def divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


@st.composite
def plans(draw: st.DrawFn) -> dict[str, Any]:
    """Three lives: their topologies, where each is saved and killed, and what they read."""
    kind = draw(st.sampled_from(KINDS))
    splits = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
    sizes = draw(st.lists(st.sampled_from(divisors(splits)), min_size=3, max_size=3))
    cycles = draw(st.integers(1, 2))
    return {
        "kind": kind,
        "splits": splits,
        "sizes": sizes,
        "step_rows": splits * cycles,
        "rows": splits * cycles * draw(st.integers(8, 14)) + draw(st.integers(0, splits * cycles - 1)),
        "kills": [(draw(st.integers(1, 2)), draw(st.integers(0, 1))) for _ in range(2)],
    }


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(plan=plans())
def test_each_row_once_whatever_happens(child: Child, plan: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        _live(directory, child, **plan)


def _live(
    directory: str,
    child: Child,
    *,
    kind: Kind,
    splits: int,
    sizes: list[int],
    step_rows: int,
    rows: int,
    kills: list[tuple[int, int]],
) -> None:
    """Each life but the last: so many steps to its save, so many after it that the kill throws away."""
    training = Training(directory, kind, child, splits=splits)
    make_table(training.uri, rows)
    topologies = [Topology(world_size=size, step_rows=step_rows) for size in sizes]
    done = 0
    for topology, (until_save, beyond) in zip(topologies, kills, strict=False):
        done += until_save
        training.live(topology, saves=(done,), until=done + beyond)
    training.live(topologies[-1])
    training.assert_exact(topologies[-1])


def test_an_epoch_that_is_cut_within_a_cycle_is_read_once_too(tmp_path: Any, child: Child) -> None:
    """A batch that is no multiple of the splits: other steps, and still each row once."""
    for number, sizes in enumerate(((1, 2, 4), (4, 2, 1), (2, 4, 2))):
        directory = str(tmp_path / str(number))
        os.makedirs(directory)
        kind = KINDS[number % 2]
        _live(directory, child, kind=kind, splits=8, sizes=list(sizes), step_rows=12, rows=205, kills=[(3, 1), (2, 0)])


def test_blocks_of_rows_that_share_them_are_told_apart(tmp_path: Any) -> None:
    uri = str(tmp_path / "data")
    make_table(uri, 60)
    blocks = [one for step in uninterrupted(uri, PACKED, 8) for one in step]
    told = [name for name in blocks if any(word not in "01" for word in name.split(","))]
    assert len(told) == len(set(told)) > 20
