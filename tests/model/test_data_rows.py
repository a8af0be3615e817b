"""Rows of the table, and of an epoch of it."""

from __future__ import annotations

from typing import Any

import pytest

from lavender_tui.model.data_rows import epoch_rows, readable_rows, table_rows


@pytest.mark.parametrize(
    ("data", "splits", "rows"),
    [
        ({"num_rows": 4100}, 8, 4096),  # what is left over is in no split
        ({"num_rows": 4096}, 8, 4096),
        ({"num_rows": 4100, "filter": ""}, 8, 4096),
        ({"num_rows": 4100, "filter": "x > 3"}, 8, None),  # nobody knows how many it lets through
        ({"num_rows": 4100}, None, None),
        ({"num_rows": 4100}, 0, None),
        ({"num_rows": True}, 8, None),
        ({"num_rows": -1}, 8, None),
        ({"num_rows": "4100"}, 8, None),
        ({}, 8, None),
        (None, 8, None),
    ],
)
def test_an_epoch_has_as_many_of_every_split(data: dict[str, Any] | None, splits: int | None, rows: int | None) -> None:
    assert epoch_rows(data, splits) == rows


def test_the_table_has_its_rows_whatever_is_read_of_them() -> None:
    data = {"num_rows": 10, "filter": "x > 3"}
    assert table_rows(data) == 10 and readable_rows(data) is None
