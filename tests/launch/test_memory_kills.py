"""Out of memory is said only where the kernel says it; here by a real control group with too little memory."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import memory_kills
from lavender_tui.launch.record import send_signal
from tests.launch.conftest import POLITE, Lab

GROUPS = "/sys/fs/cgroup"
# Moves into the group it is told, waits for the word, then takes a gigabyte.
HUNGRY = """
import os, sys, time
with open(os.path.join(sys.argv[1], "cgroup.procs"), "w") as file:
    file.write(str(os.getpid()))
print("up", flush=True)
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
taken = bytearray(os.urandom(1 << 20)) * 1024
"""


@pytest.fixture
def small_group() -> Iterator[str]:
    """A control group with 48 MB of memory and no swap."""
    is_old = os.path.isdir(f"{GROUPS}/memory")
    place = f"{GROUPS}/memory" if is_old else GROUPS
    group = os.path.join(place, f"lavender-test-{os.getpid()}")
    limits = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if is_old else ("memory.max", "memory.swap.max")
    try:
        os.mkdir(group)
        (Path(group) / limits[0]).write_text(str(48 << 20))
    except OSError as error:
        if os.path.isdir(group):
            os.rmdir(group)
        pytest.skip(f"no control group can be made here ({error})")
    if os.path.exists(os.path.join(group, limits[1])):
        (Path(group) / limits[1]).write_text(str(48 << 20 if is_old else 0))
    yield group
    os.rmdir(group)


@pytest.mark.parametrize("may_read_log", [True, False], ids=["by the kernel's log", "by the group's counter"])
def test_a_training_that_takes_too_much_is_said_to_be_out_of_memory(
    lab: Lab, quick: None, small_group: str, may_read_log: bool
) -> None:
    if not may_read_log:
        entry = lab.directory / "quick.py"
        entry.write_text(entry.read_text().replace("sys.exit(", "s.memory_kills._named = lambda since: []\nsys.exit("))
    word = lab.directory / "go"
    run_dir, record = lab.start(sys.executable, lab.script(HUNGRY), small_group, str(word))
    lab.until(lambda: "up" in lab.log(run_dir))
    lock = Path(run_dir) / "launch.lock"
    seen = lock.stat().st_mtime_ns
    lab.until(lambda: lock.stat().st_mtime_ns > seen, what="a heartbeat after the move")
    word.touch()
    ended = lab.ended(run_dir)
    assert ended.signal == "SIGKILL" and ended.stop is None
    assert "out of memory" in ended.error, ended.error
    if not may_read_log:
        assert "control group" in ended.error
    assert record.leader is not None


def test_a_kill_by_hand_is_not(lab: Lab) -> None:
    run_dir, record = lab.train(POLITE)
    assert record.leader is not None
    send_signal(record.leader.pid, record.leader.start_ticks, signal.SIGKILL)
    assert "out of memory" not in lab.ended(run_dir).error


def test_the_counters_of_this_process_are_found() -> None:
    kills = memory_kills.Kills(os.getpid())
    assert set(kills.struck().values()) <= {0} and kills.struck().get("machine", 0) == 0
    assert os.getpid() not in kills.named()
    gone = memory_kills.Kills(0x7FFFFFFF)
    gone.refresh()
    assert "group" not in gone.struck()
