"""Errors in a training's output are found whole; what only speaks of errors is none."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence

import pytest

from lavender_tui.logs.errors import feed
from lavender_tui.model.log_errors import ErrorBlock, ErrorFinder, Kind, cause_of, kind_of, last_reason, summary

TOP = "Traceback (most recent call last):"
CHAINED = """\
Traceback (most recent call last):
  File "train.py", line 3, in main
    {}["a"]
KeyError: 'a'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
RuntimeError: boom
"""
TORCHRUN = """\
E1129 17:00:00.000000 123 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: 1) local_rank: 1
Traceback (most recent call last):
  File "run.py", line 1, in <module>
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
t.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-29_16:00:00
  rank      : 1 (local_rank: 1)
  exitcode  : -11 (pid: 12)
  error_file: <N/A>
  traceback : Signal 11 (SIGSEGV) received by PID 12
============================================================
"""


def find(text: str) -> list[ErrorBlock]:
    finder, data = ErrorFinder(), text.encode()
    return sorted([*feed(finder, 0, data), *finder.finish()], key=lambda one: one.start)


def lines_of(block: ErrorBlock, text: str) -> str:
    return text.encode()[block.start : block.end].decode()


def test_a_chained_traceback_is_one_error_and_its_last_line_sums_it_up() -> None:
    text = "step 1\n" + CHAINED + "step 2\n"
    (block,) = find(text)
    assert block.head == "RuntimeError: boom" and lines_of(block, text) == CHAINED


def test_torchruns_report_is_one_error_that_names_the_rank() -> None:
    text = CHAINED + TORCHRUN + "bye\n"
    first, second = find(text)
    assert first.head == "RuntimeError: boom" and second.kind is Kind.TORCHRUN
    assert second.head == "torchrun: rank 1 failed first, killed by signal 11" and lines_of(second, text) == TORCHRUN


def test_tracebacks_of_ranks_that_are_mixed_are_put_together() -> None:
    ranks = {rank: [f"[default{rank}]:{line}" for line in CHAINED.splitlines()] for rank in range(3)}
    turns = [rank for rank, lines in ranks.items() for _ in lines]
    random.Random(7).shuffle(turns)
    taken = {rank: iter(lines) for rank, lines in ranks.items()}
    text = "".join(next(taken[rank]) + "\n" for rank in turns)
    found = find(text)
    assert sorted(block.words for block in found) == [f"rank {rank}: RuntimeError: boom" for rank in range(3)]
    assert {block.rank for block in found} == {0, 1, 2}


def test_the_line_of_a_log_before_a_traceback_belongs_to_it() -> None:
    text = "ERROR:root:it went wrong\n" + CHAINED
    (block,) = find(text)
    assert block.start == 0 and block.head == "RuntimeError: boom"


def test_a_traceback_behind_a_bar_that_has_no_line_end() -> None:
    (block,) = find("\r 50%|###  | 5/10 [00:01<00:01, 5it/s]" + CHAINED)
    assert block.head == "RuntimeError: boom"


def test_a_group_of_exceptions_is_one_error() -> None:
    text = (
        "  + Exception Group Traceback (most recent call last):\n"
        '  |   File "t.py", line 1, in <module>\n'
        "  | ExceptionGroup: two (2 sub-exceptions)\n"
        "  +-+---------------- 1 ----------------\n"
        "    | Traceback (most recent call last):\n"
        '    |   File "t.py", line 2, in f\n'
        "    | ValueError: inner\n"
        "    +------------------------------------\n"
    )
    (block,) = find(text + "next\n")
    assert block.head.startswith("ExceptionGroup") and lines_of(block, text) == text


@pytest.mark.parametrize("mark", ["[rank0]: ", "[default0]:[rank0]: "])
def test_torch_puts_a_space_after_its_mark(mark: str) -> None:
    last = "RuntimeError: [/gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:1234"
    lines = (TOP, '  File "train.py", line 9, in <module>', "    loss.backward()", last)
    text = "".join(f"{mark}{line}\n" for line in lines)
    (block,) = find(text + f"{mark.rstrip()}\n{mark}step 3\n")
    assert block.words == f"a consequence: rank 0: {last}" and lines_of(block, text) == text


def test_a_traceback_that_is_cut_off_is_an_error_nevertheless() -> None:
    (block,) = find('Traceback (most recent call last):\n  File "t.py", line 1\n')
    assert block.head == "a traceback without an end"


def test_a_thousand_assertions_of_one_kernel_are_one_error() -> None:
    line = "Indexing.cu:1292: block: [%d,0,0], thread: [1,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n"
    text = "CUDA error: device-side assert triggered\n" + "".join(line % number for number in range(1000))
    assert len(find(text)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: boom",
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "ERROR:root:bad",
        "2026-11-29 12:00:00,123 ERROR something bad happened",
        "[ERROR] disk full",
        "train.py: error: unrecognized arguments: --x",
        "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0",
        "Killed",
        "run.sh: line 3: 1234 Killed                  python train.py",
        "Segmentation fault (core dumped)",
        "Fatal Python error: Segmentation fault",
        "E1129 17:00:00.000000 123 torch/x.py:984] failed (exitcode: 1) local_rank: 1",
        "srun: error: node1: task 0: Exited with exit code 1",
        "RuntimeError: CUDA error: device-side assert triggered",
        "terminate called after throwing an instance of 'c10::Error'",
        "[rank1]:[E1129 17:00:00.1 ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout: WorkNCCL",
        "Out of memory: Killed process 123 (python)",
        "ncclSystemError: System call failed",
        "bash: fatal error: no such file",
        "CRITICAL: giving up",
        "OSError: [Errno 28] No space left on device",
    ],
)
def test_what_is_an_error(line: str) -> None:
    assert len(find(f"step 1\n{line}\nstep 2\n")) == 1
    assert len(find(f"[default3]:{line}\n")) == 1


@pytest.mark.parametrize(
    "line",
    [
        "error: 0", "0 errors", "errors=0", "ERROR: 0", "Error: 0", "no ERROR found", "0 ERRORS", "ERRORS 0 / 5",
        "mean_squared_error: 0.25", "val MeanSquaredError: 0.123", "MeanSquaredError: nan", "MAError: -3.2e-4",
        "reconstruction error: 1e-3", "error: none", "step 3 (error=0.1)", "word error rate: 12%",
        "Exception handling enabled", "[INFO] errors: 0, warnings: 2", "killed 0 workers", "CUDA errors: 0",
        "NCCL version 2.19", "CUDA_VISIBLE_DEVICES=0", "kl_error: tensor(0.3)", "saving to runs/error/ckpt",
        " 10%|# | 1/10 [00:01<00:09, error=0.1]", "SquaredError: .5", "loss 3 error: 0.3", "finished without errors",
    ],
)  # fmt: skip
def test_what_only_speaks_of_errors(line: str) -> None:
    assert kind_of(line) is None and find(f"{line}\n" * 3) == []


def test_the_words_that_sum_up() -> None:
    assert summary(0, "") == "no error" and summary(0, "", is_whole=False) == "no error so far"
    assert summary(1, "Killed") == "1 error: Killed"
    assert summary(3, "rank 1: RuntimeError: boom") == "3 errors, first: rank 1: RuntimeError: boom"


@pytest.mark.parametrize(
    ("head", "is_consequence"),
    [
        ("RuntimeError: [../gloo/transport/tcp/pair.cc:525] Read error [::1]:4: Connection reset by peer", True),
        ("RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer", True),
        (
            "torch.distributed.DistBackendError: NCCL error in: …, remote process exited or network error",
            True,
        ),
        ("torch.distributed.DistNetworkError: failed to recv, got 0 bytes", True),
        ("ConnectionResetError: [Errno 104] Connection reset by peer", False),  # of a download, say
        ("RuntimeError: boom", False),
    ],
)
def test_what_another_ranks_end_did_is_a_consequence(head: str, is_consequence: bool) -> None:
    block = ErrorBlock(0, 1, Kind.TRACEBACK, head, "[rank0]: ")
    assert block.is_consequence is is_consequence
    assert block.words == ("a consequence: " if is_consequence else "") + f"rank 0: {head}"


def test_the_cause_is_named_before_its_consequences() -> None:
    gone = ErrorBlock(0, 1, Kind.TRACEBACK, "RuntimeError: gloo: Connection reset by peer", "[rank0]: ")
    boom = ErrorBlock(5, 6, Kind.TRACEBACK, "RuntimeError: boom", "[rank1]: ")
    report = ErrorBlock(9, 10, Kind.TORCHRUN, "torchrun: rank 1 failed first, SIGKILL")
    assert cause_of([gone, boom, report]) is boom
    assert cause_of([gone, report]) is report
    assert cause_of([gone]) is gone
    assert cause_of([]) is None


def found_in(lines: Sequence[str]) -> list[ErrorBlock]:
    finder, found, at = ErrorFinder(), [], 0
    for line in lines:
        found += finder.feed(at, line, len(line) + 1)
        at += len(line) + 1
    return sorted([*found, *finder.finish()], key=lambda one: one.start)


FRAME = '  File "train.py", line 6, in <module>'
BOOM = [f"[default1]:[rank1]: {line}" for line in (TOP, FRAME, "ValueError: boom: the data is broken")]
GONE = [
    f"[default0]:[rank0]: {line}"
    for line in (TOP, FRAME, "RuntimeError: [gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:5")
]


def abort(rank: int) -> list[str]:
    """As the process goes after its exception, of what a thread of gloo threw meanwhile."""
    return [
        f"[default{rank}]:{line}"
        for line in (
            "terminate called after throwing an instance of 'gloo::EnforceNotMet'",
            "  what():  [enforce fail at pair.cc:253] false. unexpected state",
            "Fatal Python error: Aborted",
            "Thread 0x00007f5 (most recent call first):",
            "  <no Python frame>",
        )
    ]


@pytest.mark.parametrize("lines", [[*BOOM, *GONE, *abort(1), *abort(0)], [*GONE, *BOOM, *abort(0), *abort(1)]])
def test_what_an_exception_left_to_abort_is_no_reason(lines: list[str]) -> None:
    errors = found_in(lines)
    reason = last_reason(errors)
    assert reason is not None and reason.words == "rank 1: ValueError: boom: the data is broken"
    assert cause_of(errors) is reason and len([one for one in errors if one.kind is Kind.CRASH]) >= 2
    own = [line.partition("[rank1]: ")[2] or line.partition(":")[2] for line in (*BOOM, *abort(1))]
    alone = last_reason(found_in(own))  # as in the rank's own file
    assert alone is not None and alone.head == "ValueError: boom: the data is broken"


def test_an_abort_without_an_exception_before_it_and_a_fault_of_memory_are_reasons() -> None:
    assert (last_reason(found_in(abort(1))) or found_in(BOOM)[0]).head == "Fatal Python error: Aborted"
    other = last_reason(found_in([*GONE, *abort(1)]))  # of another rank
    assert other is not None and other.rank == 1
    fault = last_reason(found_in([*BOOM, "[default1]:Fatal Python error: Segmentation fault"]))
    assert fault is not None and fault.kind is Kind.CRASH
    much_later = last_reason(found_in([*BOOM, *["[default1]:step"] * 10_000, *abort(1)]))
    assert much_later is not None and much_later.head == "Fatal Python error: Aborted"


def test_what_is_known_to_have_ended_the_run_comes_first() -> None:
    errors = found_in([*BOOM, "[default1]:[rank1]: again", *BOOM, *GONE, "[default0]:RuntimeError: on the way out"])
    assert (last_reason(errors) or errors[0]).head == "RuntimeError: on the way out"
    assert last_reason(errors, "ValueError: boom: the data…") is errors[1]
    assert last_reason(errors, "KeyError: 'none of them'") is errors[-1]
    assert last_reason([], "x") is None


JUDGES_LONG_LINES = """
from lavender_tui.model.log_errors import ErrorFinder
finder = ErrorFinder()
for number in range(600):
    for line in ("AError: " + "1" * 3900 + "x", "ERROR" + "." * 3900 + "x", "NCCL WARN " * 390, "Assertion `" * 360):
        list(finder.feed(number, line, 1))
"""


def test_long_lines_of_one_character_cost_no_more_than_others() -> None:
    """Each of the first two took seconds for a few dozen lines: the limit is far from what they take now."""
    subprocess.run([sys.executable, "-c", JUDGES_LONG_LINES], check=True, timeout=60)


def test_a_reason_with_its_messages_further_lines_is_found_by_its_first() -> None:
    first = f"{TOP}\n  File\nRuntimeError: Error(s) in loading:\n\tMissing key(s)\n"
    blocks = find(first + "step 1\n" * 3 + f"{TOP}\n  File\nOSError: on the way out\n")
    reason = last_reason(blocks, "RuntimeError: Error(s) in loading: Missing key(s)")
    assert reason is not None and reason.head == "RuntimeError: Error(s) in loading:"
