"""A jump of the loss is found; noise, however it falls, is none."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.run import LossPoint
from lavender_tui.model.spikes import LEAST, newest_spike, spikes


def series(*losses: float | None) -> list[LossPoint]:
    return [LossPoint(step=10 * at, loss=loss, is_no_number=loss is None) for at, loss in enumerate(losses)]


def noisy(seed: int, count: int, noise: float, level: float = 2.5, fall: float = 0.0) -> list[float]:
    """A loss that falls to its level, with normal noise of this share."""
    draw = random.Random(seed)
    return [(level + fall * math.exp(-8 * at / count)) * (1 + draw.gauss(0, noise)) for at in range(count)]


seeds, counts = st.integers(0, 2**32), st.integers(0, 400)


@given(seeds, counts, st.floats(0, 0.15), st.floats(0, 8))
def test_normal_noise_is_no_spike(seed: int, count: int, noise: float, fall: float) -> None:
    assert spikes(series(*noisy(seed, count, noise, fall=fall))) == ()


@given(st.lists(st.floats(-0.1, 0.1), max_size=200), st.floats(1e-3, 1e3))
def test_noise_of_any_shape_within_a_tenth_is_no_spike(noise: list[float], level: float) -> None:
    assert spikes(series(*(level * (1 + one) for one in noise))) == ()


@given(st.lists(st.floats(0.1, 10), min_size=10, max_size=100))
def test_a_loss_that_only_falls_is_no_spike(losses: list[float]) -> None:
    assert spikes(series(*sorted(losses, reverse=True))) == ()


@given(seeds, st.integers(20, 300), st.floats(0, 0.1), st.integers(1, 40), st.floats(3, 50))
def test_a_jump_that_stays_is_found_where_it_begins(
    seed: int, before: int, noise: float, after: int, times: float
) -> None:
    quiet = noisy(seed, before, noise)
    jump = [times * value for value in noisy(seed + 1, after, noise)]
    found = spikes(series(*quiet, *jump))
    assert [one.step for one in found] == [10 * before]
    assert found[0].after == jump[0] and found[0].before == pytest.approx(2.5, rel=0.3)


@given(seeds, st.integers(LEAST, 200), st.integers(0, 50))
def test_what_is_no_number_is_a_spike(seed: int, before: int, after: int) -> None:
    found = newest_spike(series(*noisy(seed, before, 0.05), *[None] * (after + 1)))
    assert found is not None and (found.step, found.after) == (10 * before, None)
    assert str(found).endswith("→ no number)")


anything = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


@given(st.lists(anything, max_size=100))
def test_whatever_the_losses_are_it_ends_in_an_answer(losses: list[float | None]) -> None:
    for spike in spikes(series(*losses)):
        assert losses[spike.index] == spike.after


def test_a_single_wild_value_that_is_over_at_once_is_noise() -> None:
    assert spikes(series(*[2.0] * 20, 30.0, *[2.0] * 20)) == ()


@pytest.mark.parametrize(("seed", "before", "after"), [(341, 61, 22), (378, 38, 19), (395, 55, 36), (556, 36, 37)])
def test_a_level_that_is_noisy_itself_is_one_jump(seed: int, before: int, after: int) -> None:
    """The jump is of three times with a tenth of noise: single values of it fall below what is surely high."""
    up = [3 * value for value in noisy(seed + 1, after, 0.1)]
    assert [one.step for one in spikes(series(*noisy(seed, before, 0.1), *up))] == [10 * before]


@pytest.mark.parametrize(("seed", "before", "after"), [(121, 21, 2), (281, 61, 2), (400, 60, 1)])
def test_the_first_values_of_a_jump_are_enough(seed: int, before: int, after: int) -> None:
    up = [3 * value for value in noisy(seed + 1, after, 0.1)]
    assert [one.step for one in spikes(series(*noisy(seed, before, 0.1), *up))] == [10 * before]


def test_a_loss_that_came_down_may_jump_again_soon() -> None:
    losses = [*[2.0] * 20, *[9.0] * 5, *[2.0] * 4, *[9.0] * 5, *[2.0] * 8]
    assert [one.step for one in spikes(series(*losses))] == [200, 290]


def test_the_last_of_two_jumps_is_the_newest() -> None:
    up = [9.0] * 6
    losses = [*[2.0] * 20, *up, *[2.1] * 20, *up]
    assert [one.step for one in spikes(series(*losses))] == [200, 460]
    newest = newest_spike(series(*losses))
    assert newest is not None and newest.step == 460


def test_few_saves_say_enough_for_a_loss_that_exploded() -> None:
    assert newest_spike(series(3.1, 2.9, 2.8, 2.8, 9.5)) is not None
    assert newest_spike(series(3.1, 2.9, 2.8, 2.8, 3.0)) is None
    assert newest_spike(series(3.1, 2.9, 9.5)) is None  # too few to say what is usual


def test_lines_without_a_loss_and_a_loss_that_never_was_a_number_say_nothing() -> None:
    without = [LossPoint(step=at, loss=None) for at in range(50)]
    assert newest_spike(without) is None
    assert newest_spike([*series(*[2.0] * 10), *without]) is None
    assert newest_spike(series(None, None, None)) is None
    assert newest_spike([]) is None


def test_around_zero_a_change_counts_against_the_way_that_was_gone() -> None:
    assert newest_spike(series(5.0, 2.0, 0.5, 0.1, *[0.0] * 20, *[0.01] * 10)) is None
    assert newest_spike(series(5.0, 2.0, 0.5, 0.1, *[0.0] * 20, *[3.0] * 10)) is not None
