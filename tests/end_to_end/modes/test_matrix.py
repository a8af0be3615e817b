"""Every way of reading, over two resumes in a row on other topologies: each row once, each step as without a break."""

from __future__ import annotations

from itertools import pairwise

import pytest

from lavender_tui.resume import warm_child
from tests.end_to_end.modes.kinds import FILTERED, KINDS, PACKED, ROWS, SKIPPING, make_table, uninterrupted
from tests.end_to_end.modes.lives import Topology, Training

pytestmark = pytest.mark.filterwarnings("ignore:blocks_per_epoch='auto':UserWarning", "ignore::DeprecationWarning")
SIZES = ((2, 4, 1), (4, 1, 2), (1, 8, 4), (8, 2, 2))


@pytest.fixture(scope="module")
def child():
    with warm_child() as made:
        yield made


@pytest.fixture
def begin(tmp_path, child):
    def make(kind, rows=197):  # 5 more than the splits share
        training = Training(str(tmp_path), kind, child)
        make_table(training.uri, rows)
        return training

    return make


def live_three_times(training, topologies):
    """Two kills, each with work since the last save that is lost and done again."""
    first, second, third = topologies
    training.live(first, saves=(1, 3), until=5)
    training.live(second, saves=(5,), until=6)
    training.live(third)
    training.assert_exact(third)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_two_ranks_then_four_then_one(begin, kind):
    live_three_times(begin(kind), [Topology(world_size=size) for size in SIZES[0]])


@pytest.mark.long
@pytest.mark.parametrize("sizes", SIZES[1:], ids=lambda sizes: "-".join(map(str, sizes)))
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_every_kind_on_other_topologies(begin, kind, sizes):
    live_three_times(begin(kind), [Topology(world_size=size) for size in sizes])


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "sizes", "workers"),
    [
        (ROWS, (2, 1, 2), (1, 1, 1)),
        (ROWS, (1, 2, 1), (2, 2, 2)),
        (ROWS, (4, 1, 2), (0, 2, 1)),
        (FILTERED, (1, 2, 1), (2, 1, 2)),
        (SKIPPING, (1, 2, 1), (2, 1, 2)),
        (PACKED, (1, 2, 1), (2, 1, 2)),
    ],
    ids=str,
)
def test_every_kind_with_workers(begin, kind, sizes, workers):
    live_three_times(begin(kind), [Topology(world_size=w, num_workers=n) for w, n in zip(sizes, workers, strict=True)])


def test_the_sizes_both_grow_and_shrink_after_a_resume():
    moves = [after - before for sizes in SIZES for before, after in list(pairwise(sizes))[1:]]
    assert min(moves) < 0 < max(moves) and 0 in moves


def test_what_is_compared_is_what_it_should_be(begin):
    """The kinds do what they are for: the filter takes rows out, bad rows are skipped, and blocks hold several rows."""
    training = begin(ROWS)
    read = {kind: [one for step in uninterrupted(training.uri, kind, 16) for one in step] for kind in KINDS}
    assert len(read[ROWS]) == len(set(read[ROWS])) == 192
    assert len(read[FILTERED]) == len(set(read[FILTERED])) == 152
    assert not any(int(name) % 5 == 2 for name in read[FILTERED])
    assert len(read[SKIPPING]) == len(set(read[SKIPPING])) < 180
    assert not any(int(name) % 11 == 3 for name in read[SKIPPING])
    assert len(read[PACKED]) > 96


@pytest.mark.parametrize(("by", "seen"), [(1, "lost"), (-1, "repeated")])
def test_a_position_that_is_one_cycle_off_is_seen(tmp_path, child, by, seen):
    class Spoilt(Training):
        def written(self, plan):
            for key in ("samples_consumed_per_split", "positions_consumed_per_split"):
                plan["dataset"][key] = [count + by for count in plan["dataset"][key]]
            return plan

    training = Spoilt(str(tmp_path), ROWS, child)
    make_table(training.uri, 197)
    with pytest.raises(AssertionError, match=seen):
        live_three_times(training, [Topology(world_size=1)] * 3)
