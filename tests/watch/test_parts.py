"""Directories of other programs' files: said in words, never an empty row without them, never proposed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
import torch

from lavender_tui.checkpoints import rank_files
from lavender_tui.model.choosing import over_runs
from lavender_tui.model.run import Run, RunState
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import list_run
from lavender_tui.watch.scan import scan
from tests.watch import saves

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
SUCH = "such directories can't be resumed from yet"


def only(root: Path) -> Run:
    (run,) = scan([str(root)])
    return run


def names(run: Run) -> list[str]:
    return [os.path.basename(one.path) for one in run.checkpoints]


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (
            "deepspeed",
            "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt and 2 more files are parts of a DeepSpeed directory "
            f"checkpoint; {SUCH}",
        ),
        (
            "hf-trainer",
            f"optimizer.pt and 3 more files are parts of a Hugging Face Trainer directory checkpoint; {SUCH}",
        ),
        (
            "accelerate",
            f"custom_checkpoint_0.pkl and 2 more files are parts of an Accelerate directory checkpoint; {SUCH}",
        ),
        ("megatron", f"model_optim_rng.pt is a part of a Megatron-LM directory checkpoint; {SUCH}"),
    ],
)
def test_a_directory_of_parts_says_what_it_is(sample: str, said: str, tmp_path: Path) -> None:
    shutil.copytree(SAMPLES / sample, tmp_path / "out" / "step-8")
    run = only(tmp_path)
    assert (run.format, run.checkpoints, run.newest, run.state) == (sample, (), None, RunState.IDLE)
    assert (run.state_reason, run.warnings) == (said, (said,))
    assert over_runs([run]).checkpoint is None


def test_parts_in_a_directory_with_a_runs_name(tmp_path: Path) -> None:
    (tmp_path / saves.RUN).mkdir()
    (tmp_path / saves.RUN / "__0_0.distcp").write_bytes(b"x")
    run = only(tmp_path)
    assert (run.format, len(run.warnings)) == ("dcp", 1)
    assert run.state_reason.startswith("__0_0.distcp is a part of a directory checkpoint of torch.distributed")


def test_parts_beside_checkpoints_are_a_warning_only(tmp_path: Path) -> None:
    whole = saves.save(tmp_path / saves.RUN, 1)
    for path in (SAMPLES / "hf-trainer").iterdir():
        shutil.copy(path, tmp_path / saves.RUN)
    index = Index()
    (run,) = scan([str(tmp_path)], index=index)
    assert (names(run), run.format, run.state_reason) == ([whole.name], "lavender", "no process and no launch record")
    assert len(run.warnings) == 1 and "4" not in run.warnings[0] and "3 more files" in run.warnings[0]
    reads = index.reads
    assert scan([str(tmp_path)], index=index) == (run,) and index.reads == reads


def test_a_file_that_is_named_like_ours_keeps_its_row_and_its_reason(tmp_path: Path) -> None:
    shutil.copy(SAMPLES / "deepspeed" / "mp_rank_00_model_states.pt", tmp_path / saves.name(3))
    run = only(tmp_path)
    assert [(one.format, one.is_usable) for one in run.checkpoints] == [("deepspeed", False)]
    assert over_runs([run]).passed_over[0][1] == f"it is a part of a DeepSpeed directory checkpoint; {SUCH}"


def test_what_only_looks_like_a_part_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / ".metadata").write_text("channel: stable")
    (tmp_path / "workspace" / "optimizer.bin").mkdir(parents=True)
    assert scan([str(tmp_path)]) == ()


def test_rank_0_stands_for_its_ranks_where_nothing_else_does(tmp_path: Path) -> None:
    for rank in range(3):
        torch.save(
            {"model": {"w": torch.zeros(2)}, "dataset": saves.state(8)}, tmp_path / f"checkpoint_20_rank{rank}.pt"
        )
    run = only(tmp_path)
    assert names(run) == ["checkpoint_20_rank0.pt"]
    assert (run.newest.is_usable, run.newest.rank_states.found) == (True, 3)
    saves.save(tmp_path, 1, named="checkpoint_20.pt")
    assert names(only(tmp_path)) == ["checkpoint_20.pt"]


def test_left_over_rank_files_of_the_trainer_are_no_checkpoint(tmp_path: Path) -> None:
    saves.save(tmp_path / saves.RUN, 2)
    torch.save(saves.state(4), tmp_path / saves.RUN / "pretrain-09-00-00-0001.rank0.pt")
    assert names(only(tmp_path)) == [saves.name(2)]


def test_the_listing_names_the_rank_files_that_reading_looks_for(tmp_path: Path) -> None:
    """What reading would find by itself is what it is handed, so it needs no look into the directory of its own."""
    for name in ("a.pth.tar", "a_rank0.pt", "a.rank1.json", "b.pt", "b_rank1.pt", "b.rank2.pth.tar", "b1.pt",
                 "b1_rank0.pt", "rank_0.pt", "rank_1.pt", "c_rank0.ckpt", "c_rank1.ckpt", "d.ckpt"):  # fmt: skip
        (tmp_path / name).write_bytes(b"x")
    found = {one.name: one for one in list_run(str(tmp_path)).found}
    assert sorted(found) == ["a.pth.tar", "b.pt", "b1.pt", "c_rank0.ckpt", "d.ckpt", "rank_0.pt"]
    for one in found.values():
        by_itself = rank_files(one.path)
        assert rank_files(one.path, [name for name, _, _ in one.companions]) == by_itself, one.name
        assert {name for name, _, _ in one.companions} == {os.path.basename(file.path) for file in by_itself}, one.name
