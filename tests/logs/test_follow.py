"""Logs: every file with its label, the last lines from the end, new lines over truncation and rotation."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.logs.files import log_files
from lavender_tui.logs.follow import Follower, Line, follow, tail
from lavender_tui.logs.pager import PAGE


def test_every_file_has_its_label(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("x")
    for attempt, rank in ((0, 10), (0, 2), (1, 0)):
        directory = tmp_path / "ranks" / "none_ab12" / f"attempt_{attempt}" / str(rank)
        directory.mkdir(parents=True)
        for name in ("stdout.log", "stderr.log", "error.json"):
            (directory / name).write_text("")
    labels = [label for label, _ in log_files(str(tmp_path))]
    assert labels == [
        "train.log",
        "attempt 2 rank 0 stderr",
        "attempt 2 rank 0 stdout",
        "rank 2 stderr",
        "rank 2 stdout",
        "rank 10 stderr",
        "rank 10 stdout",
    ]
    assert log_files(str(tmp_path / "nowhere")) == []


def _printed(run: Path, *places: str) -> None:
    for place in places:
        (run / place).mkdir(parents=True)
        (run / place / "stderr.log").write_text("")


def test_no_two_files_of_several_nodes_have_one_label(tmp_path: Path) -> None:
    """A job's agents in directories of their nodes, hosts that joined, and agents of which nobody knows the node."""
    job, joined, agents = (tmp_path / name for name in ("job", "joined", "agents"))
    _printed(job, "ranks/node-1/7.0_b/attempt_0/0", "ranks/node-0/7.0_x/attempt_0/0", "ranks/node-0/7.0_x/attempt_1/0")
    assert [label for label, _ in log_files(str(job))] == [
        "node 0 attempt 2 rank 0 stderr", "node 0 rank 0 stderr", "node 1 rank 0 stderr"
    ]  # fmt: skip
    _printed(joined, "ranks/r_a/attempt_0/0", "node-1/ranks/r_b/attempt_0/0")
    assert [label for label, _ in log_files(str(joined))] == ["node 0 rank 0 stderr", "node 1 rank 0 stderr"]
    _printed(agents, "ranks/7.0_b/attempt_0/0", "ranks/7.0_x/attempt_0/0", "ranks/7.0_x/attempt_0/1")
    assert [label for label, _ in log_files(str(agents))] == [
        "rank 0 stderr in 7.0_b", "rank 0 stderr in 7.0_x", "rank 1 stderr"
    ]  # fmt: skip


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("count", [0, 1, 3, 1000])
def test_the_tail_is_the_last_lines(tmp_path: Path, end: str, count: int) -> None:
    lines = [f"line {number} é" for number in range(400)]
    path = tmp_path / "log"
    path.write_text("\n".join(lines) + end)
    assert tail(str(path), count) == (lines[-count:] if count else [])


def test_the_tail_of_a_long_file_reads_its_end_alone(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open(path, "wb") as file:
        file.truncate(1 << 36)
        file.seek(1 << 36)
        file.write(b"\nlast \xff\x1b[2J\rover\r\n")
    assert tail(str(path), 1) == ["over \ufffd"]


def test_a_line_longer_than_a_block_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("first\n" + "x" * (3 * PAGE) + "\nlast\n")
    assert tail(str(path), 2) == ["x" * (3 * PAGE), "last"]


def test_following_gives_complete_lines_as_they_come(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("1\n2\n3\n")
    with open(path, "a", buffering=1) as file:
        follower = Follower(str(path), lines=2)
        assert follower.read() == [b"2", b"3"]
        assert follower.read() == []
        file.write("4\n5 and")
        file.flush()
        assert follower.read() == [b"4"]
        file.write(" more\n")
        assert follower.read() == [b"5 and more"]
    follower.close()


def test_following_goes_on_over_truncation_and_rotation(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("a long first line\n")
    follower = Follower(str(path))
    assert follower.read() == [b"a long first line"]
    os.truncate(path, 0)
    with open(path, "a") as file:
        file.write("short\n")
    assert follower.read() == [b"short"]
    with open(path, "a") as file:
        file.write("before the move\nno end")
    path.rename(tmp_path / "log.1")
    path.write_text("new file\n")
    assert follower.read() == [b"before the move", b"no end", b"new file"]
    follower.close()


def test_a_file_that_appears_later_is_given_from_its_start(tmp_path: Path) -> None:
    follower = Follower(str(tmp_path / "log"), lines=1)
    assert follower.read() == []
    (tmp_path / "log").write_text("1\n2\n3\n")
    assert follower.read() == [b"1", b"2", b"3"]
    follower.close()


def test_all_files_of_a_run_are_followed_to_the_end(tmp_path: Path, until: Callable[..., object]) -> None:
    (tmp_path / "train.log").write_text("old\nup\n")
    over, got = threading.Event(), []

    def read() -> None:
        for item in follow(lambda: log_files(str(tmp_path)), lines=1, is_over=over.is_set, poll_seconds=0.01):
            got.append(item)

    reader = threading.Thread(target=read)
    reader.start()
    until(lambda: got)
    rank = tmp_path / "ranks" / "id_x" / "attempt_0" / "1"
    rank.mkdir(parents=True)
    (rank / "stdout.log").write_text("one\ntwo\n")
    until(lambda: len(got) == 3)
    with open(tmp_path / "train.log", "a") as file:
        file.write("last, without an end")
    over.set()
    reader.join(10)
    assert got == [
        Line("train.log", "up"),
        Line("rank 1 stdout", "one"),
        Line("rank 1 stdout", "two"),
        Line("train.log", "last, without an end"),
    ]
