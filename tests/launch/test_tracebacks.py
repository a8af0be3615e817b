"""Tracebacks as Python, its libraries and torchrun print them; what a training prints beside and after them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.launch.cause import examine, find
from lavender_tui.launch.tracebacks import FEW_LINES, last, last_traceback

TOP = "Traceback (most recent call last):"
FRAMES = f'{TOP}\n  File "train.py", line 3, in <module>\n    main()\n'
REAL = f"{FRAMES}ValueError: the real reason\n"
STEPS = "".join(f"step {number} loss 2.5\n" for number in range(FEW_LINES + 1))
GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "x.py", line 5, in <module>
  |     raise ExceptionGroup("eg", [ValueError("bad shard 7"), TypeError("t")])
  | ExceptionGroup: eg (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "x.py", line 3, in read
    | ValueError: bad shard 7
    +---------------- 2 ----------------
    | TypeError: t
    +------------------------------------
"""
RICH = """\
╭──────────────── Traceback (most recent call last) ─────────────────╮
│ /tmp/x.py:5 in <module>                                            │
│ ❱ 5 raise ValueError("rich bad")                                   │
╰────────────────────────────────────────────────────────────────────╯
ValueError: rich bad
"""
# What stands below a real traceback: of NCCL's threads, C++, Python's trackers, loggers, Slurm.
AFTERMATH = (
    "[rank1]:[E1129 17:00:00.000000 123 ProcessGroupNCCL.cpp:542] caught exception\n"
    + "".join(f"frame #{number}: c10::Error::Error() + 0x57 (0x7f0 in libc10.so)\n" for number in range(60))
    + "node7:123:456 [0] NCCL INFO comm 0x7f destroyed\n" * 60
    + "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss: block: [0,0,0] Assertion `t >= 0` failed.\n" * 60
    + "wandb: loss 3.2\n" * 60
    + "/usr/lib/python3.11/multiprocessing/resource_tracker.py:224: UserWarning: 1 leaked semaphore\n  warnings.warn(\n"
    + "  0%|          | 1/2 [00:01<00:01, 1.0it/s]\n" * 60
    + "srun: error: node7: task 1: Exited with exit code 1\n"
)


@pytest.mark.parametrize(
    "noise",
    [
        "Exception ignored in: <function Pool.__del__ at 0x7f>",
        "Exception ignored in atexit callback: <function f>",
        "Exception ignored on calling ctypes callback function <f>",
        "Error in atexit._run_exitfuncs:",
        "Error in sys.excepthook:",
        "Exception in thread Thread-3 (_pin_memory_loop):",
        "Exception in Tkinter callback",
    ],
)
def test_what_is_printed_on_the_way_out_is_not_the_reason(noise: str) -> None:
    out = f"{noise}\n{FRAMES}KeyError: 'fd'\n\nDuring handling of the above exception, another exception occurred:\n\n"
    out += f"{FRAMES}OSError: [Errno 9] Bad file descriptor\n"
    assert last_traceback(REAL + out) == last_traceback(out + REAL) == "ValueError: the real reason"
    assert last_traceback(out) == "OSError: [Errno 9] Bad file descriptor"  # where there is no other


def test_the_original_of_an_exception_hook_that_failed_is_the_reason() -> None:
    text = f"Error in sys.excepthook:\n{FRAMES}NameError: hook\n\nOriginal exception was:\n{REAL}"
    assert last_traceback(text) == "ValueError: the real reason"


def test_an_error_that_was_got_over_long_before_the_end_is_not_told_as_the_reason(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{REAL}{STEPS}config is missing: lr\n")
    found = examine(str(tmp_path), 1)
    assert found is not None and (found.exception, found.traceback, found.where) == (None, (), "train.log")
    assert found.words == 'the output ends with "config is missing: lr", long after ValueError: the real reason'
    assert examine(str(tmp_path), None) is None
    log.write_text(REAL + STEPS + FRAMES + "OSError: the last\n")
    assert find(str(tmp_path), 1) == "OSError: the last"


def test_what_follows_from_an_end_or_comes_from_others_puts_no_doubt_on_a_traceback(tmp_path: Path) -> None:
    for text in (AFTERMATH, STEPS.replace("step", "[default0]:step")):
        (tmp_path / "train.log").write_text(REAL + text)
        assert find(str(tmp_path), 1) == "ValueError: the real reason"
    bars = "\r 10%|#   | 1/10" * 1000
    (tmp_path / "train.log").write_text(REAL + bars)
    assert find(str(tmp_path), 1) == "ValueError: the real reason"
    (tmp_path / "train.log").write_text(bars + REAL)
    assert find(str(tmp_path), 1) == "ValueError: the real reason"


def test_a_rank_that_got_over_a_lost_neighbour_failed_by_itself(tmp_path: Path) -> None:
    lost = f"{FRAMES}RuntimeError: [pair.cc:553] Connection closed by peer\n"
    output = tmp_path / "ranks" / "x" / "attempt_0" / "0"
    output.mkdir(parents=True)
    (output / "stderr.log").write_text(f"{lost}{STEPS}out of data\n")
    entry = "[{0}]:\n  rank      : {0} (local_rank: {0})\n  exitcode  : 1 (pid: 1{0})\n"
    report = f"Failures:\n{entry.format(1)}Root Cause (first observed failure):\n{entry.format(0)}"
    (tmp_path / "train.log").write_text(report)
    assert str(find(str(tmp_path), 1)).startswith('rank 0: the output ends with "out of data", long after')
    (output / "stderr.log").write_text(lost)
    assert find(str(tmp_path), 1) == "rank 1 ended with exit code 1"


@pytest.mark.parametrize(
    ("log", "code", "found"),
    [
        ("step 1\nno corpus at /data\n", 1, 'the output ends with "no corpus at /data"'),
        ("step 1\nno corpus\n\n[lavender-tui supervisor] older lines are in train.log.1\n", 1, "no corpus"),
        ("\r 50%|##   | 1/2 [00:01<00:01, 1.0it/s, loss=2.1]no corpus\n", 1, '"no corpus"'),
        ("no corpus\n\r 50%|##   | 1/2 [00:01<00:01, 1.0it/s]", 1, '"no corpus"'),
        ("\x1b[31mno corpus\x1b[0m\n", 1, '"no corpus"'),
        ("no corpus\n", 3, None),  # a code of its own: what was printed before need not be why
        ("", 1, None),
    ],
)
def test_what_a_script_said_at_its_end_without_a_traceback(
    tmp_path: Path, log: str, code: int, found: str | None
) -> None:
    (tmp_path / "train.log").write_bytes(log.encode())
    told = find(str(tmp_path), code)
    assert told is None if found is None else found in str(told), told


@pytest.mark.parametrize("level", ["WARNING", "INFO", "ERROR", "DEBUG", "CRITICAL"])
def test_a_line_that_another_thread_logs_inside_a_traceback_is_not_its_error(level: str) -> None:
    for logged in (f"{level}:root:from a thread", f"{level}: from a thread"):
        lines = FRAMES.splitlines()
        text = "\n".join((lines[0], logged, *lines[1:], logged, "ValueError: right", ""))
        assert last_traceback(text) == "ValueError: right"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (GROUP, "ExceptionGroup: eg (2 sub-exceptions) – ValueError: bad shard 7; TypeError: t"),
        (f"{RICH}", "ValueError: rich bad"),
        ('  File "t.py", line 3\n    x = = 3\n        ^\nSyntaxError: invalid syntax\n', "SyntaxError: invalid syntax"),
        ('[a1]:  File "t.py", line 3\n[a1]:    x = = 3\n[a1]:SyntaxError: invalid\n', "SyntaxError: invalid"),
        ('  File "t.py", line 3\n    x\nIndentationError: unexpected indent\n', "IndentationError: unexpected indent"),
        ('  File "t.py", line 3\nValueError: is no error of the syntax\n', None),
        (f"{FRAMES}struct.error: unpack requires 4 bytes\n", "struct.error: unpack requires 4 bytes"),
        (f"{FRAMES}zlib.error: Error -3\n", "zlib.error: Error -3"),
        (f"{FRAMES}cv2.error: OpenCV(4.9) x\n", "cv2.error: OpenCV(4.9) x"),
        (f"{FRAMES}socket.timeout: timed out\n", "socket.timeout: timed out"),
        (f"{FRAMES}subprocess.CalledProcessError: Command\n", "subprocess.CalledProcessError: Command"),
        (f"{FRAMES}__main__.main.<locals>.Odd\n", "__main__.main.<locals>.Odd"),
        (f"\x1b[35m{TOP}\x1b[0m\n  File\n\x1b[1;35mValueError\x1b[0m: \x1b[35mred\x1b[0m\n", "ValueError: red"),
        (f"{FRAMES}ValueError: \x1b]0;title\x07\x1b[2Jbad\n", "ValueError: bad"),
        ("".join(f"10:00:0{n} ERROR {x}\n" for n, x in enumerate(REAL.splitlines())), "ValueError: the real reason"),
        (f"[a1]: 50%|##  |[rank1]: {TOP}\n[a1]:[rank1]:   File\n[a1]:[rank1]: OSError: z\n", "OSError: z"),
        (REAL.replace("\n", "\r\n"), "ValueError: the real reason"),
        (f"{FRAMES}ValueError: a\u2028b\x0bc\x85d\n", "ValueError: a b c d"),
        (f"{FRAMES}RuntimeError: GPT:\n\tMissing a.\n\tsize of b\nstep 3\n", "RuntimeError: GPT: Missing a. size of b"),
        (f"{FRAMES}RuntimeError: \nsays it below\nand more\n", "RuntimeError: says it below"),
        (f"{FRAMES}ValueError: x\n 50%|##  | 1/2\n", "ValueError: x"),
        (f"{FRAMES}ValueError: x\n" + "  y\n" * 10_000, "ValueError: x" + " y" * 20),
    ],
    ids=range(22),
)  # fmt: skip
def test_the_error_of_every_shape_of_a_traceback(text: str, found: str | None) -> None:
    assert last_traceback(text) == found


def test_ranks_that_print_at_once_keep_their_own_lines() -> None:
    ranks = [[f"[default{rank}]:{line}" for line in f"{FRAMES}ValueError: of {rank}".splitlines()] for rank in (0, 1)]
    found = last("\n".join(line for pair in zip(*ranks, strict=True) for line in pair))
    assert found is not None and found.shown() == (*FRAMES.splitlines(), "ValueError: of 1")


USAGE = "usage: train.py [-h]\ntrain.py: error: unrecognized arguments: --x\n"


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (2, USAGE, "train.py: error: unrecognized arguments: --x"),
        (2, "usage: t.py fit [-h]\n   [--lr LR]\nt.py fit: error: no lr\nsrun: error: x\n", "t.py fit: error: no lr"),
        (2, "train.py: error: that is no usage\n", None),
        (3, USAGE, None),
    ],
)
def test_arguments_that_a_script_does_not_know_are_the_reason(
    tmp_path: Path, code: int, text: str, words: str | None
) -> None:
    (tmp_path / "train.log").write_text(text)
    assert find(str(tmp_path), code) == words


JUDGES_HOSTILE_LOGS = """
import os, sys
from lavender_tui.launch.cause import examine
top, cause = "Traceback (most recent call last):", "Root Cause (first observed failure)"
report = f"\\n{cause}:\\n[0]:\\n  rank : 1\\n  exitcode : 1\\n"
for before in ("", "Failures:\\n", top + "\\n", "Failures:\\n" + cause + "\\n"):
    for one in ("\\n", " ", "\\t", "1", "[", "]", "[a1]:", "1: ", f"1: {cause}\\n", "A", "A.", top, "\\x1b["):
        with open(os.path.join(sys.argv[1], "train.log"), "w") as log:
            log.write(before + one * (256_000 // len(one)) + report)
        for code in (1, 2, None):
            examine(sys.argv[1], code)
"""


def test_a_log_of_blank_lines_or_brackets_costs_no_more_than_another(tmp_path: Path) -> None:
    """Half a minute and minutes were what blank lines took: the limit is far from what all of these take now."""
    subprocess.run([sys.executable, "-c", JUDGES_HOSTILE_LOGS, str(tmp_path)], check=True, timeout=120)
