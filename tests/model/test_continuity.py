"""A curve that is cut and goes on is never called a jump; a jump is."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.continuity import FEW, LEAST, compare, stride
from lavender_tui.model.run import LossPoint

seeds = st.integers(0, 2**32)


def curve(seed: int, count: int, *, noise: float, fall: float, level: float = 2.0, memory: float = 0.0) -> list[float]:
    """A loss that falls to `level` with normal noise; `memory` makes it a running mean, as many trainers log it."""
    draw = random.Random(seed)
    drift, values = 0.0, []
    for at in range(count):
        drift = memory * drift + (1 - memory) * draw.gauss(0, noise)
        values.append((level + fall * math.exp(-5 * at / count)) * (1 + drift))
    return values


@given(
    seeds,
    st.integers(20, 400),
    st.floats(0.1, 0.9),
    st.floats(0, 0.2),
    st.floats(0, 4),
    st.floats(0, 0.9),
    st.sampled_from([1e-3, 1.0, 250.0]),
    st.integers(LEAST, 12),
)
def test_a_curve_cut_anywhere_goes_on(
    seed: int, count: int, part: float, noise: float, fall: float, memory: float, level: float, shown: int
) -> None:
    values = curve(seed, count + 12, noise=noise, fall=fall * level, level=level, memory=memory)
    cut = max(10, int(count * part))
    judged = compare(values[:cut], values[cut : cut + shown])
    assert judged is not None
    assert judged.agrees, judged.words


@given(seeds, st.integers(20, 400), st.floats(0, 0.1), st.integers(LEAST, 12))
def test_a_jump_is_seen(seed: int, count: int, noise: float, shown: int) -> None:
    values = curve(seed, count, noise=noise, fall=0.0)
    after = curve(seed + 1, shown, noise=noise, fall=0.0, level=5.7)
    judged = compare(values, after)
    assert judged is not None
    assert not judged.agrees
    assert judged.words.startswith("jumped: loss ")


@given(seeds, st.integers(0, FEW - 1), st.integers(0, FEW - 1), st.floats(3, 1e6))
def test_two_unlucky_values_of_the_first_few_are_outvoted(seed: int, one: int, other: int, wild: float) -> None:
    values = curve(seed, 60, noise=0.02, fall=1.0)
    after = values[50:55]
    after[one], after[other] = wild, wild
    judged = compare(values[:50], after)
    assert judged is not None
    assert judged.agrees, judged.words


@given(
    st.lists(st.none() | st.floats(), max_size=30),
    st.lists(st.none() | st.floats(), max_size=10),
    st.none() | st.floats(),
    st.booleans(),
)
def test_whatever_stands_there_is_judged_or_not(
    before: list[float | None], after: list[float | None], reference: float | None, both_ways: bool
) -> None:
    judged = compare(before, after, reference=reference, both_ways=both_ways)
    assert judged is None or judged.words


def test_words_as_a_person_reads_them() -> None:
    judged = compare([2.1] * 20, [5.7] * 5)
    assert judged is not None
    assert (judged.agrees, judged.words) == (False, "jumped: loss 2.1 → 5.7")


def test_no_number_after_numbers_is_a_jump() -> None:
    judged = compare([2.1] * 20, [2.1, None, None, None])
    assert judged is not None
    assert (judged.agrees, judged.words) == (False, "jumped: loss 2.1 → no number")


@pytest.mark.parametrize(("both_ways", "agrees"), [(True, False), (False, True)])
def test_far_lower_is_wrong_only_where_the_very_next_batch_was_due(both_ways: bool, agrees: bool) -> None:
    judged = compare([5.7, 5.6, 5.8, 5.7] * 5, [2.1, 2.0, 2.1], both_ways=both_ways)
    assert judged is not None
    assert judged.agrees is agrees


def test_without_a_curve_the_loss_in_the_checkpoint_is_the_measure() -> None:
    assert compare([], [2.3, 2.2, 2.25], reference=2.2) is not None
    near, far = compare([], [2.3, 2.2, 2.25], reference=2.2), compare([], [5.3, 5.2, 5.25], reference=2.2)
    assert near is not None and near.agrees
    assert far is not None and not far.agrees
    assert compare([], [2.0, 2.0, 2.0]) is None


def test_the_usual_distance_of_two_lines() -> None:
    points = [LossPoint(step=step, loss=1.0) for step in (10, 20, 30, 31, 41)]
    assert stride(points) == 10
    assert stride(points[:1]) == 0
