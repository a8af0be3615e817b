"""How a curve is looked at."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model.curve_view import CurveView, nearest, shown_part, smoothed

STEPS = [float(step) for step in range(0, 1001, 10)]
POINTS = [(step, 4.0 - step / 500) for step in STEPS]
WHOLE = (0.0, 1000.0)


def test_zoom_keeps_the_cursor_in_sight_and_ends_with_the_whole() -> None:
    view = CurveView(cursor=900.0).zoomed(4, WHOLE)
    assert view.window == (750.0, 1000.0)
    assert view.zoomed(0.5, WHOLE).window == (500.0, 1000.0) and view.zoomed(0.1, WHOLE).window is None


@given(st.lists(st.sampled_from([2.0, 0.5, 3.0, 100.0]), max_size=12), st.none() | st.floats(-50, 1100))
def test_no_zoom_leaves_the_curve(factors: list[float], cursor: float | None) -> None:
    view = CurveView(cursor=cursor)
    for factor in factors:
        view = view.zoomed(factor, WHOLE)
        if view.window is not None:
            low, high = view.window
            assert WHOLE[0] <= low < high <= WHOLE[1] + 1e-9 and high - low >= 2 - 1e-9


def test_the_cursor_goes_from_point_to_point_and_the_window_comes_along() -> None:
    view = CurveView().moved(-1, STEPS, WHOLE)
    assert view.cursor == 1000.0 and view.moved(-3, STEPS, WHOLE).cursor == 970.0
    assert view.moved(5, STEPS, WHOLE).cursor == 1000.0
    close = CurveView(window=(0.0, 100.0), cursor=100.0).moved(10, STEPS, WHOLE)
    assert close.cursor == 200.0 and close.window == (150.0, 250.0)
    assert CurveView().moved(1, [], WHOLE) == CurveView()


def test_an_average_is_unbiased_and_follows() -> None:
    assert smoothed([(0, 3.0), (1, 3.0), (2, 3.0)], 10) == [
        (0, pytest.approx(3.0)),
        (1, pytest.approx(3.0)),
        (2, pytest.approx(3.0)),
    ]
    assert smoothed(POINTS, 0) == POINTS


def test_a_log_scale_leaves_out_what_has_no_logarithm() -> None:
    points = [(0.0, 100.0), (1.0, 0.0), (2.0, -1.0), (3.0, 0.01)]
    assert shown_part(points, CurveView(is_log=True)) == [(0.0, 100.0), (3.0, 0.01)]


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, unique=True), st.floats(-1e7, 1e7))
def test_what_is_read_off_is_nearest(steps: list[float], at: float) -> None:
    points = [(step, 0.0) for step in sorted(steps)]
    found = nearest(points, at)
    assert found is not None and math.isclose(abs(found[0] - at), min(abs(step - at) for step in steps))
    assert nearest([], at) is None
