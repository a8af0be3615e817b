"""Pages of files of any size and content: every line once, in order, and what became of the file meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.launch import rotation
from lavender_tui.logs.pager import PAGE, Change, Pager
from lavender_tui.logs.survey import survey


@pytest.fixture
def paged(tmp_path: Path) -> Callable[[bytes], Pager]:
    def make(data: bytes) -> Pager:
        path = tmp_path / "log"
        path.write_bytes(data)
        return Pager(str(path))

    return make


def rows_of(pager: Pager) -> list[str]:
    return [row.text for number in range(pager.last + 1) for row in pager.page(number).rows]


def test_every_line_is_there_once_and_in_order(paged: Callable[[bytes], Pager]) -> None:
    lines = [f"line {number} " + "é" * (number * 7919 % 300) for number in range(3000)]
    pager = paged("\n".join(lines).encode())
    assert rows_of(pager) == lines
    backwards = [page.number for page in pager.pages_before(pager.last + 1, 1 << 40)]
    assert backwards == list(range(pager.last, -1, -1))


@given(st.lists(st.tuples(st.integers(0, 3 * PAGE), st.sampled_from([b"\n", b"\r\n", b""])), max_size=8))
def test_pages_are_a_partition_whatever_the_lines_are(tmp_path_factory: pytest.TempPathFactory, parts) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("pages") / "log"
    path.write_bytes(b"".join(b"x" * length + end for length, end in parts))
    pager = Pager(str(path))
    at = 0
    for number in range(pager.last + 1):
        page = pager.page(number)
        assert page.start == at <= page.end <= page.start + 2 * PAGE
        at = page.end
    assert at == pager.size
    assert "".join(rows_of(pager)) == "x" * sum(length for length, _ in parts)
    pager.close()


def test_a_megabyte_without_a_line_end_is_shown_in_pieces(paged: Callable[[bytes], Pager]) -> None:
    pager = paged(b"first\n" + b"y" * (1 << 20))
    rows = rows_of(pager)
    assert rows[0] == "first" and "".join(rows[1:]) == "y" * (1 << 20) and max(map(len, rows)) <= 2 * PAGE


def test_a_bar_of_megabytes_is_one_row(paged: Callable[[bytes], Pager]) -> None:
    bar = b"".join(
        b"\r%3d%%|####| %d/100000 [00:10<00:20, 123.4it/s]" % (step // 1000, step) for step in range(100_000)
    )
    pager = paged(b"before\n" + bar + b"\nafter\n")
    assert rows_of(pager) == ["before", " 99%|####| 99999/100000 [00:10<00:20, 123.4it/s]", "after"]


def test_bars_of_two_ranks_over_many_pages_are_two_rows(paged: Callable[[bytes], Pager]) -> None:
    states = (
        b"[default%d]:ep: %3d%%|####| %d/4000 [00:10<00:20, 123.4it/s]\n" % (rank, step // 40, step)
        for step in range(4000)
        for rank in (0, 1)
    )
    pager = paged(b"before\n" + b"".join(states) + b"after\n")
    assert pager.last > 5
    assert rows_of(pager) == [
        "before",
        "[default0]:ep:  99%|####| 3999/4000 [00:10<00:20, 123.4it/s]",
        "[default1]:ep:  99%|####| 3999/4000 [00:10<00:20, 123.4it/s]",
        "after",
    ]


def test_hostile_bytes_are_harmless(paged: Callable[[bytes], Pager]) -> None:
    pager = paged(bytes(range(256)) * 2000 + b"\n" + b"\x1b]52;c;" + b"A" * 200_000 + b"\n")
    assert all(row.isprintable() for row in rows_of(pager))


def test_line_numbers_are_exact(paged: Callable[[bytes], Pager]) -> None:
    lines = [f"line {number} " + "x" * (number % 90) for number in range(1, 20_001)]
    pager = paged("\n".join(lines).encode() + b"\n")
    seen = survey(pager)
    assert seen.lines == 20_000
    for number in (1, 2, 777, 19_999, 20_000):
        offset = seen.line_of(number)
        assert offset is not None and seen.lines_before(offset) == number - 1
        page = pager.page(pager.number_at(offset))
        index = [row.offset for row in page.rows].index(offset)
        before = seen.at_page(page.number)
        assert before is not None and before + page.numbers[index] + 1 == number
        assert page.rows[index].text == lines[number - 1]
    assert seen.line_of(999_999) == pager.size


def test_what_becomes_of_a_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\n" * 100)
    pager = Pager(str(path))
    assert pager.look() is Change.NONE
    with open(path, "a") as file:
        file.write("more\n")
    assert pager.look() is Change.GROWN and pager.look() is Change.NONE
    path.unlink()
    assert pager.look() is Change.GONE and pager.look() is Change.NONE and rows_of(pager)[-1] == "more"
    path.write_text("another\n")
    assert pager.look() is Change.REPLACED
    again = Pager(str(path))
    os.truncate(path, 3)
    assert again.look() is Change.CUT


def test_a_file_that_was_cut_and_outgrew_its_old_size_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("old\n" * 50)
    pager = Pager(str(path))
    with open(path, "r+") as file:
        file.truncate(0)
        file.write("new lines\n" * 100)
    assert pager.look() is Change.CUT


def test_a_hole_at_the_front_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with open(path, "wb") as file:
        file.seek(1 << 34)
        file.write(b"there\nit is\n")
    pager = Pager(str(path))
    if not pager.first:
        pytest.skip("this file system doesn't tell where its holes are")
    pages = list(pager.pages_before(pager.last + 1, 1000))
    assert [row.text for page in pages for row in page.rows] == ["there", "it is"]


def test_a_hole_that_is_made_while_it_is_open_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_bytes(b"%063d\n" * 4096 % tuple(range(4096)))
    pager = Pager(str(path))
    rotation.hollow(str(path), None)
    with open(path, "ab") as file:
        file.write(b"new\n")
    assert pager.look() is Change.GROWN
    if not pager.first:
        pytest.skip("this file system doesn't make holes, or doesn't tell where they are")
    rows = [row.text for page in sorted(pager.pages_before(pager.last + 1, 1000)) for row in page.rows]
    assert rows == [*(f"{number:063d}" for number in range(4032, 4096)), "new"]


def test_no_fifo_or_directory_is_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError):
            Pager(str(path))
