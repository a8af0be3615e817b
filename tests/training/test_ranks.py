"""What ranks do together, with real ranks: torchrun, gloo, two processes."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from lancedb.streaming import StreamingDataset

from lavender_tui.errors import UsageError
from lavender_tui.launch.record import read_exit, read_launch
from lavender_tui.training import CheckpointManager


@pytest.fixture
def answers(
    torchrun: Callable[..., subprocess.Popen[str]],
    results: Callable[[subprocess.Popen[str], int], list[dict[str, Any]]],
    uri: str,
) -> list[dict[str, Any]]:
    return results(torchrun(2, "at_once.py", uri=uri), 2)


def test_ranks_agree_on_everything(answers: list[dict[str, Any]]) -> None:
    first, second = answers
    _one_new_directory_each(first, second)
    _only_the_first_clock_counts(first, second)
    _a_full_disk_hangs_nobody(first, second)
    _the_file_holds_what_owners_say(first, second)
    assert first["sharded"] == second["sharded"]
    assert len(first["sharded"]) == 3
    assert all(all(same) for same in first["sharded"].values())


def _one_new_directory_each(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first["directories"] == second["directories"]
    assert len(set(first["directories"])) == 2


def _only_the_first_clock_counts(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first["clocks"] == second["clocks"] == {"first is due": [True] * 3, "others are due": [False] * 3}


def _a_full_disk_hangs_nobody(first: dict[str, Any], second: dict[str, Any]) -> None:
    one, other = first["full disk"], second["full disk"]
    assert one["tried"] is None
    assert other["tried"] is None
    assert "could not be written" in one["raised"]
    assert one["raised"] == other["raised"]
    assert [name for name in one["left"] if not name.endswith((".json", ".jsonl"))] == ["training.lock"]
    assert one["saved"] == other["saved"]
    assert one["saved"].endswith("-0001.pt")


def _the_file_holds_what_owners_say(first: dict[str, Any], second: dict[str, Any]) -> None:
    assert first["uneven"] == second["uneven"]
    content = torch.load(first["uneven"], weights_only=True)
    assert content["world_size"] == 2
    assert set(content["model_state_dict"]) == {"weight", "bias"}  # not module.weight
    states = content["dataset"]
    assert [state["samples_consumed_per_split"] for state in states] == [[2, 2, 3, 3]] * 2
    assert StreamingDataset.merge_state_dicts(states) == states[0]
    assert [rng["torch"].tolist()[:64] for rng in content["rng"]] == [first["rng"], second["rng"]]


@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_sigterm_to_torchrun_saves_once_and_no_row_is_lost(
    num_workers: int,
    torchrun: Callable[..., subprocess.Popen[str]],
    uri: str,
    root: str,
    tmp_path: Path,
    until: Callable[..., object],
) -> None:
    process = torchrun(2, "script.py", uri=uri, root=root, pause=0.1, num_workers=num_workers)
    until(lambda: len(_rows(tmp_path)) >= 3 or process.poll() is not None, 120, "three steps")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    paths = glob.glob(os.path.join(root, "run-*", "*.pt"))
    assert len(paths) == 1, output
    path = paths[0]
    content = torch.load(path, weights_only=True)
    assert content["stopped_by"] == "SIGTERM", output
    assert "data_warnings" not in content
    run_dir = os.path.dirname(path)
    trained = _rows(tmp_path)
    assert content["global_step"] == max(row["step"] for row in trained)
    lines = [json.loads(line) for line in Path(run_dir, "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["event"] == "end"
    assert (lines[-1]["status"], lines[-1]["by"]) == ("stopped", "SIGTERM")
    (began,) = [line for line in lines if line.get("event") == "begin"]
    assert (began["at_step"], began["epoch"], began["world_size"], began["checkpoint"]) == (0, 1, 2, None)
    starts = [{"dataset_epoch": 0, "first_split": first, "taken": [0] * 4} for first in (0, 4)]
    assert began["positions"] == starts
    ended, launched = read_exit(run_dir), read_launch(run_dir)
    assert ended is not None
    assert ended.code == 0
    assert launched is not None
    assert "torch.distributed.run" in launched.argv
    assert launched.world_size == 2
    # On ONE rank now: what is left, and nothing else.
    resumed = torchrun(1, "script.py", uri=uri, root=root, resume=path)
    output, _ = resumed.communicate(timeout=120)
    assert resumed.returncode == 0, output
    assert _began(root, path)["positions"] == [
        {"dataset_epoch": 0, "first_split": 0, "taken": content["dataset"][0]["samples_consumed_per_split"]}
    ]
    seen = [x for row in _rows(tmp_path) for x in row["x"]]
    assert sorted(seen) == list(range(200))


def _began(root: str, checkpoint: str) -> dict[str, Any]:
    """The begin of the run that loaded this checkpoint."""
    told = [
        json.loads(line)
        for path in Path(root).glob("run-*/metrics.jsonl")
        for line in path.read_text().splitlines()
        if '"begin"' in line
    ]
    (found,) = [one for one in told if one["checkpoint"] == checkpoint]
    return found


def _rows(tmp_path: Path) -> list[dict[str, Any]]:
    lines = [line for path in sorted(tmp_path.glob("rows*.jsonl")) for line in path.read_text().splitlines(True)]
    return [json.loads(line) for line in lines if line.endswith("\n")]


def test_a_rank_that_has_no_process_group_yet_is_told(monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="init_process_group"):
        CheckpointManager(root)
    assert not os.path.exists(root)
