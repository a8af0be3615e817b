"""Ranks that really fail under torchrun, each in another way: the reason names the right one."""

from __future__ import annotations

import sys

import pytest

from lavender_tui import launch
from lavender_tui.launch import command
from lavender_tui.launch.record import end_facts
from tests.launch.conftest import Lab

# `record` writes error.json; without it there is only the output.
SCRIPT = """
import os, signal, sys, time
{how}
@record
def main():
    rank, way = int(os.environ["RANK"]), sys.argv[1]
    print("\\r 50%|#####     | 1/2 [00:01<00:01, 1.0it/s]", end="", file=sys.stderr, flush=True)
    if way in ("all", "late"):
        told = os.environ["TORCHELASTIC_ERROR_FILE"].replace("/0/error.json", "/1/error.json")
        while not rank and not (os.path.exists(told) and os.path.getsize(told)):
            time.sleep(0.001)  # at once after rank 1, within the same second as a rule
        raise ValueError(f"bad on {{rank}}")
    if rank == 1 and way == "raise":
        try:
            {{}}["a"]
        except KeyError as error:
            raise RuntimeError("boom") from error
    if rank == 1 and way in ("code", "said"):
        sys.exit(3 if way == "code" else "no corpus")
    if rank == 1:
        os.kill(os.getpid(), getattr(signal, way))
    time.sleep(60)
try:
    main()
finally:
    # Its error is told, and it is still on its way out when rank 0 has failed: torchrun ends it.
    time.sleep(60 if sys.argv[1] == "late" and os.environ["RANK"] == "1" else 0)
"""
RECORDED = "from torch.distributed.elastic.multiprocessing.errors import record"
PLAIN = "record = lambda function: function"


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "way", "words", "exception"),
    [
        (RECORDED, "raise", "rank 1: RuntimeError: boom", "RuntimeError: boom"),
        (PLAIN, "raise", "rank 1: RuntimeError: boom", "RuntimeError: boom"),
        (RECORDED, "all", "rank 1: ValueError: bad on 1", "ValueError: bad on 1"),
        (RECORDED, "late", "rank 1: ValueError: bad on 1", "ValueError: bad on 1"),
        (PLAIN, "code", "rank 1 ended with exit code 3", None),
        (PLAIN, "said", 'rank 1: the output ends with "no corpus"', None),
        (RECORDED, "SIGSEGV", "rank 1 was killed by signal 11 (SIGSEGV)", None),
        (PLAIN, "SIGKILL", "rank 1 was killed by signal 9", None),
    ],
)
def test_the_reason_of_a_real_failure(lab: Lab, how: str, way: str, words: str, exception: str | None) -> None:
    run_dir = lab.run_dir()
    script = [sys.executable, lab.script(SCRIPT.format(how=how)), way]
    launch.start(command.build(script, world_size=2, run_dir=run_dir, grace=12), run_dir, grace=12)
    lab.ended(run_dir, 90)
    end = end_facts(run_dir)
    assert end is not None and end.error is not None and end.error.startswith(words)
    assert end.failure is not None and (end.failure.rank, end.failure.exception) == (1, exception)
    # Ended before it printed anything, it has only its error file.
    assert end.failure.where is None or end.failure.where.split("/")[-2:-1] == ["1"]
    if exception is not None:
        assert end.failure.traceback[-1] == exception and (end.failure.place or "").endswith("in main")
