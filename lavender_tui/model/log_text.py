"""What a terminal would show of a training's output: progress bars in their last state, no control code obeyed.

Lines are text without their line end. A progress bar rewrites itself in three ways: by a carriage return within one
line, by moving the cursor up over lines that were printed before, or, where torchrun copied a rank's output line by
line, as one line for each of its states. In all three only the last state is kept.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lavender_tui.model.text import clean

MOST_UP = 64  # lines that the cursor moves up at most; what stands higher is never rewritten
_MOST_COLUMN = 4096
_LONGEST_BAR = 1000
# torchrun puts "[default0]:" before a line of rank 0, torch itself "[rank0]: ", `srun --label` "0: ".
PREFIX = re.compile(r"(?:\[rank[0-9]{1,6}\]:(?: |$)|\[[A-Za-z_]+[0-9]{1,6}\]:)+|\s{0,4}[0-9]{1,5}: ")

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_STRING_START = re.compile(r"\x1b[\]PX^_]|[\x90\x98\x9d\x9e\x9f]")
_STRING_END = re.compile(r"\x07|\x1b\\|\x9c")
_SEQUENCE = re.compile(r"\x1b\[([0-?]*)[ -/]*([@-~])|\x1b[ -/]*([0-Z\\^-~])")
_MOVES = re.compile(r"(\x1b\[[0-?]*[A-GJKPXdEF]|[\r\b])")
_VERTICAL = re.compile(r"\x1b\[[0-?]*[ABEF]|\x1bM")
# Printable as they are, and no mark that combines with the letter before it.
_SAFE = re.compile(
    "[ -~\u00a1-\u02ff\u0370-\u0482\u2010-\u205e\u2070-\u20cf\u2100-\u2bff\u3041-\u3096\u30a1-\u30ff\u4e00-\u9fff]*"
)
_NULS = re.compile("\0{4,}")
_COUNTER = re.compile(
    r"(.*?)(?::\s*)?([0-9]+(?:\.[0-9]+)?)([kMGTP]?)[A-Za-z]* \[[0-9]+:[0-9][0-9](?::[0-9][0-9])?, .*\]"
)
_PERCENT = re.compile(r"\s*[0-9]{1,3}$")
_BAR_TIME = re.compile(r"\[[0-9]+:[0-9][0-9]")
_POWERS = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}


class Row(NamedTuple):
    """A line as it is shown, harmless; `offset` is where the bytes that it was last written by begin."""

    offset: int
    text: str


def prefix_of(line: str) -> str:
    """The rank's mark before a line ("[default0]:", "[rank1]:", "3: "), or nothing."""
    found = PREFIX.match(line)
    return found[0] if found else ""


def plain(line: str) -> str:
    """One line as it is on the screen once it is printed; what is left of control codes is escaped."""
    if line.isprintable() and _SAFE.fullmatch(line):
        return line
    prefix = prefix_of(line)
    body = _without_sequences(line[len(prefix) :])
    if "\x1b" in body or "\b" in body:
        cells: list[str] = []
        _write(cells, 0, body)
        body = "".join(cells)
    elif "\r" in body:
        body = _overwritten(body)
    return harmless(prefix + body)


def harmless(text: str) -> str:
    """Tabs as spaces, long runs of NUL bytes as their number, everything else that isn't printable escaped."""
    if text.isprintable() and _SAFE.fullmatch(text):
        return text
    if "\0" in text:
        text = _NULS.sub(lambda run: f"[{len(run[0]):,} NUL bytes]", text)
    return clean(text.expandtabs(8).rstrip("\r"))


def fold(lines: Sequence[tuple[int, str]]) -> list[Row]:
    """(offset, line) pairs in the order of the file as the rows that are left on the screen, in order of offset."""
    if any("\x1b" in line and _VERTICAL.search(line) for _, line in lines):
        return without_old_bars(_repainted(lines))
    return without_old_bars([Row(offset, plain(line)) for offset, line in lines])


def is_repainted(line: str) -> bool:
    """Does the line move the cursor to another one?"""
    return "\x1b" in line and _VERTICAL.search(line) is not None


# Within a line


def _without_sequences(text: str) -> str:
    """Without colours, links, titles, clipboard and device strings; moves and erasures within the line stay."""
    if "\x1b" not in text and not _STRING_START.search(text):
        return text
    text = _without_strings(_COLOURS.sub("", text))
    return _SEQUENCE.sub(lambda one: one[0] if one[2] and one[2] in "CDGJKPX" else "", text) if "\x1b" in text else text


def _without_strings(text: str) -> str:
    """Operating system and device commands end at BEL or ST; one that doesn't end is left, to be shown escaped."""
    kept, at = [], 0
    while (start := _STRING_START.search(text, at)) and (end := _STRING_END.search(text, start.end())):
        kept.append(text[at : start.start()])
        at = end.end()
    return "".join(kept) + text[at:] if kept else text


def _overwritten(text: str) -> str:
    """Carriage returns alone: each part is written over the ones before it."""
    parts = [part for part in text.split("\r") if part]
    shown = ""
    for part in reversed(parts):
        if len(part) > len(shown):
            shown += part[len(shown) :]
    return shown.rstrip(" ") if len(parts) > 1 else shown


def _write(cells: list[str], column: int, text: str) -> int:
    """Write over `cells` from `column` on, as a terminal does; returns the column after it."""
    for token in _MOVES.split(text):
        if not token:
            continue
        if token == "\r":
            column = 0
        elif token == "\b":
            column = max(0, column - 1)
        elif token.startswith("\x1b[") and len(token) > 2 and _MOVES.fullmatch(token):
            column = _moved(cells, column, token[-1], _first_number(token))
        else:
            if column > len(cells):
                cells.extend(" " * (column - len(cells)))
            cells[column : column + len(token)] = token
            column += len(token)
    return column


def _moved(cells: list[str], column: int, what: str, number: int) -> int:
    if what == "K":
        _erase(cells, column, number)
    elif what == "J" and number == 0:  # a whole screen that is cleared loses nothing here: it is a log
        del cells[column:]
    elif what == "P":
        del cells[column : column + max(1, number)]
    elif what == "X":
        cells[column : column + number] = " " * len(cells[column : column + number])
    elif what == "C":
        column = min(_MOST_COLUMN, column + max(1, number))
    elif what == "D":
        column = max(0, column - max(1, number))
    elif what == "G":
        column = min(_MOST_COLUMN, max(1, number) - 1)
    return column


def _erase(cells: list[str], column: int, how: int) -> None:
    if how == 0:
        del cells[column:]
    elif how == 1:
        cells[: column + 1] = " " * min(len(cells), column + 1)
    else:
        del cells[:]


def _first_number(token: str) -> int:
    digits = re.match(r"\x1b\[([0-9]{1,6})", token)
    return int(digits[1]) if digits else 0


# Over several lines


class _Line:
    """A line of the screen that may be written again."""

    __slots__ = ("cells", "is_unseen", "offset")

    def __init__(self, offset: int, *, is_unseen: bool = False) -> None:
        self.offset, self.cells = offset, list[str]()
        self.is_unseen = is_unseen  # it was printed before what is looked at, and not written since


class _Screen:
    """What one rank printed, with its own cursor: no rank's bar rewrites another rank's lines."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.lines: list[_Line] = []
        self.at = 0
        self._unseen = 0

    def print(self, offset: int, body: str) -> None:
        """One line and its line end."""
        column, last = 0, 0
        text = _COLOURS.sub("", body)
        for move in _VERTICAL.finditer(text):
            column = self._put(offset, column, text[last : move.start()])
            column = self._go(offset, move[0], column)
            last = move.end()
        self._put(offset, column, text[last:])
        self._line(offset)
        self.at += 1

    def _put(self, offset: int, column: int, text: str) -> int:
        text = _without_sequences(text)
        if not text:
            return column
        line = self._line(offset)
        column = _write(line.cells, column, text)
        line.offset, line.is_unseen = offset, False
        return column

    def _go(self, offset: int, move: str, column: int) -> int:
        number, what = max(1, _first_number(move)), move[-1]
        if what in "AFM":
            above = min(number, MOST_UP)
            missing = min(max(0, above - self.at), MOST_UP - self._unseen)
            self.lines[:0] = [_Line(offset, is_unseen=True) for _ in range(missing)]
            self._unseen += missing
            self.at = max(0, self.at + missing - above)
        else:
            self.at = min(self.at + min(number, MOST_UP), len(self.lines))
        return 0 if what in "EF" else column

    def _line(self, offset: int) -> _Line:
        while self.at >= len(self.lines):
            self.lines.append(_Line(offset))
        return self.lines[self.at]

    def rows(self) -> Iterable[Row]:
        """From above to below; an offset is never larger than the one below it, so that the order stays."""
        lowest = None
        found = []
        for line in reversed(self.lines):
            if line.is_unseen:
                continue
            lowest = line.offset if lowest is None else min(lowest, line.offset)
            found.append(Row(lowest, harmless(self.prefix + "".join(line.cells).rstrip())))
        return reversed(found)


def _repainted(lines: Sequence[tuple[int, str]]) -> list[Row]:
    screens: dict[str, _Screen] = {}
    for offset, line in lines:
        prefix = prefix_of(line)
        screen = screens.get(prefix)
        if screen is None:
            screen = screens[prefix] = _Screen(prefix)
        screen.print(offset, line[len(prefix) :])
    return sorted((row for screen in screens.values() for row in screen.rows()), key=lambda row: row.offset)


# Bars that were copied line by line


def bar_of(text: str) -> tuple[str, float] | None:
    """(what names the bar, how far it is) of a line that is a state of a progress bar, else None."""
    if len(text) > _LONGEST_BAR:
        return None
    at = text.find("%|")
    if at > 0 and (percent := _PERCENT.search(text, max(0, at - 4), at)) and _BAR_TIME.search(text, at):
        return text[: percent.start()], float(percent[0])
    if text.endswith("]") and (found := _COUNTER.fullmatch(text)):
        return found[1], float(found[2]) * _POWERS[found[3]]
    return None


def without_old_bars(rows: Sequence[Row]) -> list[Row]:
    """A bar's line goes where a later line, with none but bars in between, shows the same bar at least as far."""
    later: dict[str, float] = {}
    ranks: set[str] = set()  # whose bars follow: the empty lines that a bar begins with go, too
    kept: list[Row] = []
    for row in reversed(rows):
        bar = bar_of(row.text)
        if bar is not None:
            known = later.get(bar[0])
            later[bar[0]] = bar[1]
            ranks.add(prefix_of(row.text))
            if known is not None and known >= bar[1]:
                continue
        elif ranks and row.text.rstrip() in ranks and row.text.strip():
            continue
        else:
            later.clear()
            ranks.clear()
        kept.append(row)
    kept.reverse()
    return kept


def row_at(rows: Sequence[Row], offset: int) -> int:
    """The index of the row that shows what is at `offset`: the last that begins there or before; 0 at least."""
    after = bisect_left(rows, offset + 1, key=lambda row: row.offset)
    return max(0, after - 1)
