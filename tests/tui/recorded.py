"""Screens compared with recorded ones, as text and as pictures; what differs by the minute or machine is evened out.

`LAVENDER_TUI_UPDATE_SNAPSHOTS=1 pytest -m "long or not long" tests/tui/test_snapshots.py` records them anew. Look at
what changed (`git diff` for the texts, a browser for the pictures) before it is committed.
"""

from __future__ import annotations

import difflib
import gzip
import html
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.tui.conftest import CELL, lines_of, text_of

PLACE = Path(__file__).parent / "snapshots"
HOME = "/tmp/lav-snapshot"  # as long as the real one, so that nothing is cut or wrapped elsewhere
IS_UPDATING = bool(os.environ.get("LAVENDER_TUI_UPDATE_SNAPSHOTS"))
_RULE = "=" * 20
# What is replaced by as many cells: the hour, dates of records, the disk's room, what a process uses.
_EVENED = (
    (re.compile(r"/tmp/lav-\w{8}\b"), HOME),
    (re.compile(r"\b\d\d:\d\d(?= ?$)"), "12:34"),
    (re.compile(r"next save in [34] h\b"), "next save in 4 h"),  # a slow machine is over the half of an hour
    (re.compile(r"\b20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\b"), "2026-05-01 12:34:56"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "12:34:56"),
    (re.compile(r"\brun-(?!2026-0[45])20\d\d-\d\d-\d\d_\d\d-\d\d-\d\d"), "run-2026-06-01_12-34-56"),  # to be made
)
_MEMORY = "… MB"  # in a column of its own
_LOOSE = (
    (re.compile(r"\b[\d.]+ (?:B|[kMGT]B) free\b(, full in [\d,]+ \w+ at this rate)?"), "… GB free"),
    (re.compile(r"(?:\b\d+ % CPU, )?\b[\d.]+ MB memory(?:, [\d.]+ [kMG]?B/s (?:read|written))*"), "… MB memory"),
    (re.compile(r"(?:–|\b\d+ %)(?=\s+[\d.]+ MB)"), "… %"),
    (re.compile(r"\b[\d.]+ MB(?= |$)"), _MEMORY),
    (re.compile(r"\b\d{3,} d ago\b"), "… d ago"),  # the run's name says when it began
)


class Recorded:
    """One file of text snapshots: a heading a screen, its lines below. Written whole at the end, when updating."""

    def __init__(self, name: str, pids: Callable[[], Sequence[int]] = tuple) -> None:
        """`pids`: processes of the test, whose numbers are evened out."""
        self.path = PLACE / f"{name}.txt"
        self._pids = pids
        self._known = {} if IS_UPDATING or not self.path.exists() else read(self.path)
        self._made: dict[str, list[str]] = {}
        self._above = ""

    async def compare(self, pilot: Pilot[Any], title: str, *, above: str = "", seconds: float = 30.0) -> None:
        """Wait until the screen, or what is above a line with `above`, is as recorded; fails with what differs."""
        self._above = above
        if IS_UPDATING:
            self._made[title] = await self._settled(pilot)
            return
        wanted, deadline = self._known.get(title), time.monotonic() + seconds
        if wanted is None:
            pytest.fail(f"{self.path.name} has no {title!r}: record it with LAVENDER_TUI_UPDATE_SNAPSHOTS=1")
        while _without_bars(shown := self._lines(pilot)) != _without_bars(wanted):
            if time.monotonic() > deadline:
                told = "\n".join(difflib.unified_diff(wanted, shown, "recorded", "now", lineterm="", n=1))
                pytest.fail(f"{title} at {pilot.app.size} isn't as recorded:\n{told}")
            await pilot.pause(0.02)
        self._made[title] = shown

    def close(self) -> None:
        """Everything recorded was also seen; updating: written."""
        if IS_UPDATING:
            parts = [f"{_RULE} {title}\n" + "\n".join(lines) + "\n" for title, lines in self._made.items()]
            self.path.write_text("".join(parts), encoding="utf-8")
        else:
            assert set(self._made) == set(self._known), "recorded, and no longer looked at"

    def _lines(self, pilot: Pilot[Any]) -> list[str]:
        # Without bars before anything is evened out: one at the end of a line would hold its words in place.
        lines = [evened(line, self._pids()) for line in _without_bars(lines_of(pilot.app))]
        end = next((at for at, line in enumerate(lines) if self._above and self._above in line), len(lines))
        return lines[:end]

    async def _settled(self, pilot: Pilot[Any]) -> list[str]:
        await settle(pilot)
        before, since = self._lines(pilot), time.monotonic()
        while time.monotonic() - since < 0.4:
            await pilot.pause(0.05)
            if (now := self._lines(pilot)) != before:
                before, since = now, time.monotonic()
        return before


async def settle(pilot: Pilot[Any]) -> None:
    """Until no worker runs and no notice is on the screen."""
    while any(not one.is_finished for one in pilot.app.workers) or pilot.app.announcements or _looks(pilot):
        await pilot.pause(0.05)
    await pilot.pause(0.1)


def _looks(pilot: Pilot[Any]) -> bool:
    return "looking" in text_of(pilot.app)


def read(path: Path) -> dict[str, list[str]]:
    """Title → lines."""
    found: dict[str, list[str]] = {}
    for part in path.read_text(encoding="utf-8").split(f"{_RULE} ")[1:]:
        title, *lines = part.split("\n")
        found[title] = lines[:-1]
    return found


_BAR = re.compile(r"\s+[▁▂▃▄▅▆▇█▔]?$")  # the end of a scrollbar: as long as what is known by then


def _without_bars(lines: Sequence[str]) -> list[str]:
    return [_BAR.sub("", line) for line in lines]


def evened(line: str, pids: Sequence[int] = ()) -> str:
    """The line without what differs from minute to minute or machine to machine, everything else in its place."""
    for pattern, words in _EVENED:
        line = pattern.sub(lambda found, words=words: words[: len(found[0])].ljust(len(found[0])), line)
    for number, pid in enumerate(pids, 1):
        # not in the middle of another number, such as a loss of 2.1600
        line = _replaced(line, re.compile(rf"(?<![\d.,:-]){pid}(?!\d|[.,:-]\d)"), f"PID{number}")
    for pattern, words in _LOOSE:
        line = _replaced(line, pattern, words, is_right=words == _MEMORY)
    return line.rstrip()


def _replaced(line: str, pattern: re.Pattern[str], words: str, *, is_right: bool = False) -> str:
    """What is longer or shorter then is taken from the gap before it, where it stands at the right of a column, else
    from the one after it."""
    while found := pattern.search(line):
        before, after = line[: found.start()], line[found.end() :]
        more = len(words) - len(found[0])
        if before.endswith("  ") and (after.startswith("  ") or is_right):
            before = before.rstrip(" ") + " " * max(1, len(before) - len(before.rstrip(" ")) - more)
        elif gap := re.search(r" {2,}", after):
            after = after[: gap.start()] + " " * max(2, len(gap[0]) - more) + after[gap.end() :]
        line = before + words + after
    return line


def compare_picture(pilot: Pilot[Any], name: str, pids: Sequence[int] = ()) -> str:
    """ "" if the screen's picture is the recorded one, else what differs. A name in .svgz is kept packed (gunzip)."""
    path, svg = PLACE / name, picture(pilot, pids)
    if IS_UPDATING:
        path.parent.mkdir(exist_ok=True)
        data = svg.encode()
        path.write_bytes(gzip.compress(data, 9, mtime=0) if name.endswith("z") else data)
        return ""
    if not path.exists():
        return f"{name} isn't recorded"
    data = path.read_bytes()
    wanted = (gzip.decompress(data) if name.endswith("z") else data).decode()
    return "\n".join(difflib.unified_diff(wanted.split("\n"), svg.split("\n"), "recorded", "now", lineterm="", n=0))


def picture(pilot: Pilot[Any], pids: Sequence[int] = ()) -> str:
    """Textual's own picture, a good deal smaller: without the font's address and the clipping, which hold no news."""
    svg = re.sub(r"terminal-\d+-", "", pilot.app.export_screenshot(title="lavender-tui"))
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S)
    svg = re.sub(r"<clipPath.*?</clipPath>", "", svg, flags=re.S)
    svg = re.sub(r' clip-path="[^"]*"', "", svg)
    svg = svg.replace("Fira Code", "monospace").replace("><", ">\n<")
    lines = [line.strip() for line in svg.split("\n") if line.strip()]
    return "\n".join(_together([*_even_rows(lines, pids)])) + "\n"


_NODE = re.compile(r'<text class="(r\d+)" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+">(.*)</text>')
_GROUND = re.compile(r'<rect fill="([^"]+)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" (.*)')


def _even_rows(lines: Sequence[str], pids: Sequence[int]) -> Iterator[str]:
    """Neighbours of one ink in one piece, however they were drawn. A row of which something is evened out is one piece
    in the ink of its beginning: what follows moved."""
    for y, group in groupby(lines, lambda line: found[3] if (found := _NODE.fullmatch(line)) else None):
        if y is None:
            yield from group
            continue
        row, pieces = "", []
        for node in group:
            ink, x, _, body = _NODE.fullmatch(node).groups()  # type: ignore[union-attr]
            start, words = round(float(x) / CELL), html.unescape(body).replace("\xa0", " ")
            row = row.ljust(start) + words
            if pieces and pieces[-1][0] == ink:
                pieces[-1][2] = pieces[-1][2].ljust(start - pieces[-1][1]) + words
            elif words.strip():
                pieces.append([ink, start, words])
        if (even := evened(row, pids)) != row.rstrip():
            pieces = [[pieces[0][0], 0, even]]
        for ink, start, words in pieces:
            kept = words.strip()
            start += len(words) - len(words.lstrip())
            shown = html.escape(kept, quote=False).replace(" ", "\xa0")
            size = f'x="{start * CELL:.5g}" y="{y}" textLength="{len(kept) * CELL:.5g}"'
            yield f'<text class="{ink}" {size}>{shown}</text>'


def _together(lines: Sequence[str]) -> Iterator[str]:
    """Neighbours of one ground in one: there is one for each piece of text."""
    held: list[str] = []
    right = 0.0
    for line in [*lines, ""]:
        found = _GROUND.fullmatch(line)
        is_next = found is not None and abs(float(found[2]) - right) < 1
        if held and found and is_next and [found[1], found[3], found[5]] == [held[0], held[2], held[4]]:
            right = float(found[2]) + float(found[4])
            continue
        if held:
            width = f"{right - float(held[1]):.5g}"
            yield f'<rect fill="{held[0]}" x="{held[1]}" y="{held[2]}" width="{width}" {held[4]}'
            held = []
        if found:
            held = [found[1], found[2], found[3], found[4], found[5]]
            right = float(found[2]) + float(found[4])
        elif line:
            yield line
