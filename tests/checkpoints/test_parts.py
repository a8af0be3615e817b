"""Files of which another program keeps several for one checkpoint: shown as what they are, and never usable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import read_checkpoint
from lavender_tui.checkpoints.names import first_of_ranks, rank_stem
from lavender_tui.checkpoints.parts import FAMILIES, family_of_name
from lavender_tui.model.checkpoint import Wholeness
from lavender_tui.model.choosing import in_run

SAMPLES = Path(__file__).parents[1] / "data" / "samples"
MODEL = {"model_state_dict": {"w": torch.zeros(2, 3)}, "epoch": 1}

NAMES = {
    "deepspeed": (
        "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt",
        "expert_3_mp_rank_00_model_states.pt",
        "zero_pp_rank_11_mp_rank_02_optim_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "layer_03-model_00-model_states.pt", "layer_0_expert_1_mp_rank_00_model_states.pt",
    ),
    "accelerate": (
        "optimizer.bin", "optimizer_1.bin", "scheduler.bin", "random_states_0.pkl", "custom_checkpoint_12.pkl",
    ),
    "hf-trainer": ("training_args.bin",),
    "dcp": ("__0_0.distcp", "__12_3.distcp", ".metadata"),
    "megatron": ("model_optim_rng.pt",),
    "composer": ("ep1-ba100-rank0.pt", "latest-rank3.pt"),
}  # fmt: skip
OTHERS = (
    "pretrain-10-00-00-0007.pt", "checkpoint_100.pt", "rank_0.pt", "optimizer.pt", "model_states.pt",
    "optimizer.bin.pt", "mp_rank_００_model_states.pt", "last.ckpt", "pytorch_model.bin", "latest-rank.pt", "",
)  # fmt: skip


def test_names_that_only_one_program_gives() -> None:
    for format, names in NAMES.items():
        for name in names:
            family = family_of_name(name)
            assert family is not None and family.format == format, name
    assert [name for name in OTHERS if family_of_name(name) is not None] == []


SUCH = "such directories can't be resumed from yet"
SAMPLE_REASONS = {
    "deepspeed": f"it is a part of a DeepSpeed directory checkpoint; {SUCH}",
    "hf-trainer": f"it is a part of a Hugging Face Trainer directory checkpoint; {SUCH}",
    "accelerate": f"it is a part of an Accelerate directory checkpoint; {SUCH}",
    "composer": "it is a part of a Composer checkpoint of one file a rank; such can't be resumed from yet",
    "megatron": f"it is a part of a Megatron-LM directory checkpoint; {SUCH}",
}


@pytest.mark.parametrize("format", sorted(SAMPLE_REASONS))
def test_what_the_programs_wrote_is_never_a_default(format: str) -> None:
    paths = sorted(str(path) for path in (SAMPLES / format).iterdir())
    found = [read_checkpoint(path) for path in paths]
    assert {(one.format, one.reason, one.is_usable) for one in found} == {(format, SAMPLE_REASONS[format], False)}
    choice = in_run(found)
    assert choice.checkpoint is None
    assert sorted(choice.passed_over) == [(path, SAMPLE_REASONS[format]) for path in paths]


CONTENTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "a renamed model of DeepSpeed": (
        "last.pt", {"module": {"w": torch.zeros(2)}, "dp_world_size": 2, "mp_world_size": 1}, "deepspeed",
    ),
    "a renamed optimizer of DeepSpeed": (
        "opt.pt", {"optimizer_state_dict": {"zero_stage": 1}, "ds_version": "0.19", "ds_config": {}}, "deepspeed",
    ),
    "the head of a sharded Lightning checkpoint": (
        "meta.pt", {"pytorch-lightning_version": "2.6", "epoch": 1, "global_step": 4}, "lightning-sharded",
    ),
    "one share of a distributed save": ("__0_0.distcp", {"w": torch.zeros(2)}, "dcp"),
    "a scaler": ("scaler.pt", {"scale": 65536.0}, "hf-trainer"),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(CONTENTS))
def test_by_content(kind: str, tmp_path: Path) -> None:
    name, content, format = CONTENTS[kind]
    torch.save(content, tmp_path / name)
    found = read_checkpoint(str(tmp_path / name))
    assert (found.format, found.wholeness, found.is_usable) == (format, Wholeness.FOREIGN, False)
    assert found.reason == FAMILIES[format].reason


def test_a_whole_checkpoint_may_be_called_optimizer(tmp_path: Path) -> None:
    torch.save(MODEL, tmp_path / "optimizer.pt")
    found = read_checkpoint(str(tmp_path / "optimizer.pt"))
    assert (found.format, found.is_usable, found.reason) == ("torch-dict", True, None)


def test_a_part_that_is_cut_is_still_a_part(tmp_path: Path) -> None:
    whole = (SAMPLES / "hf-trainer" / "optimizer.pt").read_bytes()
    for size in (0, 40, len(whole) - 100):
        path = tmp_path / "optimizer.pt"
        path.write_bytes(whole[:size])
        found = read_checkpoint(str(path))
        assert (found.format, found.wholeness) == ("hf-trainer", Wholeness.FOREIGN), size


def test_what_is_no_part_by_any_means_keeps_its_own_reason(tmp_path: Path) -> None:
    path = tmp_path / "optimizer.pt"
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    assert read_checkpoint(str(path)).format == "git-lfs"
    path.unlink()
    assert read_checkpoint(str(path)).wholeness is Wholeness.UNREADABLE


def test_one_rank_of_several_is_no_checkpoint_where_another_program_wrote_it(tmp_path: Path) -> None:
    first = str(tmp_path / "model_rank0.pt")
    torch.save(MODEL, first)
    assert read_checkpoint(first).is_usable  # alone it may be all there is
    torch.save(MODEL, tmp_path / "model_rank1.pt")
    found = read_checkpoint(first)
    assert (found.format, found.is_usable, found.reason) == ("rank-files", False, FAMILIES["rank-files"].reason)
    assert read_checkpoint(first, names=iter(os.listdir(tmp_path))).format == "rank-files"
    torch.save(MODEL, tmp_path / "other_rank0-of-4.pt")
    assert not read_checkpoint(str(tmp_path / "other_rank0-of-4.pt")).is_usable


def test_rank_0_may_stand_for_its_ranks() -> None:
    stems = {"checkpoint_100_rank0.pt": "checkpoint_100", "a.rank_0-of-4.pth": "a", "x-rank-00.ckpt": "x"}
    assert {name: first_of_ranks(name) for name in stems} == stems
    none = (
        "rank_0.pt",
        "a_rank1.pt",
        "a_rank0.json",
        "a.pt",
        "pretrain-10-00-00-0007.rank0.pt",
        ".a_rank0.pt",
        "rank0",
    )
    assert [name for name in none if first_of_ranks(name) is not None] == []
    assert [rank_stem(name) for name in ("rank_3.pt", "a.rank3.json", "a_rank3.pth.tar", "a.pt")] == [
        "",
        "a",
        "a",
        None,
    ]


def test_a_familys_words_for_its_files() -> None:
    dcp = FAMILIES["dcp"]
    of = "of a directory checkpoint of torch.distributed (DCP, torchtitan); such directories can't be resumed from yet"
    assert dcp.said_of(["a"]) == f"a is a part {of}"
    assert dcp.said_of(["a", "b"]) == f"a and 1 more file are parts {of}"
    assert dcp.said_of(["a", "b", "c"]) == f"a and 2 more files are parts {of}"
