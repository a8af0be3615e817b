"""Why a training ended badly, out of what it left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lavender_tui.launch.cause import MemoryKills, describe_signal, find, last_traceback, rank_failure

TOP = "Traceback (most recent call last):"
TABLE = """
[default1]:Traceback (most recent call last):
[default1]:  File "t.py", line 3, in <module>
[default1]:    raise RuntimeError("boom")
[default1]:RuntimeError: boom
E1129 17:00:00.000000 123 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: {code}) local_rank: 1
Traceback (most recent call last):
  File "run.py", line 1, in <module>
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
t.py FAILED
------------------------------------------------------------
Failures:
[1]:
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 11)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_16:00:00
  rank      : {rank} (local_rank: 1)
  exitcode  : {code} (pid: 12)
  error_file: <N/A>
============================================================
"""


def test_the_first_failure_is_the_ranks(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(rank=5, code=1))
    failure = rank_failure(str(tmp_path))
    assert failure is not None and (failure.rank, failure.local_rank, failure.exit_code) == (5, 1, 1)
    assert find(str(tmp_path), 1) == "rank 5: RuntimeError: boom"


def test_a_killed_rank_is_named_with_what_is_known_of_the_memory_killer(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(rank=1, code=-9))
    assert find(str(tmp_path), 1) == (
        "rank 1 was killed by signal 9 that nobody here sent (an administrator, or the memory killer of a container)"
    )
    machine = find(str(tmp_path), 1, memory_kills=MemoryKills({"machine": 2, "group": 0}))
    assert "perhaps by the kernel's memory killer" in str(machine) and "out of memory" not in str(machine)
    assert "9: out of memory" in str(find(str(tmp_path), 1, memory_kills=MemoryKills({"group": 1})))
    assert "log names it" in str(find(str(tmp_path), 1, memory_kills=MemoryKills({}, {12})))


@pytest.mark.parametrize("inner", [{"message": "RuntimeError: from the file"}, "RuntimeError: from the file"])
def test_the_error_file_of_the_failed_rank_comes_first(tmp_path: Path, inner: object) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(rank=1, code=1))
    for rank, message in (("0", "RuntimeError: of another"), ("1", inner)):
        directory = tmp_path / "ranks" / "x" / "attempt_0" / rank
        directory.mkdir(parents=True)
        (directory / "error.json").write_text(json.dumps({"message": message}))
    assert find(str(tmp_path), 1) == "rank 1: RuntimeError: from the file"


def test_the_failed_ranks_own_output_comes_before_the_log(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(TABLE.format(rank=1, code=1))
    directory = tmp_path / "ranks" / "x" / "attempt_0" / "1"
    directory.mkdir(parents=True)
    (directory / "stderr.log").write_text("Traceback (most recent call last):\n  File\nKeyError: 'own'\n")
    assert find(str(tmp_path), 1) == "rank 1: KeyError: 'own'"


def test_hostile_files_say_nothing_and_do_no_harm(tmp_path: Path) -> None:
    directory = tmp_path / "ranks" / "x" / "attempt_0" / "1"
    directory.mkdir(parents=True)
    os.mkfifo(directory / "error.json")
    os.mkfifo(tmp_path / "train.log")
    assert find(str(tmp_path), 1) is None
    (tmp_path / "train.log").unlink()
    (directory / "error.json").unlink()
    (directory / "error.json").write_text('{"message": ' + "[" * 5000)
    (tmp_path / "train.log").write_bytes(b"\xff\0" * 1000 + b"Root Cause (first observed failure)")
    assert find(str(tmp_path), 1) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", None),
        ("no traceback\nValueError: x", None),
        (f"{TOP}\n  File\nValueError: x\n", "ValueError: x"),
        (f"{TOP}\n  a\nKeyError: 'x'\n\nDuring …\n\n{TOP}\n  b\na.b.MyError\n", "a.b.MyError"),
        (f"[rank0]: {TOP}\n[rank0]:   File\n[rank0]: OSError: y\n", "OSError: y"),
        (f"{TOP}\n  File", None),
        (f"{TOP}\n  File\nValueError: " + "x" * 9999, "ValueError: " + "x" * 387 + "…"),
    ],
    ids=range(7),
)
def test_the_last_line_of_the_last_traceback(text: str, found: str | None) -> None:
    assert last_traceback(text) == found


def test_signals_have_names() -> None:
    assert describe_signal(11) == "killed by signal 11 (SIGSEGV)"
    assert describe_signal(250) == "killed by signal 250 (unknown)"
