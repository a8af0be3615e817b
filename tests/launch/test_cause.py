"""Why a training ended badly, out of what it left behind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from lavender_tui.launch.cause import MemoryKills, describe_signal, examine, find, rank_failure
from lavender_tui.launch.tracebacks import last_traceback
from lavender_tui.model.failure import failure_of

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


def of_agent(label: str, rank: int, code: int, at: str) -> str:
    """The table of an agent with one rank, as `srun --label` prints it."""
    lines = (
        "Failures:", "  <NO_OTHER_FAILURES>", "Root Cause (first observed failure):", "[0]:",
        f"  time      : 2026-11-29_23:54:{at}", f"  rank      : {rank} (local_rank: 0)",
        f"  exitcode  : {code} (pid: 1)", "  error_file: <N/A>",
    )  # fmt: skip
    return "".join(f"{label}: {line}\n" for line in lines)


def ranks_output(run_dir: Path, agent: str, rank: int, error: str) -> None:
    output = run_dir / "ranks" / agent / "attempt_0" / "0"
    output.mkdir(parents=True)
    (output / "stderr.log").write_text(
        f'[rank{rank}]: {TOP}\n[rank{rank}]:   File "t.py", line 3\n[rank{rank}]: {error}\n'
    )


LOST = "RuntimeError: [pair.cc:553] Connection closed by peer [10.0.0.1]:143"


@pytest.mark.parametrize("code", [1, -6])
def test_of_several_agents_the_one_whose_rank_failed_by_itself_is_believed(tmp_path: Path, code: int) -> None:
    """Each reports its own ranks, and all have a local rank 0. Gloo's threads abort a rank that had an exception."""
    (tmp_path / "train.log").write_text(of_agent("1", 1, code, "27") + of_agent("0", 0, 1, "26"))
    ranks_output(tmp_path, "a", 0, LOST)
    ranks_output(tmp_path, "b", 1, "RuntimeError: boom")
    failure = examine(str(tmp_path), 1)
    assert failure is not None and (failure.words, failure.rank) == ("rank 1: RuntimeError: boom", 1)
    assert failure.where == "ranks/b/attempt_0/0/stderr.log"


def test_of_several_agents_a_killed_rank_comes_first(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(of_agent(" 7", 7, -9, "27") + of_agent("12", 12, 1, "27"))
    ranks_output(tmp_path, "a", 12, LOST)
    assert str(find(str(tmp_path), 1)).startswith("rank 7 was killed by signal 9")


def test_the_line_of_a_rank_is_read_through_the_label_of_its_node() -> None:
    text = f"12: [default3]:[rank3]: {TOP}\n12: [default3]:[rank3]:   File\n12: [default3]:[rank3]: ValueError: x\n"
    assert last_traceback(text) == "ValueError: x"


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
    for rank, message in (("1", inner), ("0", "RuntimeError: of another")):
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


@pytest.mark.parametrize("log", [False, True])
def test_an_error_line_of_a_megabyte_is_a_reason(tmp_path: Path, log: bool) -> None:
    """A tensor that is printed whole, or a state_dict's missing keys: the traceback begins far before the end."""
    error = f"{TOP}\n  File\nRuntimeError: Missing key(s): {'layer.weight, ' * 80_000}\n"
    directory = tmp_path / "ranks" / "x" / "attempt_0" / "1"
    directory.mkdir(parents=True)
    report = TABLE[TABLE.index("E1129") :].format(rank=1, code=1)
    (tmp_path / "train.log").write_text("begun\n" + (error if log else "") + report)
    (directory / "stderr.log").write_text("" if log else error)
    found = examine(str(tmp_path), 1)
    assert found is not None and found.words.startswith("rank 1: RuntimeError: Missing key(s): layer.weight,")
    assert found.traceback[0] == TOP and max(map(len, (found.words, *found.traceback))) < 1000
    if not log:
        (tmp_path / "train.log").write_text(error)
        (directory / "stderr.log").unlink()
        alone = examine(str(tmp_path), None)
        assert alone is not None and alone.words.startswith("its log ends with RuntimeError: Missing key(s)")


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
        (f"\r 50%|#####     | 1/2 [00:01<00:01]{TOP}\n  File\nOSError: z\n", "OSError: z"),
        (f"{TOP}\n  File\nValueError: " + "x" * 9999, "ValueError: " + "x" * 387 + "…"),
    ],
    ids=range(8),
)
def test_the_last_line_of_the_last_traceback(text: str, found: str | None) -> None:
    assert last_traceback(text) == found


def test_signals_have_names() -> None:
    assert describe_signal(11) == "killed by signal 11 (SIGSEGV)"
    assert describe_signal(250) == "killed by signal 250 (unknown)"


def error_file(run_dir: Path, attempt: int, rank: int, message: str, at: int, *, log: str = "") -> None:
    directory = run_dir / "ranks" / "x" / f"attempt_{attempt}" / str(rank)
    directory.mkdir(parents=True, exist_ok=True)
    stack = f'{TOP}\n  File "t.py", line {rank + 1}, in step\n{message}\n'
    inner = {"message": message, "extraInfo": {"py_callstack": stack, "timestamp": str(at)}}
    (directory / "error.json").write_text(json.dumps({"message": inner}))
    (directory / "stderr.log").write_text(log)


def test_of_ranks_that_failed_together_the_first_is_the_reason(tmp_path: Path) -> None:
    error_file(tmp_path, 0, 0, "ValueError: second", 101)
    error_file(tmp_path, 0, 1, "ValueError: first", 100, log=f"{TOP}\n  File\nValueError: first\n")
    found = examine(str(tmp_path), 1)
    assert found is not None and (found.words, found.rank) == ("rank 1: ValueError: first", 1)
    assert found.place == "t.py:2 in step" and found.where == "ranks/x/attempt_0/1/stderr.log"
    assert failure_of(json.loads(json.dumps(found.to_json())), found.words) == found


def test_a_rank_that_only_lost_its_neighbour_is_not_the_reason(tmp_path: Path) -> None:
    error_file(tmp_path, 0, 0, "RuntimeError: [gloo/pair.cc:525] Connection closed by peer [127.0.0.1]:1", 100)
    error_file(tmp_path, 0, 1, "KeyError: 'own'", 101)
    assert find(str(tmp_path), 1) == "rank 1: KeyError: 'own'"
    # The same where the neighbour died of a signal, though torchrun calls the one that lost it the root cause.
    (tmp_path / "ranks" / "x" / "attempt_0" / "1" / "error.json").unlink()
    table = TABLE.format(rank=0, code=1).replace("local_rank: 1)", "local_rank: 0)")
    table = table.replace(
        "rank      : 0 (local_rank: 0)\n  exitcode  : -15", "rank      : 1 (local_rank: 1)\n  exitcode  : -11"
    )
    (tmp_path / "train.log").write_text(table)
    assert find(str(tmp_path), 1) == "rank 1 was killed by signal 11 (SIGSEGV)"


@pytest.mark.parametrize("root", [0, 1])
def test_a_rank_that_torchrun_ended_on_its_way_out_failed_by_its_own_error(tmp_path: Path, root: int) -> None:
    """Its error was first, its end was not; which one torchrun calls the root cause says nothing within a second."""
    error_file(tmp_path, 0, 1, "ValueError: first", 100)
    error_file(tmp_path, 0, 0, "ValueError: second", 100)
    table = TABLE.format(rank=root, code=(1, -15)[root]).replace("local_rank: 1)", f"local_rank: {root})")
    other = f"rank      : {1 - root} (local_rank: {1 - root})\n  exitcode  : {(-15, 1)[root]}"
    (tmp_path / "train.log").write_text(table.replace("rank      : 0 (local_rank: 0)\n  exitcode  : -15", other))
    found = examine(str(tmp_path), 1)
    assert found is not None and (found.words, found.rank) == ("rank 1: ValueError: first", 1)


def test_an_error_that_a_restart_got_over_is_not_the_reason(tmp_path: Path) -> None:
    error_file(tmp_path, 0, 1, "ValueError: of the first attempt", 100)
    error_file(tmp_path, 1, 0, "OSError: of the second", 200)
    assert find(str(tmp_path), 1) == "rank 0: OSError: of the second"


def test_a_code_of_its_own_is_not_explained_by_an_older_traceback(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(
        f"{TOP}\n  File\nValueError: caught and printed\n" + TABLE.format(rank=1, code=3)
    )
    assert find(str(tmp_path), 1) == "rank 1 ended with exit code 3"
    (tmp_path / "train.log").write_text(f"{TOP}\n  File\nValueError: caught and printed\n")
    assert find(str(tmp_path), 3) is None and find(str(tmp_path), 1) == "ValueError: caught and printed"


@pytest.mark.parametrize("document", [None, 3, "x", [], {}, {"rank": True, "traceback": 3, "where": "\0"}])
def test_what_is_no_failure_reads_as_none_of_its_facts(document: object) -> None:
    found = failure_of(document, "words")
    assert found is None or (found.rank, found.exception, found.traceback, found.where) == (None, None, (), None)
