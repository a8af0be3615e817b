"""Search agrees with grep, from any place in either direction; errors are found across the borders of pages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lavender_tui.logs.errors import Errors
from lavender_tui.logs.matches import matching_rows
from lavender_tui.logs.pager import PAGE, Pager
from lavender_tui.logs.search import Query, Words, nearest
from lavender_tui.logs.survey import Count, survey

TRACEBACK = (
    "[default1]:Traceback (most recent call last):\n"
    + '[default1]:  File "t.py", line 1\n' * 40
    + "[default1]:ValueError: deep\n"
)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A megabyte of plain lines, coloured ones and CRLF ones."""
    path = tmp_path_factory.mktemp("search") / "log"
    with open(path, "wb") as file:
        for number in range(12_000):
            colour = b"\x1b[32m" if number % 5 == 0 else b""
            end = b"\r\n" if number % 3 == 0 else b"\n"
            file.write(b"step %d %sLoss\x1b[0m 2.%d " % (number, colour, number * 7919 % 1000) + b"-" * 60 + end)
    return path


def count(path: Path, words: str) -> int:
    pager = Pager(str(path))
    counted = Count(Words(pager, Query.of(words)), pager.size)
    while not counted.is_whole:
        counted.go_on()
    pager.close()
    return counted.count


@pytest.mark.parametrize("words", ["step 42", "STEP 42", "loss", "Loss 2.9", "loss 2.9", "nowhere", "11999 loss", "é"])
def test_as_many_lines_as_grep_finds(log: Path, words: str) -> None:
    bare = re.sub(rb"\x1b\[[0-9;]*m", b"", log.read_bytes())
    options = ["-c", "-F", *(["-i"] if words == words.lower() else [])]
    told = subprocess.run(["grep", *options, words], input=bare, capture_output=True, check=False)
    assert count(log, words) == int(told.stdout)


@pytest.mark.parametrize("piece", [PAGE // 3 + 7, PAGE, 3 * PAGE + 1])
@pytest.mark.parametrize("words", ["step 42", "loss", "5"])
def test_a_log_counted_while_it_grows_has_as_many_as_one_that_is_whole(
    log: Path, tmp_path: Path, words: str, piece: int
) -> None:
    data, growing = log.read_bytes()[: 8 * PAGE], tmp_path / "log"
    growing.touch()
    pager = Pager(str(growing))
    counted = Count(Words(pager, Query.of(words)), pager.size)
    for at in range(0, len(data), piece):
        with growing.open("ab") as file:
            file.write(data[at : at + piece])
        pager.look()
        counted.grow(pager.size)
        if at // piece % 3:  # now and then it grows before all of it is counted
            while not counted.is_whole:
                counted.go_on()
    while not counted.is_whole:
        counted.go_on()
    starts = [row.offset for _, row in matching_rows(pager, Query.of(words))]
    pager.close()
    assert list(counted.starts) == starts and counted.count == len(starts) == count(growing, words)


def test_a_pattern_and_what_is_none(log: Path) -> None:
    assert count(log, r"\vstep (7|8) ") == 2
    assert count(log, r"\vStep \d+$") == 0
    with pytest.raises(ValueError, match="no pattern"):
        Query.of(r"\v(")


def test_capitals_count_where_there_are_any() -> None:
    assert Query.of("loss").spans("LOSS loss") == [(0, 4), (5, 9)]
    assert Query.of("Loss").spans("LOSS Loss") == [(5, 9)]
    assert Query.of(r"\v\Soss").spans("LOSS") == [(0, 4)]
    assert Query.of("[x").spans("a[x]") == [(1, 3)]


def test_the_next_and_the_one_before_and_around_the_ends(log: Path) -> None:
    pager = Pager(str(log))
    words = Words(pager, Query.of("step 777"))
    starts = [row.offset for _, row in matching_rows(pager, words.query)]
    assert len(starts) == 11
    at, seen = -1, []
    for _ in starts:
        found = nearest(words, pager.size, at, forward=True)
        assert found is not None and not found.wrapped
        at = found.hit.start
        seen.append(at)
    assert seen == starts
    found = nearest(words, pager.size, at, forward=True)
    assert found is not None and found.wrapped and found.hit.start == starts[0]
    found = nearest(words, pager.size, starts[3], forward=False)
    assert found is not None and (found.hit.start, found.wrapped) == (starts[2], False)
    found = nearest(words, pager.size, starts[0], forward=False)
    assert found is not None and (found.hit.start, found.wrapped) == (starts[-1], True)
    assert nearest(Words(pager, Query.of("nowhere")), pager.size, 5, forward=False) is None


def test_a_search_can_be_given_up(log: Path) -> None:
    pager = Pager(str(log))
    words = Words(pager, Query.of("step 11999"))
    asked: list[int] = []
    assert nearest(words, pager.size, 0, forward=True, is_cancelled=lambda: bool(asked.append(1))) is not None
    assert nearest(words, pager.size, 0, forward=True, is_cancelled=lambda: True) is None and asked


def test_matches_have_their_line_numbers(log: Path) -> None:
    pager = Pager(str(log))
    found = [(number, row.text.split(" ")[1]) for number, row in matching_rows(pager, Query.of("step 333"))]
    assert found == [(int(step) + 1, step) for _, step in found] and len(found) == 11
    assert [number for number, _ in matching_rows(pager, Query.of("step 333"), 2)] == [3339, 3340]


def test_what_a_bar_rewrote_is_not_found(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\r50%| state=old\r99%| state=new\n")
    assert count(path, "old") == 0 and count(path, "new") == 1


@pytest.mark.parametrize("shift", [0, 1, 700, 1500, 2000])
def test_a_traceback_over_the_border_of_pages_is_one_error(tmp_path: Path, shift: int) -> None:
    path = tmp_path / "log"
    line = b"[default0]:step 1 mean_squared_error: 0.25\n"
    filler = (line * (PAGE // len(line) + 1))[: PAGE - 1 - shift] + b"\n"
    path.write_bytes(filler + TRACEBACK.encode() + filler * 3 + b"Killed\n" + filler)
    pager = Pager(str(path))
    whole = survey(pager).errors
    assert [block.words for block in whole] == ["rank 1: ValueError: deep", "Killed"]
    assert whole[0].start == PAGE - shift and whole[0].end == whole[0].start + len(TRACEBACK)
    first = nearest(Errors(pager), pager.size, 0, forward=True)
    last = nearest(Errors(pager), pager.size, pager.size, forward=False)
    assert first is not None and last is not None and [first.hit, last.hit] == whole
    assert nearest(Errors(pager), pager.size, whole[1].start, forward=False).hit == whole[0]  # type: ignore[union-attr]
