"""The end of a curve is found in a file of any size, and in any file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.watch.old_curve import WINDOW_BYTES, points_up_to


def write(path: Path, steps: list[int], filler: int = 0) -> str:
    more = {"note": "x" * filler} if filler else {}
    path.write_text("".join(json.dumps({"step": step, "loss": float(step), **more}) + "\n" for step in steps))
    return str(path)


@pytest.mark.parametrize("filler", [0, 300])
@pytest.mark.parametrize("step", [1, 7, 200, 9_999, 15_000, 20_000, 10**9, None])
def test_the_points_that_lead_to_a_step(tmp_path: Path, step: int | None, filler: int) -> None:
    path = write(tmp_path / "metrics.jsonl", list(range(1, 20_001)), filler)
    assert os.stat(path).st_size > WINDOW_BYTES
    last = 20_000 if step is None else min(step, 20_000)
    expected = list(range(max(1, last - 49), last + 1))
    assert [point.step for point in points_up_to(path, step, count=50)] == expected


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 50))
def test_steps_ascend_whatever_the_file_says(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], at: int
) -> None:
    path = write(tmp_path_factory.mktemp("curve") / "metrics.jsonl", steps)
    found = [point.step for point in points_up_to(path, at)]
    assert found == sorted(set(found))
    assert all(step <= at for step in found)
    assert bool(found) == any(step <= at for step in steps)


def test_what_is_no_such_file_has_no_points(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "noise").write_bytes(os.urandom(200_000))
    for name in ("missing", "fifo", ".", "noise", "bad\0name"):
        assert points_up_to(f"{tmp_path}/{name}", 5) == ()
