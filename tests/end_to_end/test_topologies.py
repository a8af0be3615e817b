"""The promise: whatever the world sizes, whenever it is killed, every row of the epoch is trained exactly once."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

SIZES = (1, 2, 4, 8)
# Every ordered pair of sizes occurs as (size of a RESUMED run, size of the run resumed from it). The first life of a
# chain proves little: most wrong merges are harmless to states that were never loaded from a merge.
CHAINS = (
    (2, 1, 1, 2, 1, 4),
    (1, 4, 1, 8, 2, 2),
    (1, 2, 4, 2, 8, 4),
    (2, 4, 4, 8, 8, 1),
)


def live(chain, sizes, first_kills):
    """Train through all `sizes`, killing each life but the last at a step of its own."""
    chain.start(sizes[0])
    for size, extra in zip(sizes[1:], first_kills, strict=True):
        base = chain.generations()[-2].last_step if len(chain.runs) > 1 else 0
        chain.wait_for_work_after_a_save(1, not_before=base + extra)
        chain.kill()
        chain.wait_for_end()
        chain.resume(size)
    assert chain.wait_for_end() == 0


def test_every_pair_of_sizes_occurs_after_a_resume():
    pairs = {pair for sizes in CHAINS for pair in list(pairwise(sizes))[1:]}
    assert pairs == set(product(SIZES, SIZES))


def test_two_ranks_then_four_then_one(make_chain, coverage_of):
    chain = make_chain()
    live(chain, (2, 4, 1), (5, 4))
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage
    assert coverage.steps == 48


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sizes", CHAINS, ids=lambda sizes: "-".join(map(str, sizes)))
def test_every_pair_of_sizes_over_resumes_in_a_row(make_chain, coverage_of, sizes):
    chain = make_chain(pause=0.2)  # five kills come before its end, late as they may be
    live(chain, sizes, (5, 3, 7, 2, 4))
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage


@pytest.mark.long
@pytest.mark.parametrize(
    ("save_seconds", "kills"),
    [(1000, (50, 99)), (0.4, (60, 120))],
    ids=["saved at the ends of epochs only", "saved in the middle of epochs 2 and 3"],
)
def test_over_the_ends_of_epochs(make_chain, coverage_of, save_seconds, kills):
    chain = make_chain(save_seconds=save_seconds, pause=0.05, epochs=3)
    chain.start(2)
    for step, size in zip(kills, (4, 1), strict=True):
        chain.wait_for_work_after_a_save(1, not_before=step)
        chain.kill()
        chain.wait_for_end()
        chain.resume(size)
    assert chain.wait_for_end() == 0
    for epoch in (1, 2, 3):
        coverage = coverage_of(chain, epoch)
        assert coverage.is_exact, (epoch, coverage)
