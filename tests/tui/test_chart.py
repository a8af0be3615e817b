"""Charts as they are painted: axes, marks, and every number in its room."""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lavender_tui.model.curve_view import smoothed
from lavender_tui.model.series import drawable, trend
from lavender_tui.tui.widgets.chart import CURSOR, POINT, RESUME, SAVE, Chart, Line, marks_in_words, paint
from lavender_tui.tui.widgets.curve import draw

FALLING = tuple((float(step), 100.0 / step) for step in range(1, 101))


def painted(chart: Chart, width: int = 60, height: int = 14) -> list[str]:
    return ["".join(words for words, _ in line) for line in paint(chart, width, height)]


def ticks_of(lines: list[str]) -> list[str]:
    return [line.split()[0] for line in lines if "┤" in line]


def test_the_axes_say_what_they_count() -> None:
    lines = painted(Chart((Line(FALLING),), x_name="save"))
    assert lines[-1].split() == ["save", "20", "40", "60", "80", "100"] and len(lines) == 14
    assert ticks_of(lines) == ["100", "80", "60", "40", "20"]


def test_a_log_scale_is_evenly_spaced_in_its_decades() -> None:
    lines = painted(Chart((Line(FALLING),), is_log=True), height=26)
    rows = {line.split()[0]: at for at, line in enumerate(lines) if "┤" in line}
    assert list(rows) == ["100", "50", "20", "10", "5", "2", "1"]
    assert abs((rows["10"] - rows["100"]) - (rows["1"] - rows["10"])) <= 1


def test_no_part_of_a_curve_is_far_from_a_number() -> None:
    lines = painted(Chart((Line(tuple((x, 0.3 + 5.4 * 0.9**x) for x in range(1, 100))),)), height=20)
    rows = [at for at, line in enumerate(lines) if "┤" in line]
    assert ticks_of(lines) == ["5", "4", "3", "2", "1"] and rows[0] <= 3


def test_marks_lie_where_they_are_and_are_explained() -> None:
    chart = Chart((Line(FALLING),), saves=(20.0, 60.0, 300.0), resumes=(40.0,), cursor=FALLING[79])
    legend = marks_in_words(chart, runs=2)
    lines = painted(Chart((Line(FALLING),), saves=chart.saves, resumes=(40.0,), cursor=FALLING[79], legend=legend))
    axis, numbers, said = lines[-3:]
    at = {number: numbers.index(number) + len(number) // 2 for number in ("20", "40", "60", "80")}
    assert [x for x, one in enumerate(axis) if one == SAVE] == [at["20"], at["60"]]
    assert said.split("   ")[-2:] == [f"{SAVE} 2 saves", f"{RESUME} resumed at 40, 2 runs"]
    assert any(line[at["40"]] == RESUME for line in lines[:-3])
    assert {line[at["80"]] for line in lines[:-3]} & {CURSOR, POINT} == {CURSOR, POINT}


@pytest.mark.parametrize(
    ("resumes", "words"),
    [
        ((40.0,), "resumed at 40, 2 runs"),
        ((20.0, 40.0), "resumed at 20 and 40, 3 runs"),
        ((20.0, 40.0, 60.0), "resumed at 20, 40 and 60, 4 runs"),
        ((20.0, 40.0, 60.0, 80.0), "resumed 4 times, last at 80, 5 runs"),
    ],
)
def test_each_mark_of_a_resume_is_explained(resumes: tuple[float, ...], words: str) -> None:
    chart = Chart((Line(FALLING),), resumes=resumes)
    legend = marks_in_words(chart, runs=len(resumes) + 1)
    lines = painted(replace(chart, legend=legend))
    assert lines[-1].endswith(f"{RESUME} {words}")
    assert sum(RESUME in column for column in zip(*lines[:-3], strict=False)) == len(resumes)


def test_marks_outside_what_is_shown_are_neither_drawn_nor_explained() -> None:
    chart = Chart((Line(FALLING[:20]),), saves=(60.0,), resumes=(40.0,), window=(1.0, 20.0))
    assert not marks_in_words(chart) and not {SAVE, RESUME} & set("".join(painted(chart)))


def test_each_curve_ends_in_its_own_letter() -> None:
    lines = tuple(Line(FALLING, "accent", letter) for letter in "ABC")
    shown = "".join(painted(Chart(lines)))
    assert all(letter in shown for letter in "ABC")


def test_one_point_is_seen() -> None:
    assert "●" in "".join(painted(Chart((Line(((7.0, 2.0),)),))))


NUMBERS = st.floats(allow_nan=True) | st.integers(-(2**70), 2**70).map(float)


GREATEST, LEAST = sys.float_info.max, math.ulp(0.0)
EXTREMES = (0.0, -0.0, 1.0, LEAST, -LEAST, 2 * LEAST, 1e-308, 1e308, -1e308, GREATEST, -GREATEST, math.inf, -math.inf,
            math.nan, 2.0**53, 1e300)  # fmt: skip


def paint_whatever(points, *, is_log: bool, window=None, size: tuple[int, int] = (60, 14)) -> list[str]:
    steps = tuple(x for x, _ in points)
    chart = Chart(
        (Line(tuple(points)), Line(tuple(points[:1]), "warn", "A")), is_log=is_log, window=window,
        saves=steps, resumes=steps, cursor=points[0] if points else None, legend=(("a legend", ""),),
    )  # fmt: skip
    marks_in_words(chart)
    lines = painted(chart, *size)
    assert len(lines) <= size[1] and all(cell_len(line) <= size[0] for line in lines)
    return lines


@pytest.mark.parametrize("is_log", [False, True])
def test_extremes_are_painted_or_left_out(is_log: bool) -> None:
    """Each alone, and each pair as two steps, as two values, and as the ends of the window."""
    for one in EXTREMES:
        assert bool(paint_whatever([(1.0, one)], is_log=is_log)) == (math.isfinite(one) and (one > 0 or not is_log))
        assert bool(paint_whatever([(one, 1.0)], is_log=is_log)) == math.isfinite(one)
        assert len(trend([one] * 31)) == 10 * math.isfinite(one)
        for other in EXTREMES:
            low, high = sorted((one, other))
            paint_whatever([(low, 1.0), (high, 2.0)], is_log=is_log)
            paint_whatever([(1.0, one), (2.0, other)], is_log=is_log)
            paint_whatever([(one, other), (other, one), (5.0, 5.0)], is_log=is_log, window=(low, high))
            draw([(1, one), (2, other)], 20, 5)
            trend([one, other] * 15)
            smoothed([(1, one), (2, other)], 10)


FLOATS = st.floats() | st.sampled_from(EXTREMES)


@given(
    st.lists(st.tuples(FLOATS, FLOATS), max_size=30), st.booleans(), st.none() | st.tuples(FLOATS, FLOATS),
    st.integers(0, 90), st.integers(0, 30),
)  # fmt: skip
def test_any_floats_at_all_are_painted_or_left_out(points, is_log: bool, window, width: int, height: int) -> None:
    paint_whatever(sorted(points), is_log=is_log, window=window, size=(width, height))
    trend([y for _, y in points])


@given(
    st.lists(st.tuples(st.integers(-(2**60), 2**60), NUMBERS), max_size=40),
    st.lists(st.integers(-(2**60), 2**60).map(float), max_size=5),
    st.booleans(),
    st.integers(0, 90),
    st.integers(0, 30),
)
def test_any_chart_fits_its_room(points, marks, is_log: bool, width: int, height: int) -> None:
    shown = tuple(sorted(point for point in drawable(points) if point[1] > 0 or not is_log))
    chart = Chart(
        (Line(shown), Line(shown[:1], "warn", "A")), is_log=is_log, saves=tuple(marks), resumes=tuple(marks),
        cursor=shown[0] if shown else None, legend=(("a legend", ""),),
    )  # fmt: skip
    lines = painted(chart, width, height)
    assert len(lines) <= max(0, height) and all(cell_len(line) <= width for line in lines)
    if shown:
        marks_in_words(chart)
