"""Logs stay within their limit, and no line is lost on the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import command, rotation, upkeep
from lavender_tui.launch.record import read_exit
from lavender_tui.logs.follow import Follower
from tests.launch.conftest import Lab

LINE = 64
# Writes numbered lines of 64 bytes, by appending or at its own position, until it is told to end.
WRITER = """
import os, sys
path, flags, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
log = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
for number in range(count):
    os.write(log, f"{number:063d}\\n".encode())
"""


def write(path: Path, flags: int, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(flags), str(count)])


def parts(path: Path) -> bytes:
    """What the two older parts and the log hold together, in the order of writing."""
    places = (path.with_name(f"{path.name}.{number}") for number in (2, 1))
    return b"".join(place.read_bytes() for place in places if place.exists()) + path.read_bytes()


def numbers(data: bytes) -> list[int]:
    return [int(line) for line in data.split(b"\n")[:-1]]


def supports_collapse(directory: Path) -> bool:
    probe = directory / "probe"
    probe.write_bytes(b"x" * (1 << 18))
    with open(probe, "r+b") as file:
        return rotation._fallocate(file.fileno(), rotation.COLLAPSE_RANGE, 0, 1 << 17)


def test_not_a_line_is_lost_while_the_training_writes(tmp_path: Path, until: Callable[..., object]) -> None:
    if not supports_collapse(tmp_path):
        pytest.skip("this file system can't cut a file's front off")
    log = tmp_path / "train.log"
    older: list[bytes] = []
    with write(log, os.O_APPEND, 1 << 62) as writer, ExitStack() as at_the_end:  # more than it will ever come to
        at_the_end.callback(writer.kill)
        until(log.exists, what="the first line")
        inode = log.stat().st_ino
        while len(older) < 5:
            until(lambda: log.stat().st_size > 256 * LINE, what="further lines")
            assert rotation.rotate(str(log)) is None
            older.append((tmp_path / "train.log.1").read_bytes())
        size = log.stat().st_size
        until(lambda: log.stat().st_size > size, what="lines after the last rotation")
        assert writer.poll() is None
    assert log.stat().st_ino == inode
    found = numbers(b"".join(older) + log.read_bytes())
    assert found == list(range(len(found)))


def test_three_parts_are_kept_and_the_rest_goes(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    for turn in range(4):
        with open(log, "ab") as file:
            file.write(b"".join(f"{turn * 1000 + number:063d}\n".encode() for number in range(1000)))
        rotation.rotate(str(log))
    kept = numbers(parts(log)[-(2 * 1000 * LINE) :])
    assert kept == list(range(2000, 4000))
    assert sorted(os.listdir(tmp_path)) == ["train.log", "train.log.1", "train.log.2"]


def test_where_a_front_cannot_be_cut_off_the_file_is_emptied_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "_fallocate", lambda *_: False)
    log = tmp_path / "train.log"
    assert write(log, os.O_APPEND, 1000).wait() == 0
    told = rotation.rotate(str(log))
    assert told is not None and "may be missing" in told and "µs" in told
    assert log.stat().st_size == 0 and numbers(parts(log)) == list(range(1000))


@pytest.mark.parametrize("place", ["/dev/shm"])
def test_a_file_system_that_really_cannot(place: str, tmp_path: Path) -> None:
    if not os.access(place, os.W_OK):
        pytest.skip(f"{place} can't be written")
    directory = Path(place) / f"lavender-{os.getpid()}-{tmp_path.name}"
    directory.mkdir()
    try:
        if supports_collapse(directory):
            pytest.skip(f"{place} can cut a file's front off")
        log = directory / "train.log"
        assert write(log, os.O_APPEND, 1000).wait() == 0
        assert rotation.rotate(str(log)) is not None
        assert log.stat().st_size == 0 and numbers(parts(log)) == list(range(1000))
    finally:
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


def test_a_disk_without_room_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "train.log"
    assert write(log, os.O_APPEND, 1000).wait() == 0

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rotation, "_copy_some", full)
    with pytest.raises(OSError, match="No space"):
        rotation.rotate(str(log))
    assert numbers(log.read_bytes()) == list(range(1000)) and os.listdir(tmp_path) == ["train.log"]


def test_a_copy_makes_way_for_a_stop(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    assert write(log, os.O_APPEND, 1000).wait() == 0
    assert rotation.rotate(str(log), may_go_on=lambda: False) is None
    assert numbers(log.read_bytes()) == list(range(1000)) and os.listdir(tmp_path) == ["train.log"]


def test_a_log_written_at_positions_gets_a_hole_and_its_reader_reads_on(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    log.touch()
    count = 20_000
    with open(log, "rb", buffering=0) as reader:  # the kernel's position is the reader's own
        writer = write(log, 0, count)
        read, older = b"", b""
        while writer.poll() is None or len(read) < count * LINE:
            read += reader.read(4096)
            if reader.tell() > len(older) + 100_000:
                end = rotation.read_position(str(log), [os.getpid()])
                assert end == reader.tell()
                rotation.hollow(str(log), end)
                older += (tmp_path / "stdout.log.1").read_bytes()
                assert log.stat().st_blocks * 512 < log.stat().st_size
    assert numbers(read) == list(range(count)) and older
    assert log.stat().st_size == count * LINE
    assert numbers(older + log.read_bytes()[len(older) :]) == list(range(count))


def test_what_nobody_has_read_yet_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "stdout.log"
    assert write(log, 0, 1000).wait() == 0
    rotation.hollow(str(log), 0)
    assert numbers(log.read_bytes()) == list(range(1000)) and os.listdir(tmp_path) == ["stdout.log"]
    assert rotation.read_position(str(log), [os.getpid()]) is None


CHATTY = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
number = 0
while True:
    for _ in range(200):
        os.write(1, f"{number:063d}\\n".encode())
        number += 1
    time.sleep(0.005)
"""


def test_the_supervisor_keeps_the_log_short_and_its_heart_beats(lab: Lab, quick: None) -> None:
    run_dir, _ = lab.start(sys.executable, lab.script(CHATTY), log_mb=0.2)
    log = Path(run_dir) / "train.log"
    lock = Path(run_dir) / "launch.lock"
    before = lock.stat().st_mtime_ns
    lab.until(lambda: (log.parent / "train.log.2").exists(), what="the second rotation")
    lab.until(lambda: lock.stat().st_mtime_ns > before, what="a heartbeat")
    launch.stop(run_dir)
    assert read_exit(run_dir) is not None
    data = [line for line in parts(log).split(b"\n") if b"supervisor" not in line]
    found = numbers(b"\n".join(data)[data[0].__len__() + 1 :]) if data else []
    assert found and found == list(range(found[0], found[-1] + 1))


def test_a_training_without_a_limit_has_one_log(lab: Lab, quick: None) -> None:
    run_dir, _ = lab.start(sys.executable, lab.script(CHATTY), log_mb=0)
    lab.until(lambda: os.path.getsize(os.path.join(run_dir, "train.log")) > 500_000)
    launch.stop(run_dir)
    assert "train.log.1" not in os.listdir(run_dir)


def test_the_setting_reaches_the_supervisor(lab: Lab, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_LOG_MB", "0.1")
    run_dir, _ = lab.start(sys.executable, lab.script(CHATTY))
    lab.until(lambda: "train.log.1" in os.listdir(run_dir))
    launch.stop(run_dir)


def test_a_stop_during_a_rotation_is_not_kept_waiting(lab: Lab, quick: None) -> None:
    run_dir, record = lab.start(sys.executable, lab.script(CHATTY), log_mb=0.05)
    lab.until(lambda: "train.log.1" in os.listdir(run_dir))
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGTERM)
    since = time.monotonic()
    assert lab.ended(run_dir).code == 0
    assert time.monotonic() - since < 10


def test_the_supervisors_death_takes_nothing_of_the_output_with_it(lab: Lab, quick: None) -> None:
    run_dir, record = lab.start(sys.executable, lab.script(CHATTY), log_mb=0.2)
    log = Path(run_dir) / "train.log"
    lab.until(lambda: (log.parent / "train.log.1").exists())
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    lab.until(lambda: not record.supervisor.is_alive)  # type: ignore[union-attr]
    size = log.stat().st_size
    lab.until(lambda: log.stat().st_size > size + 100_000, what="the training to write on")
    assert launch.is_alive(run_dir)
    launch.stop(run_dir)
    found = numbers(log.read_bytes()[log.read_bytes().index(b"\n") + 1 :])
    assert found == list(range(found[0], found[-1] + 1))


def test_a_follower_sees_a_shorter_file_and_goes_on(tmp_path: Path, until: Callable[..., object]) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(b"".join(f"{number:063d}\n".encode() for number in range(1000)))
    follower = Follower(str(log), lines=1)
    assert follower.read() == [f"{999:063d}".encode()]
    rotation.rotate(str(log))
    with open(log, "ab") as file:
        file.write(f"{1000:063d}\n".encode())
    got = follower.read()
    follower.close()
    assert got == [f"{1000:063d}".encode()]


def test_the_heartbeat_is_the_time_of_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = os.open(tmp_path / "launch.lock", os.O_CREAT | os.O_RDWR)
    os.utime(lock, (1, 1))
    now = [1000.0]
    monkeypatch.setattr(upkeep.time, "monotonic", lambda: now[0])
    tended = upkeep.Upkeep(str(tmp_path), lock, 0)
    assert tended.seconds_left() == 10 and not tended.tend() and os.fstat(lock).st_mtime == 1
    now[0] += 11
    assert tended.seconds_left() == 0 and tended.tend()
    assert abs(os.fstat(lock).st_mtime - time.time()) < 60 and tended.seconds_left() == 10
    os.close(lock)


# Each rank prints numbered lines, 10,000 of them as fast as it can, and goes on until the run's log has made way three
# times and its own file once: how often the supervisor comes to that during a burst is the machine's affair.
CHATTY_RANKS = """
import os, time
number, own = 0, os.readlink("/proc/self/fd/1") + ".1"
while number < 10_000 or len(os.listdir({kept!r})) < 3 or not os.path.exists(own):
    for _ in range(1000):
        os.write(1, f"{{number:063d}}\\n".encode())
        number += 1
    if number >= 10_000:
        time.sleep(0.02)
"""


# In the supervisor: gives each older part of the log a second name, under which it stays.
KEEPING = """
import os
from lavender_tui.launch import rotation
copy = rotation._copy
def copy_and_keep(log, path, *more):
    done = copy(log, path, *more)
    if done and path.endswith("train.log"):
        os.link(path + ".1", os.path.join({kept!r}, f"{{len(os.listdir({kept!r})):04d}}"))
    return done
rotation._copy = copy_and_keep
"""


@pytest.mark.long
def test_under_torchrun_both_the_ranks_files_and_the_runs_log_stay_short_and_whole(lab: Lab, quick: None) -> None:
    run_dir, entry, kept = lab.run_dir(), lab.directory / "quick.py", lab.directory / "kept"
    kept.mkdir()
    entry.write_text(entry.read_text().replace("sys.exit(", KEEPING.format(kept=str(kept)) + "sys.exit("))
    script = lab.script(CHATTY_RANKS.format(kept=str(kept)))
    launch.start(command.build([sys.executable, script], world_size=2, run_dir=run_dir), run_dir, log_mb=0.3)
    assert lab.ended(run_dir, 180).code == 0
    parts = [path.read_bytes() for path in sorted(kept.iterdir())]
    whole = b"".join(parts) + (Path(run_dir) / "train.log").read_bytes()
    printed = []
    for rank in range(2):
        mark = f"[default{rank}]:".encode()
        lines = [line.removeprefix(mark) for line in whole.split(b"\n") if line.startswith(mark)]
        assert [int(line) for line in lines] == list(range(len(lines)))
        printed.append(len(lines) * LINE)
    files = list(Path(run_dir, "ranks").rglob("stdout.log"))
    assert sorted(path.stat().st_size for path in files) == sorted(printed) and min(printed) >= 10_000 * LINE
    for path in files:
        assert path.stat().st_blocks * 512 < path.stat().st_size and path.with_name("stdout.log.1").exists()
