"""The child that imports torch and lancedb: what it answers, and every way in which it may not."""

from __future__ import annotations

import json
import marshal
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import BadState, LavenderError
from lavender_tui.resume import merge
from lavender_tui.resume.child import Child
from tests.resume.saves import row


@pytest.fixture(scope="module")
def child() -> Any:
    with Child() as made:
        yield made


def test_it_merges_as_the_library_does(child: Child) -> None:
    states = [row(6, positions_consumed_per_split=[7, 6, 6, 6]), row(6, positions_consumed_per_split=[6, 6, 6, 9])]
    assert child.merge(states)["positions_consumed_per_split"] == [7, 6, 6, 9]


def test_what_the_library_refuses_is_a_bad_state_with_its_reason(child: Child) -> None:
    with pytest.raises(BadState, match="epoch mismatch"):
        child.merge([row(), row(epoch=1)])
    with pytest.raises(BadState, match="at least one"):
        child.merge([])


def test_a_packed_state_keeps_its_split_numbers(child: Child, tmp_path: Path) -> None:
    import torch

    state = {
        "shuffle_seed": 0, "num_splits": 2, "epoch": 0, "pack_sequences": 8, "eos_id": 1, "pad_id": 0,
        "blocks_per_epoch": 20, "samples_consumed_per_split": [5, 6], "blocks_emitted_per_split": [2, 2],
        "pack_buffers": {0: {"tokens": [1], "starts": []}, 1: {"tokens": [2, 3], "starts": [0]}},
    }  # fmt: skip
    assert child.merge([state]) == state
    path = str(tmp_path / "state.pt")
    child.save(state, path)
    assert torch.load(path, weights_only=True) == state
    assert os.listdir(tmp_path) == ["state.pt"]


@pytest.mark.parametrize("mask", [0o022, 0o027])
def test_a_file_has_the_rights_that_this_process_gives(
    child: Child, tmp_path: Path, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which aren't changed for it, not even for an instant: other threads make files and start trainings."""
    before, masks = os.umask(mask), []
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda new: masks.append(new) or mask)
            child.save(row(), str(tmp_path / "state.pt"))
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "state.pt").st_mode & 0o777 == 0o666 & ~mask and masks == []


def test_a_file_that_cannot_be_written_is_said_and_leaves_nothing(child: Child, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere" / "state.pt")
    with pytest.raises(LavenderError, match="No such file") as raised:
        child.save(row(), nowhere)
    assert (raised.value.where, raised.value.hint) == (nowhere, "Name another place")
    (tmp_path / "taken.pt").mkdir()
    with pytest.raises(LavenderError):
        child.save(row(), str(tmp_path / "taken.pt"))
    assert os.listdir(tmp_path) == ["taken.pt"]


def test_it_looks_at_a_table_without_making_one(child: Child, table: Any, tmp_path: Path) -> None:
    uri = os.path.dirname(table.uri)
    seen = child.table(uri, "rows", version=table.version)
    assert seen["opens"] and seen["rows"] == 1000 and seen["current"] == table.version
    gone = child.table(uri, "rows", version=99)
    assert not gone["opens"] and gone["reason"]
    with pytest.raises(LavenderError, match="there is no database"):
        child.table(str(tmp_path / "nowhere"), "rows")
    assert not os.listdir(tmp_path)
    with pytest.raises(LavenderError):
        child.table(uri, "no-such-table")


def test_a_request_that_makes_no_sense_is_answered() -> None:
    for request in ([], {}, {"task": "nothing"}, {"task": "merge"}, {"task": "merge", "states": 3}):
        assert "error" in merge.serve(marshal.dumps(request))
    for body in (b"", b"{", marshal.dumps({"task": "merge"})[:-3]):
        assert json.loads(json.dumps(merge.serve(body)))["about"] == "request"


def test_too_slow_cancelled_and_killed_are_told_apart() -> None:
    with Child(timeout_seconds=0.05) as child, pytest.raises(LavenderError, match="took longer"):
        os.kill(child._process.pid, signal.SIGSTOP)  # however fast the machine imports
        child.merge([row()])
    with Child() as child:
        os.kill(child._process.pid, signal.SIGSTOP)
        threading.Timer(0.2, child.close).start()
        with pytest.raises(LavenderError, match="cancelled"):
            child.merge([row()])
        assert not child.is_usable
    with Child() as child:
        os.kill(child._process.pid, signal.SIGKILL)
        with pytest.raises(LavenderError, match="by signal 9"):
            child.merge([row()])


def test_it_is_closed_by_all_threads_at_once() -> None:
    failed: list[Exception] = []

    def close(child: Child, together: threading.Barrier) -> None:
        together.wait(60)
        try:
            child.close()
        except Exception as error:
            failed.append(error)

    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(120):
            asked = (Child(), threading.Barrier(8))
            threads = [threading.Thread(target=close, args=asked) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
    finally:
        sys.setswitchinterval(usual)
    assert failed == []


def test_it_ends_with_whoever_started_it(until: Any) -> None:
    child = Child()
    assert child._process.stdin is not None
    child._process.stdin.close()
    until(lambda: child._process.poll() is not None, 60, "the child to end")
    assert child._process.returncode == 0
    child.close()


def test_the_environment_of_a_rank_does_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "LAVENDER_RESUME_PLAN", "TORCHELASTIC_RUN_ID"):
        monkeypatch.setenv(name, "7")
    begun = time.monotonic()
    with Child() as child:
        with open(f"/proc/{child._process.pid}/environ", "rb") as file:
            names = {entry.partition(b"=")[0] for entry in file.read().split(b"\0")}
        assert not names & {b"RANK", b"WORLD_SIZE", b"MASTER_ADDR", b"LAVENDER_RESUME_PLAN", b"TORCHELASTIC_RUN_ID"}
    assert time.monotonic() - begun < 20
