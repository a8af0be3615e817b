"""The judge itself: it must find each kind of fault, else its approval means nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lavender_tui.demo.coverage import Coverage, Generation, judge, logged_steps

EXPECTED = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def log_rows(run_dir: Path, rank: int, steps: dict[int, list[int]], epoch: int = 1) -> str:
    run_dir.mkdir(exist_ok=True)
    lines = [json.dumps({"epoch": epoch, "step": step, "ids": ids}) + "\n" for step, ids in steps.items()]
    (run_dir / f"rows.rank{rank}.jsonl").write_text("".join(lines))
    return str(run_dir)


def chain(tmp_path: Path, second: dict[int, list[int]]) -> Coverage:
    """Two ranks train steps 1 and 2 and are resumed from step 1 by one rank that trains `second`."""
    first = log_rows(tmp_path / "a", 0, {1: [0, 1], 2: [4, 5]})
    log_rows(tmp_path / "a", 1, {1: [2, 3]})
    last = log_rows(tmp_path / "b", 0, second)
    return judge([Generation(run_dir=first, last_step=1), Generation(run_dir=last)], EXPECTED)


def test_a_good_chain_is_exact_and_what_the_kill_threw_away_is_counted(tmp_path):
    coverage = chain(tmp_path, {2: [7, 6, 5, 4], 3: [8, 9, 10, 11]})
    assert coverage.is_exact
    assert coverage.forgotten == 2
    assert str(coverage) == "12 rows: 0 lost, 0 repeated; 3 of 3 global batches as without an interruption"


@pytest.mark.parametrize(
    ("second", "lost", "repeated", "wrong_steps"),
    [
        ({3: [8, 9, 10, 11]}, (4, 5, 6, 7), (), (2,)),
        ({2: [4, 5, 6, 7]}, (8, 9, 10, 11), (), (3,)),
        ({1: [0, 1, 2, 3], 2: [4, 5, 6, 7], 3: [8, 9, 10, 11]}, (), (0, 1, 2, 3), (1,)),
        ({2: [8, 9, 10, 11], 3: [4, 5, 6, 7]}, (), (), (2, 3)),
        ({2: [4, 5, 6, 6], 3: [8, 9, 10, 11]}, (7,), (6,), (2,)),
        ({2: [4, 5, 6, 7], 3: [8, 9, 10, 11], 4: [99]}, (), (99,), (4,)),
    ],
    ids=["skipped a step", "stopped early", "replayed a step", "swapped steps", "one row twice", "a stranger"],
)
def test_each_fault_is_found(tmp_path, second, lost, repeated, wrong_steps):
    coverage = chain(tmp_path, second)
    assert not coverage.is_exact
    assert (coverage.lost, coverage.repeated, coverage.wrong_steps) == (lost, repeated, wrong_steps)


def test_another_epochs_rows_are_not_counted(tmp_path):
    run_dir = log_rows(tmp_path / "a", 0, {1: EXPECTED[0], 2: EXPECTED[1], 3: EXPECTED[2]})
    log_rows(tmp_path / "a", 1, {4: [0, 1, 2, 3]}, epoch=2)
    assert judge([Generation(run_dir=run_dir)], EXPECTED).is_exact
    later = judge([Generation(run_dir=run_dir)], EXPECTED, epoch=2)
    assert later.lost == tuple(range(4, 12))
    assert later.wrong_steps == (5, 6)


def test_a_line_cut_by_a_kill_is_no_step(tmp_path):
    run_dir = log_rows(tmp_path / "a", 0, {1: [0, 1]})
    with open(f"{run_dir}/rows.rank0.jsonl", "a") as file:
        file.write('{"epoch": 1, "step": 2, "id')
    assert list(logged_steps(run_dir)) == [("rows.rank0.jsonl", 1, 1, [0, 1])]
