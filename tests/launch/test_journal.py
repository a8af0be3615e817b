"""The journal holds every event whole, whoever writes at once and whatever else lies there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.launch import StopOrder, journal, stop

WRITER = """
import sys
from lavender_tui.launch import journal
root, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
for number in range(count):
    journal.note(root, "decided", run=f"{root}/run-{name}", number=number, reason="x" * (number % 900))
"""


def journal_of(root: Path) -> Path:
    return root / ".lavender-tui" / "journal.jsonl"


def test_an_event_reads_as_it_was_noted(tmp_path: Path) -> None:
    run = str(tmp_path / os.fsdecode(b"run-\xff\n"))
    assert journal.note(str(tmp_path), "decided", run=run, who="ada@box", tries=2, why="it died", sizes=(1, 2))
    assert journal.note(str(tmp_path), "gave up", run="/elsewhere/run")
    first, second = journal.read(str(tmp_path))
    assert (first.what, first.run, first.who) == ("decided", run, "ada@box")
    assert first.facts == {"tries": 2, "why": "it died", "sizes": [1, 2]}
    assert second.run == "/elsewhere/run" and second.who == journal.person() and second.at >= first.at
    assert [one.what for one in journal.read(str(tmp_path), run)] == ["decided"]


def test_a_root_that_moved_keeps_its_journal(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    journal.note(str(tmp_path / "old"), "launched", run=str(tmp_path / "old" / "run-1"))
    (tmp_path / "old").rename(tmp_path / "new")
    assert [one.what for one in journal.read(str(tmp_path / "new"), str(tmp_path / "new" / "run-1"))] == ["launched"]


def test_many_writers_at_once_lose_no_event_also_while_the_file_changes(tmp_path: Path) -> None:
    journal.note(str(tmp_path), "launched")
    with journal_of(tmp_path).open("ab") as file:  # so full that it changes in the middle of what follows
        file.truncate(journal.LARGEST_BYTES - 20_000)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number), "100"], cwd=os.getcwd())
        for number in range(4)
    ]
    assert [one.wait(60) for one in writers] == [0] * 4
    found = [(one.run, one.facts["number"]) for one in journal.read(str(tmp_path)) if one.what == "decided"]
    assert sorted(found) == sorted((str(tmp_path / f"run-{n}"), number) for n in range(4) for number in range(100))
    assert journal_of(tmp_path).stat().st_size < journal.LARGEST_BYTES
    assert journal_of(tmp_path).with_name("journal.1.jsonl").exists()


def test_torn_and_hostile_lines_are_left_out_and_the_next_one_is_whole(tmp_path: Path) -> None:
    journal.note(str(tmp_path), "launched")
    hostile = [
        b"{}", b"[]", b"null", b"\xff\xfe", b"[" * 3000, b'{"at": NaN, "what": "x", "facts": {}}',
        b'{"at": 1, "what": 7, "facts": {}}', b'{"at": 1, "what": "x", "run": "a\\u0000b", "facts": {}}',
        b'{"at": 1, "what": "x", "run": "\\ud900", "facts": {}}', b'{"at": true, "what": "x", "facts": {}}',
        b'{"at": 1, "what": "x", "facts": {}, "more": "' + b"y" * 5000 + b'"}', b'{"at": 1, "what": "torn',
    ]  # fmt: skip
    with journal_of(tmp_path).open("ab") as file:
        file.write(b"\n".join(hostile))
    assert journal.note(str(tmp_path), "resumed")
    assert [one.what for one in journal.read(str(tmp_path))] == ["launched", "resumed"]


def test_what_is_too_long_is_cut_and_stays_json(tmp_path: Path) -> None:
    reasons = ["é" * 100_000] * 50
    assert journal.note(
        str(tmp_path), "decided", reasons=reasons, loss=float("nan"), **{f"k{n}": "x" * 99 for n in range(90)}
    )
    line = journal_of(tmp_path).read_bytes()
    assert len(line) < journal.LINE_BYTES and json.loads(line)["what"] == "decided"
    assert len(journal.read(str(tmp_path))) == 1


@pytest.mark.parametrize("obstacle", ["no root", "a file", "a link", "a pipe", "a directory"])
def test_where_it_cannot_be_written_it_says_so_and_touches_nothing(tmp_path: Path, obstacle: str) -> None:
    root, elsewhere = tmp_path / "root", tmp_path / "elsewhere"
    elsewhere.mkdir()
    if obstacle != "no root":
        root.mkdir()
    hidden = root / ".lavender-tui"
    if obstacle == "a file":
        hidden.write_text("mine")
    elif obstacle == "a link":
        hidden.symlink_to(elsewhere)
    elif obstacle in ("a pipe", "a directory"):
        hidden.mkdir()
        os.mkfifo(hidden / "journal.jsonl") if obstacle == "a pipe" else (hidden / "journal.jsonl").mkdir()
    assert not journal.note(str(root), "launched")
    assert journal.read(str(root)) == []
    assert list(elsewhere.iterdir()) == [] and root.exists() == (obstacle != "no root")


def test_a_full_disk_costs_the_event_alone(tmp_path: Path) -> None:
    journal.note(str(tmp_path), "launched")
    limited = (
        "import resource, signal, sys; from lavender_tui.launch import journal;"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN);"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({journal_of(tmp_path).stat().st_size + 20}, -1));"
        "sys.exit(journal.note(sys.argv[1], 'resumed'))"
    )
    assert subprocess.run([sys.executable, "-c", limited, str(tmp_path)], check=False).returncode == 0
    journal.note(str(tmp_path), "killed")
    assert [one.what for one in journal.read(str(tmp_path))] == ["launched", "killed"]


def test_whoever_may_make_runs_in_the_root_may_write_its_journal(tmp_path: Path) -> None:
    root = tmp_path / "shared"
    root.mkdir()
    root.chmod(0o2775)
    journal.note(str(root), "launched")
    assert (root / ".lavender-tui").stat().st_mode & 0o7777 == 0o2775


def test_starts_and_stops_are_noted(lab) -> None:  # type: ignore[no-untyped-def]
    run_dir, record = lab.train("import time\nprint('up', flush=True)\ntime.sleep(100)")
    stop(run_dir, StopOrder(who="ada", why="enough", grace=5))
    entries = journal.read(os.path.dirname(run_dir), run_dir)
    assert [(one.what, one.who) for one in entries] == [("launched", journal.person()), ("stop asked", "ada")]
    assert entries[0].facts["pid"] == record.leader.pid and entries[1].facts["why"] == "enough"
