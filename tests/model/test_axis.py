"""Where ticks stand and what is written at them."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lavender_tui.model.axis import labels, log_labels, log_ticks, ticks

LIMITS = st.tuples(st.floats(-1e299, 1e299), st.floats(1e-12, 1e299)).map(lambda ends: (ends[0], ends[0] + ends[1]))


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (2.4, 4.3, "2.5 3.0 3.5 4.0"),
        (0, 6_100, "0 2,000 4,000 6,000"),
        (2.25e-4, 3.75e-4, "2.5e-4 3.0e-4 3.5e-4"),
        (-1, 1, "-1.0 -0.5 0.0 0.5 1.0"),
        (1e14, 1e15, "2.0e14 4.0e14 6.0e14 8.0e14 1.0e15"),
    ],
)
def test_numbers_are_round_and_told_apart(low: float, high: float, shown: str) -> None:
    assert " ".join(labels(ticks(low, high, 5))) == shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [
        (0.3, 40, "0.5 1 2 5 10 20"),
        (1.5, 25, "2 5 10 20"),
        (0.5, 4.4, "1 2 3 4"),
        (1e-4, 3, "1e-4 0.001 0.01 0.1 1"),
        (2.4, 4.3, "2.5 3.0 3.5 4.0"),
        (1e-300, 1e299, "1e-300 1e-200 1e-100 1 1e100 1e200"),
    ],
)
def test_a_log_scale_has_the_numbers_themselves(low: float, high: float, shown: str) -> None:
    assert " ".join(log_labels(log_ticks(low, high, 6))) == shown


def test_a_high_log_scale_has_more_of_them() -> None:
    assert log_labels(log_ticks(0.5, 4.4, 16)) == ["0.5", "0.6", "0.7", "0.8", "0.9", "1", "2", "3", "4"]
    assert log_labels(log_ticks(0.3, 40, 3)) == ["1", "10"]


@given(LIMITS, st.integers(1, 20), st.booleans())
@example((7.061547683185314e16, 7.061547683185315e16), 5, False)
def test_ticks_lie_within_and_are_few(limits: tuple[float, float], most: int, is_whole: bool) -> None:
    low, high = limits
    found = ticks(low, high, most, is_whole=is_whole)
    slack = 1e-6 * max(abs(low), abs(high), high - low, 1.0 if is_whole else 0.0)
    assert len(found) <= most + 1 and all(low - slack <= one <= high + slack for one in found)
    assert not is_whole or all(one == round(one) for one in found if abs(one) < 1e15)
    assert len(labels(found)) == len(found)


@given(st.floats(1e-300, 1e288), st.floats(1.001, 1e12), st.integers(2, 20))
def test_ticks_of_a_log_scale_too(low: float, times: float, most: int) -> None:
    found = log_ticks(low, low * times, most)
    assert len(found) <= most + 1 and all(before < after for before, after in pairwise(found))
    assert all(math.isfinite(one) and low * 0.999 <= one <= low * times * 1.001 for one in found)
    assert len(log_labels(found)) == len(found)
