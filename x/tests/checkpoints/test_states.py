"""Rank states inside a checkpoint and in files beside it, under every name that is known, in rank order."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lavender_tui.checkpoints import is_checkpoint_name, rank_files, read_checkpoint, read_rank_states
from lavender_tui.errors import UnreadableFile


def state(count: Any, *, splits: int = 24, seed: int = 5, epoch: int = 0) -> dict[str, Any]:
    counts = [count] * splits if isinstance(count, int) else count
    return {
        "shuffle_seed": seed,
        "num_splits": splits,
        "epoch": epoch,
        "samples_consumed_per_split": counts,
        "positions_consumed_per_split": counts,
    }


def checkpoint(directory: Path, name: str = "pretrain-10-00-00-0007.pt", **more: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    content = {"model_state_dict": {"w": torch.zeros(2)}, "stage": "pretrain", "save_count": 7, "epoch": 1, "epochs": 2}
    torch.save({**content, **more}, directory / name)
    return directory / name


PATTERNS = [
    "{stem}.rank{rank}.pt",
    "{stem}.rank{rank}.json",
    "{stem}.rank{rank}-of-12.pt",
    "{stem}_rank{rank}.pt",
    "{stem}-rank_{rank}.pt",
    "{stem}-rank{rank}.json",
    "rank{rank}/{stem}.pt",
    "rank_{rank}/{stem}.json",
]


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_rank_files_under_every_name(pattern: str, wrapped: bool, tmp_path: Path) -> None:
    main = checkpoint(tmp_path)
    for rank in reversed(range(12)):
        beside = tmp_path / pattern.format(stem=main.stem, rank=rank)
        beside.parent.mkdir(exist_ok=True)
        content = {"dataset": state(10)} if wrapped else state(10)
        if beside.suffix == ".json":
            beside.write_text(json.dumps(content))
        else:
            torch.save(content, beside)
    found = read_rank_states(str(main))
    assert [one.rank for one in found] == list(range(12))
    assert {one.world_size for one in found} == ({12} if "-of-" in pattern else {None})
    assert all(one.state == state(10) for one in found)
    assert all(str(one.rank) in one.origin for one in found)
    summary = read_checkpoint(str(main)).rank_states
    assert (summary.found, summary.complete, summary.num_splits, summary.problems) == (12, True, 24, ())


def test_a_hole_and_a_stray_are_named(tmp_path: Path) -> None:
    main = checkpoint(tmp_path, world_size=12)
    for rank in [*range(7), *range(8, 12), 40]:
        torch.save(state(10), tmp_path / f"{main.stem}.rank{rank}.pt")
    summary = read_checkpoint(str(main)).rank_states
    assert (summary.found, summary.expected, summary.complete) == (12, 12, False)
    assert any("rank 7" in problem or "missing: 7" in problem for problem in summary.problems)
    assert any("40" in problem for problem in summary.problems)


def test_files_of_other_checkpoints_are_left_alone(tmp_path: Path) -> None:
    main = checkpoint(tmp_path, "checkpoint_10.pt")
    checkpoint(tmp_path, "checkpoint_100.pt")
    for name in (
        "checkpoint_100_rank0.pt",
        "checkpoint_10_rank0.pt",
        "x_checkpoint_10_rank1.pt",
        ".checkpoint_10_rank2.pt",
    ):
        torch.save(state(1), tmp_path / name)
    assert [Path(one.path).name for one in rank_files(str(main))] == ["checkpoint_10_rank0.pt"]


def test_a_checkpoint_that_is_the_file_of_rank_0(tmp_path: Path) -> None:
    for rank in range(11):
        torch.save({"model": {"w": torch.zeros(2)}, "dataset": state(3, splits=11)}, tmp_path / f"rank_{rank}.pt")
    found = read_rank_states(str(tmp_path / "rank_0.pt"))
    assert [one.rank for one in found] == list(range(11))
    for rank in (0, 1):
        directory = tmp_path / f"rank{rank}"
        directory.mkdir()
        torch.save({"model": {"w": torch.zeros(2)}, "dataset": state(3)}, directory / "checkpoint_5.pt")
    found = read_rank_states(str(tmp_path / "rank0" / "checkpoint_5.pt"))
    assert [one.rank for one in found] == [0, 1]


def test_states_inside(tmp_path: Path) -> None:
    one = read_rank_states(str(checkpoint(tmp_path, dataset=state(4))))
    assert [(found.rank, found.world_size, found.state) for found in one] == [(None, None, state(4))]
    assert one[0].origin.endswith(".pt dataset")
    four = read_rank_states(str(checkpoint(tmp_path, dataset=[state(rank) for rank in range(4)])))
    assert [(found.rank, found.world_size) for found in four] == [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert four[3].origin.endswith("dataset[3]") and four[3].state == state(3)
    assert read_rank_states(str(checkpoint(tmp_path, dataset=None))) == []
    assert read_rank_states(str(checkpoint(tmp_path))) == []
    holed = read_rank_states(str(checkpoint(tmp_path, dataset=[state(1), None])))
    assert [found.state is None for found in holed] == [False, True]


def test_counts_of_other_types_become_numbers(tmp_path: Path) -> None:
    odd = state(4)
    odd["samples_consumed_per_split"] = torch.full((24,), 4)
    odd["positions_consumed_per_split"] = np.full(24, 4)
    odd["num_splits"] = np.int64(24)
    odd["epoch"] = torch.tensor(0)
    assert read_rank_states(str(checkpoint(tmp_path, dataset=odd)))[0].state == state(4)


def test_odd_states_are_flagged_and_never_raise(tmp_path: Path) -> None:
    for odd in ({}, [], 3, "text", [3], {"sample_in_epoch": 1}, [state(1), {}], {"num_splits": 10**30}):
        found = read_checkpoint(str(checkpoint(tmp_path, dataset=odd)))
        assert not found.rank_states.complete
        assert found.is_usable


def test_a_rank_file_that_cannot_be_read_is_no_smaller_run(tmp_path: Path) -> None:
    main = checkpoint(tmp_path, world_size=2)
    torch.save(state(10), tmp_path / f"{main.stem}.rank0.pt")
    for content in (b"", b"PK\x03\x04", b"text"):
        (tmp_path / f"{main.stem}.rank1.pt").write_bytes(content)
        summary = read_checkpoint(str(main)).rank_states
        assert not summary.complete
        assert any("rank1" in problem for problem in summary.problems)
        with pytest.raises(UnreadableFile) as refusal:
            read_rank_states(str(main))
        assert refusal.value.where and "rank1" in refusal.value.where
    (tmp_path / f"{main.stem}.rank1.pt").unlink()
    for raw in (b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}", b"\xff\xfe", b"{"):
        (tmp_path / f"{main.stem}.rank1.json").write_bytes(raw)
        assert any("JSON" in problem for problem in read_checkpoint(str(main)).rank_states.problems)


def test_a_checkpoint_that_is_not_whole_has_no_states_to_trust(tmp_path: Path) -> None:
    main = checkpoint(tmp_path, dataset=state(1))
    main.write_bytes(main.read_bytes()[:-10])
    with pytest.raises(UnreadableFile):
        read_rank_states(str(main))


def test_which_names_may_be_checkpoints() -> None:
    may = [
        "pretrain-10-00-00-0007.pt",
        "model.pth",
        "last.ckpt",
        "checkpoint-3.pth.tar",
        "rank_0.pt",
        "rank0.pt",
        "a b.pt",
    ]
    may_not = [
        ".hidden.pt", "a.pt.tmp", "a.pt.part", "a.tmp.pt", ".nfs0000001.pt", "a.pt~", "#a.pt#", "a.rank3.pt",
        "rank_1.pt",
        "a.rank3-of-8.pt", "checkpoint_100_rank3.pt", "x-rank_3.pt", "notes.txt", "model.safetensors",
        "a.pt.crdownload", "tmp.pth.tar", "pt", "", "a.json", "a.pt.sha256",
    ]  # fmt: skip
    assert [name for name in may if not is_checkpoint_name(name)] == []
    assert [name for name in may_not if is_checkpoint_name(name)] == []


def test_references_of_references_are_no_state(tmp_path: Path) -> None:
    """Tiny in the file, endless where each reference is followed."""
    level: Any = [1.5]
    for _ in range(30):
        level = [level] * 10
    counts = list(range(1000, 60_000))
    for odd in ({"num_splits": 1, "samples_consumed_per_split": level}, [state(counts, splits=59_000)] * 2000, level):
        main = checkpoint(tmp_path, dataset=odd, data={"filter": level})
        start = time.perf_counter()
        found = read_checkpoint(str(main))
        assert time.perf_counter() - start < 20
        assert found.is_whole and found.data is None and not found.rank_states.complete
