"""`merge`: the state in the file asked for equals the library's merge, or nothing is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import BadState, LavenderError, NotFound, UsageError
from lavender_tui.model.rank_state import normalise
from lavender_tui.resume import merge_files
from tests.resume.real_states import read_on, repeated_and_lost
from tests.resume.saves import row, save, save_beside


@pytest.fixture
def run(tmp_path: Path) -> str:
    return str(tmp_path / "run-2026-04-24_18-53-41")


def test_rank_files_become_one_state_that_reads_on_exactly(run: str, tmp_path: Path, table: Any, second: Any) -> None:
    import torch

    states, before = second
    files = save_beside(os.path.join(run, "pretrain-10-00-00-0001.pt"), []) or save_beside(save(run), states)
    out = str(tmp_path / "merged.pt")
    from lancedb.streaming import StreamingDataset

    merged = merge_files(list(reversed(files)), out)
    assert torch.load(out, weights_only=True) == merged == StreamingDataset.merge_state_dicts(states)
    assert repeated_and_lost(before, read_on(table, merged, 2)) == (0, 0)


def test_a_checkpoint_with_its_states_inside_or_beside_it(run: str, tmp_path: Path) -> None:
    inside = save(run, 1, [row(), row()], world_size=2)
    out = str(tmp_path / "merged.json")
    assert merge_files([inside], out) == row()
    with open(out) as file:
        assert normalise(json.load(file)) == row()
    beside = save(run, 2)
    save_beside(beside, [row(7), row(7)], "{stem}.rank{rank}-of-{of}.pt")
    assert merge_files([beside], out) == row(7)


def test_json_rank_files(tmp_path: Path) -> None:
    paths = []
    for rank in range(2):
        paths.append(str(tmp_path / f"a.rank{rank}.json"))
        with open(paths[-1], "w") as file:
            json.dump({"dataset": row()}, file)
    assert merge_files(paths, str(tmp_path / "out.json")) == row()


@pytest.mark.parametrize("missing", range(4))
def test_an_incomplete_set_is_refused_by_rank_and_writes_nothing(
    run: str, tmp_path: Path, first: Any, missing: int
) -> None:
    files = save_beside(save(run), first[0])
    del files[missing]
    out = tmp_path / "merged.pt"
    with pytest.raises(BadState, match=f"rank {missing}"):
        merge_files(files, str(out), world_size=4)
    assert not out.exists()


def test_a_directory_of_rank_files(tmp_path: Path, first: Any) -> None:
    step = tmp_path / "step_48"
    step.mkdir()
    files = save_beside(str(step / "x.pt"), first[0], "rank_{rank}.pt")
    assert sum(merge_files([str(step)], str(tmp_path / "m.json"))["samples_consumed_per_split"]) == 192
    os.unlink(files[1])
    with pytest.raises(BadState, match="rank 1"):
        merge_files([str(step)], str(tmp_path / "m2.json"))


def test_what_cannot_be_asked_for(run: str, tmp_path: Path) -> None:
    path = save(run, dataset=[row(), row()])
    with pytest.raises(UsageError):
        merge_files([path], path)
    with pytest.raises(UsageError):
        merge_files([path], str(tmp_path / "m.txt"))
    with pytest.raises(NotFound):
        merge_files([str(tmp_path / "nowhere.pt")], str(tmp_path / "m.pt"))
    with pytest.raises(NotFound):
        merge_files([path], str(tmp_path / "nowhere" / "m.pt"))
    with pytest.raises(BadState, match="no rank states"):
        merge_files([save(run, 2)], str(tmp_path / "m.pt"))
    torn = tmp_path / "a.rank0.json"
    torn.write_text("{")
    with pytest.raises(LavenderError):
        merge_files([str(torn)], str(tmp_path / "m.pt"))
    assert sorted(os.listdir(tmp_path)) == ["a.rank0.json", os.path.basename(run)]
