"""What is remembered of runs started by hand: whole, only this user's, rewritten only when something is new."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import seen as memory
from lavender_tui.launch.record import ProcessId
from lavender_tui.launch.seen import GoneRank, Memory, Seen, end_of_status

LEADER = ProcessId(pid=4711, start_ticks=123456)


@pytest.fixture
def run(tmp_path: Path) -> str:
    path = tmp_path / "checkpoints" / "run-2026-01-02_03-04-05"
    path.mkdir(parents=True)
    return str(path)


def seen_of(run: str, **other: Any) -> Seen:
    facts: dict[str, Any] = {
        "run": os.path.realpath(run),
        "argv": ("/usr/bin/python", "train.py", "--out", "{run_dir}"),
        "cwd": "/srv/project",
        "leader": LEADER,
        "host": "gpu-03",
        "boot_id": "b",
        "pid_namespace": "pid:[1]",
        "started_at": 1.7e9,
        "environment": {"TOKENIZERS_PARALLELISM": "false"},
        "shell": ("bash", "train.sh"),
        "world_size": 2,
    }
    return Seen(**(facts | other))


def test_what_was_written_is_read_whole_through_whatever_name_leads_to_the_run(run: str, tmp_path: Path):
    gone = (GoneRank(rank=1, at=1.7e9 + 5.0, status=9), GoneRank(rank=0, at=1.7e9 + 5.1))
    seen = seen_of(run, cwd=os.fsdecode(b"/srv/caf\xe9"), gone=gone)
    memory.write(seen)
    assert memory.read(run) == seen
    (tmp_path / "link").symlink_to(Path(run).parent)
    assert memory.read(str(tmp_path / "link" / os.path.basename(run))) == seen
    assert memory.read(str(tmp_path)) is None
    assert os.stat(memory.directory()).st_mode & 0o077 == 0
    assert os.stat(memory.path_of(run)).st_mode & 0o077 == 0, "its command may hold a secret"


def test_it_lies_in_the_users_own_state_directory(run: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert memory.path_of(run).startswith(f"{tmp_path}/state/lavender-tui/seen/")
    monkeypatch.delenv("XDG_STATE_HOME")
    assert memory.directory() == os.path.expanduser("~/.local/state/lavender-tui/seen")


@pytest.mark.parametrize(
    "wrong",
    [
        {"leader": {"pid": 0, "start_ticks": 1}},
        {"leader": {"pid": -1, "start_ticks": 1}},
        {"leader": {"pid": 1, "start_ticks": 1}},
        {"leader": {"pid": 1 << 40, "start_ticks": 1}},
        {"leader": {"pid": True, "start_ticks": 1}},
        {"leader": "4711"},
        {"argv": []},
        {"argv": "python train.py"},
        {"argv": ["python", 7]},
        {"argv": ["a\0b"]},
        {"cwd": None},
        {"started_at": "now"},
        {"started_at": 1e300},
        {"environment": ["A"]},
        {"environment": {"A": 1}},
        {"status": 1 << 40},
        {"gone": [{"rank": -1, "at": 1.0}]},
        {"gone": [{"rank": 1, "at": "now"}]},
        {"gone": [{"rank": True, "at": 1.0}]},
        {"gone": [{"rank": 1, "at": 1.0, "status": "9"}]},
        {"gone": [{"rank": 1, "at": 1.0, "what": 1}]},
        {"gone": "1"},
        {"schema": 2},
        {"run": "/elsewhere"},
    ],
)
def test_a_hostile_or_foreign_file_is_not_believed(run: str, wrong: dict[str, Any]):
    memory.write(seen_of(run))
    path = Path(memory.path_of(run))
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))
    assert memory.read(run) is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"{", b"\xff\xfe", b"[" * 100_000])
def test_a_torn_file_is_none(run: str, content: bytes):
    memory.write(seen_of(run))
    Path(memory.path_of(run)).write_bytes(content)
    assert memory.read(run) is None


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to give a file to another user")
def test_another_users_file_has_no_say_in_what_is_started(run: str):
    memory.write(seen_of(run))
    os.chown(memory.path_of(run), 65534, 65534)
    assert memory.read(run) is None


def written(run: str) -> tuple[int, int, int, int]:
    """What a write changes; a read may change the time of the last access."""
    stat = os.stat(memory.path_of(run))
    return stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def test_it_is_written_only_when_something_is_new(run: str):
    memories = Memory()
    memories.keep(run, seen_of(run))
    before = written(run)
    memories.keep(run, seen_of(run))
    Memory().keep(run, seen_of(run))
    assert written(run) == before
    memories.keep(run, seen_of(run, cwd="/srv/other"))
    assert written(run)[0] != before[0]


def test_the_end_is_that_of_the_remembered_process_and_the_first_that_was_seen(run: str):
    memories = Memory()
    memories.keep(run, seen_of(run))
    memories.ended(run, replace(LEADER, start_ticks=1), 1.8e9, signal.SIGKILL)
    assert memories.of(run).ended_at is None
    memories.ended(run, LEADER, 1.8e9, signal.SIGKILL)
    memories.ended(run, LEADER, 1.9e9, 0)
    read = memory.read(run)
    assert (read.ended_at, read.end.signal) == (1.8e9, "SIGKILL")
    assert Memory().of(run) == read


@pytest.mark.parametrize("is_another_program", [False, True])
def test_what_was_found_out_before_it_ended_does_not_bring_it_back(run: str, is_another_program: bool):
    """A look at a living process takes a moment, in which it may end, be stopped by another program, or lose a rank."""
    memories, lost = Memory(), GoneRank(rank=1, at=1.8e9, status=signal.SIGKILL)
    memories.keep(run, seen_of(run))
    told = Memory() if is_another_program else memories
    told.rank_ended(run, None, lost, started_at=1.7e9)
    told.ended(run, LEADER, 1.8e9, 0)
    memories.keep(run, seen_of(run, proof="it writes metrics.jsonl there"))
    assert memories.of(run) == memory.read(run)
    assert memories.of(run) == seen_of(
        run, proof="it writes metrics.jsonl there", ended_at=1.8e9, status=0, gone=(lost,)
    )


def test_how_it_ended_is_taken_from_whoever_can_tell_though_another_saw_it_gone_before(run: str):
    memories = Memory()
    memories.keep(run, seen_of(run))
    memories.ended(run, LEADER, 1.8e9, None)
    memories.ended(run, LEADER, 1.8e9 + 1, signal.SIGKILL)
    assert memories.of(run) == memory.read(run) == seen_of(run, ended_at=1.8e9, status=signal.SIGKILL)


def test_an_end_that_comes_before_what_was_found_out_is_remembered_with_it(run: str):
    """A handle is held as soon as a process is found, and tells its end while the look at it is still under way."""
    memories, other = Memory(), replace(LEADER, pid=4712)
    memories.ended(run, other, 1.8e9 - 1, 0)
    memories.ended(run, LEADER, 1.8e9, signal.SIGKILL)
    memories.keep(run, seen_of(run))
    assert memories.of(run) == memory.read(run) == seen_of(run, ended_at=1.8e9, status=signal.SIGKILL)


def test_an_end_that_is_noted_while_the_file_is_read_for_another_stays(run: str, monkeypatch: pytest.MonkeyPatch):
    memory.write(seen_of(run))
    memories, read = Memory(), memory.read

    def slowly(run_dir: str) -> Seen | None:
        monkeypatch.setattr(memory, "read", read)
        found = read(run_dir)
        memories.ended(run, LEADER, 1.8e9, 0)  # as the thread of the handles does
        return found

    monkeypatch.setattr(memory, "read", slowly)
    assert memories.of(run) == seen_of(run, ended_at=1.8e9, status=0)
    assert memories.of(run) == memory.read(run)


def test_another_start_has_an_end_of_its_own(run: str):
    memories, next_one = Memory(), replace(LEADER, start_ticks=LEADER.start_ticks + 100)
    memories.keep(run, seen_of(run))
    memories.ended(run, LEADER, 1.8e9, 0)
    memories.keep(run, seen_of(run, leader=next_one))
    assert memory.read(run) == seen_of(run, leader=next_one)


def test_the_oldest_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(memory, "MOST_FILES", 3)
    for number in range(5):
        path = tmp_path / f"run-{number}"
        path.mkdir()
        memory.write(seen_of(str(path)))
        os.utime(memory.path_of(str(path)), (number + 1, number + 1))
    left = [number for number in range(5) if memory.read(str(tmp_path / f"run-{number}")) is not None]
    assert left == [2, 3, 4]


def test_what_another_program_has_dropped_meanwhile_is_no_error(run: str):
    os.makedirs(memory.directory())
    os.symlink("gone", os.path.join(memory.directory(), "listed-and-gone.json"))
    memory.write(seen_of(run))
    assert memory.read(run) == seen_of(run)


def test_a_state_directory_that_cannot_be_written_is_an_error_and_what_was_seen_is_held(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    memories = Memory()
    with pytest.raises(OSError):
        memories.keep(run, seen_of(run))
    assert memories.of(run) == seen_of(run)


@pytest.mark.parametrize(
    ("status", "code", "name"),
    [(0, 0, None), (7 << 8, 7, None), (9, None, "SIGKILL"), (11 | 0x80, None, "SIGSEGV"), (64, None, "SIGRTMAX")],
)
def test_a_status_says_how_it_ended(status: int, code: int | None, name: str | None):
    end = end_of_status(status, 1.0)
    assert end is not None
    assert (end.exit_code, end.signal) == (code, name)


def test_a_number_that_is_no_status_says_nothing():
    assert end_of_status(0x7F | 5 << 8, 1.0) is None
