"""How many rows the recorded data source has, and an epoch of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST_ROWS = 10**15  # what a file says beyond that is no number of rows: seconds and bytes are reckoned from it


def table_rows(data: Mapping[str, Any] | None) -> int | None:
    """`num_rows` as it was recorded: rows of the whole table. None where it isn't, or is no number of rows."""
    rows = (data or {}).get("num_rows")
    return rows if type(rows) is int and 0 < rows <= MOST_ROWS else None


def readable_rows(data: Mapping[str, Any] | None) -> int | None:
    """Rows that the dataset can read; with a filter they are fewer than the table's, and nobody knows how many."""
    return table_rows(data) if (data or {}).get("filter") in (None, "") else None


def epoch_rows(data: Mapping[str, Any] | None, num_splits: int | None) -> int | None:
    """Rows of one epoch in row mode: every split has equally many, what the table has beyond that is left out.

    `count_rows(filter) // num_splits * num_splits`, as lancedb's StreamingDataset does (measured with 0.40). None where
    the numbers aren't recorded.
    """
    rows = readable_rows(data)
    return rows // num_splits * num_splits if rows is not None and num_splits is not None and num_splits > 0 else None
