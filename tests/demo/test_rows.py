"""The recipe for one's own training: its noted rows against what CheckpointManager records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.demo.rows import tally
from lavender_tui.errors import NotFound
from tests.resume.saves import row, save
from tests.tui import runs

A, B = "run-2026-04-24_18-53-41", "run-2026-04-24_19-53-41"


def note(run_dir: Path, rank: int, steps: list[tuple[int, list[int]]], epoch: int = 1) -> None:
    lines = [json.dumps({"epoch": epoch, "step": step, "ids": ids}) + "\n" for step, ids in steps]
    with open(run_dir / f"rows.rank{rank}.jsonl", "a") as file:
        file.writelines(lines)


@pytest.fixture
def chain(tmp_path: Path) -> tuple[Path, Path]:
    """Two ranks train to step 3, save at 2, and are resumed by one."""
    first, second = tmp_path / A, tmp_path / B
    states = [row(2), row(2)]
    saved = save(str(first), dataset=states, world_size=2, global_step=2, data={"num_rows": 18})
    runs.launched(second, ["python", "train.py"], source=first, checkpoint=Path(saved), world_size=1)
    note(first, 0, [(1, [0, 1]), (2, [4, 5]), (3, [8, 9])])
    note(first, 1, [(1, [2, 3]), (2, [6, 7])])
    return first, second


def test_each_row_once_over_a_kill_and_a_resume(chain: tuple[Path, Path]) -> None:
    first, second = chain
    note(second, 0, [(3, [8, 9, 10, 11]), (4, [12, 13, 14, 15])])
    told = subprocess.run([sys.executable, "-m", "lavender_tui.demo.rows", str(second)], capture_output=True, text=True)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == (
        "epoch 1, 2 runs: 16 of 16 rows trained, 0 never, 0 more than once; "
        "2 rows after a last save, forgotten and trained again\n"
    )
    alone = tally(str(first))
    assert not alone.is_exact and alone.never == 6


@pytest.mark.parametrize(
    ("steps", "never", "repeated"),
    [
        ([(3, [8, 9, 10, 11])], 4, 0),
        ([(3, [8, 9, 10, 11]), (4, [12, 13, 14, 14])], 1, 1),
        ([(1, [0, 1, 2, 3]), (3, [8, 9, 10, 11]), (4, [12, 13, 14, 15])], 0, 4),
    ],
)
def test_each_fault_is_found(
    chain: tuple[Path, Path], steps: list[tuple[int, list[int]]], never: int, repeated: int
) -> None:
    note(chain[1], 0, steps)
    found = tally(str(chain[1]))
    assert (found.never, found.repeated, found.is_exact) == (never, repeated, False)


def test_what_torchrun_started_again_within_a_run_counts_once(chain: tuple[Path, Path]) -> None:
    note(chain[1], 0, [(3, [8, 9, 10, 11]), (4, [12, 13, 14, 15]), (4, [12, 13, 14, 15])])
    found = tally(str(chain[1]))
    assert found.is_exact and found.forgotten == 2 + 4


def test_what_another_epoch_forgot_is_no_part_of_this_one(chain: tuple[Path, Path]) -> None:
    first, second = chain
    note(second, 0, [(3, [8, 9, 10, 11]), (4, [12, 13, 14, 15])])
    third = first.parent / "run-2026-04-24_20-53-41"
    saved = save(str(second), dataset=[row(4)], world_size=1, global_step=4, data={"num_rows": 18})
    note(second, 0, [(5, [1, 2, 3])], epoch=2)
    runs.launched(third, ["python", "train.py"], source=second, checkpoint=Path(saved), world_size=1)
    note(third, 0, [(5, [1, 2, 3])], epoch=2)
    one, two = tally(str(third), 1), tally(str(third), 2)
    assert one.is_exact and (one.runs, one.forgotten) == (2, 2)
    assert (two.runs, two.forgotten) == (2, 3)


def test_a_run_that_notes_no_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"rows\.rank<k>\.jsonl"):
        tally(str(tmp_path))


def test_the_stage_before_reads_other_rows(chain: tuple[Path, Path]) -> None:
    save(str(chain[1]), stage="sft", dataset=row(0), data={"num_rows": 4}, global_step=1)
    note(chain[1], 0, [(1, [0, 1, 2, 3])])
    found = tally(str(chain[1]))
    assert found.is_exact and found.runs == 1
