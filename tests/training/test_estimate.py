"""The hours that a training will still take."""

from __future__ import annotations

from typing import Any

import pytest

from lavender_tui.training.estimate import Pace, remaining_hours


def content(**changes: Any) -> dict[str, Any]:
    """Epoch 2 of 3, 400 of 1,000 rows read (1,003 in the table), 8 splits, batches of 40."""
    state = {"num_splits": 8, "samples_consumed_per_split": [50] * 8}
    base = {"epoch": 2, "epochs": 3, "dataset": [state, state], "batch": {"global": 40}, "data": {"num_rows": 1003}}
    return {**base, **changes}


@pytest.mark.parametrize(
    ("changes", "steps"),
    [
        ({}, 15 + 25),
        ({"epoch_complete": True}, 25),
        ({"epoch": 3, "epoch_complete": True}, 0),
        ({"epoch": 3}, 15),
    ],
)
def test_the_rows_left_at_the_pace_so_far(changes: dict[str, Any], steps: int) -> None:
    assert remaining_hours(content(**changes), 36.0) == pytest.approx(steps * 36.0 / 3600)


@pytest.mark.parametrize(
    "changes",
    [
        {"epochs": None},
        {"dataset": None},
        {"batch": None},
        {"data": {"num_rows": None}},
        {"dataset": [{"num_splits": 8, "samples_consumed_per_split": [5] * 8, "pack_buffers": {}}]},
    ],
)
def test_nothing_is_guessed_where_something_is_missing(changes: dict[str, Any]) -> None:
    assert remaining_hours(content(**changes), 36.0) is None
    assert remaining_hours(content(), None) is None


def test_the_pace_needs_two_steps() -> None:
    pace = Pace()
    assert pace.seconds_a_step(5) is None
    pace.stepped(5)
    assert pace.seconds_a_step(5) is None
    seconds = pace.seconds_a_step(7)
    assert seconds is not None and seconds >= 0
