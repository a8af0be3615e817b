"""The last lines of a file, and new lines as they come, over its truncation and its replacement."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lavender_tui.launch.files import open_regular
from lavender_tui.logs.pager import PAGE, Pager
from lavender_tui.model.log_text import Row, bar_of, fold, is_repainted, prefix_of

LONGEST_LINE_BYTES = 1 << 20  # a longer line is given out in pieces: it may be one that never ends
POLL_SECONDS = 0.2
_TURNS = 256  # ranks whose bars are held back at once


def tail(path: str, lines: int = 10) -> list[str]:
    """The last `lines` lines as they are shown; reads from the end, so a file's length doesn't matter.

    Raises OSError where the file can't be read.
    """
    pager = Pager(path)
    try:
        rows: list[Row] = []
        for page in pager.pages_before(pager.last + 1, 1 << 62):
            rows[:0] = page.rows
            # One more than asked for: the first may be the end of a line that was cut where a page ends.
            if lines <= 0 or len(found := _joined(pager, rows)) > lines:
                break
        else:
            found = _joined(pager, rows)
        return found[-lines:] if lines > 0 else []
    finally:
        pager.close()


def _joined(pager: Pager, rows: Sequence[Row]) -> list[str]:
    """The lines, each whole, though pages cut what is longer than they are."""
    found: list[str] = []
    for row in rows:
        is_cut = found and row.offset % PAGE == 0 and pager.read(row.offset - 1, 1) != b"\n"
        if is_cut and len(found[-1]) < LONGEST_LINE_BYTES:
            found[-1] += row.text
        else:
            found.append(row.text)
    return found


def raw_tail(path: str, lines: int = 10) -> bytes:
    """The bytes of the last `lines` lines, as they are in the file. Raises OSError."""
    pager = Pager(path)
    try:
        return _last(pager, lines)
    finally:
        pager.close()


def _last(pager: Pager, lines: int) -> bytes:
    start, blocks, newlines = pager.size, list[bytes](), 0
    # One more line end than lines: that of the line before them.
    while start > 0 and newlines <= lines and pager.size - start < max(1, lines) * LONGEST_LINE_BYTES:
        length = min(PAGE, start)
        start -= length
        blocks.append(pager.read(start, length))
        newlines += blocks[-1].count(b"\n")
    data = b"".join(reversed(blocks))
    kept = data.split(b"\n")
    ended = not kept[-1]
    kept = (kept[:-1] if ended else kept)[-lines:] if lines > 0 else []
    return b"\n".join(kept) + (b"\n" if ended and kept else b"")


@dataclass(slots=True)
class Follower:
    """New lines of one file, as they were printed. What a rotation cut off before it was read comes from `PATH.1`."""

    path: str
    lines: int = 10
    _descriptor: int | None = None
    _offset: int = 0
    _part: bytes = b""
    _size: int = 0
    _older: int | None = None  # the inode of `PATH.1`: a new one announces a rotation
    _is_first: bool = field(default=True)

    def read(self) -> list[bytes]:
        """The lines that are complete since the last call; at the first call the last `lines` ones."""
        if self._descriptor is None:
            self._open()
        if self._descriptor is None:
            return []
        found = self._drain()
        if self._was_replaced():
            found += self._drain() + self.rest()
            self.close()
            self._open()
            found += self._drain() if self._descriptor is not None else []
        return found

    @property
    def pending(self) -> bytes:
        """A last line that has no line end yet."""
        return self._part

    def rest(self) -> list[bytes]:
        """That line, given out: for when nothing more will come."""
        part, self._part = self._part, b""
        return [part] if part else []

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._offset, self._part, self._size = None, 0, b"", 0

    def _open(self) -> None:
        try:
            descriptor = open_regular(self.path)
        except OSError:
            self._is_first = False  # whatever appears later is new from its first byte
            return
        self._descriptor, self._older = descriptor, _inode(f"{self.path}.1")
        if self._is_first:
            pager = Pager(self.path)
            self._offset = self._size = pager.size - len(_last(pager, self.lines))
            pager.close()
        self._is_first = False

    def _drain(self) -> list[bytes]:
        assert self._descriptor is not None
        found: list[bytes] = []
        while True:
            size = os.fstat(self._descriptor).st_size
            if size < self._size:
                found += self._moved()
            self._size = size
            block = os.pread(self._descriptor, PAGE, self._offset)
            if os.fstat(self._descriptor).st_size < size:
                continue  # cut in this very moment: what was read may be from another place
            if not block:
                return found
            self._offset += len(block)
            found += self._lines(block)

    def _lines(self, block: bytes) -> list[bytes]:
        *complete, self._part = (self._part + block).split(b"\n")
        if len(self._part) > LONGEST_LINE_BYTES:
            complete.append(self._part)
            self._part = b""
        return complete

    def _moved(self) -> list[bytes]:
        """The file became shorter: what its front was is in a new `PATH.1`; without one, all of it is new."""
        older = f"{self.path}.1"
        inode = _inode(older)
        if inode is None or inode == self._older:
            self._offset = 0
            return self.rest()
        self._older = inode
        found: list[bytes] = []
        with open(open_regular(older), "rb") as file:
            length = os.fstat(file.fileno()).st_size
            if length < self._offset:
                self._offset -= length
                return []
            file.seek(self._offset)
            while block := file.read(PAGE):
                found += self._lines(block)
        self._offset = 0
        return found

    def _was_replaced(self) -> bool:
        assert self._descriptor is not None
        try:
            there = os.stat(self.path)
        except OSError:
            return False  # moved away, and nothing new is there yet
        here = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


class Folder:
    """Takes lines as they come and gives them out as they are shown: a bar once nothing can change it any more."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._moves: list[str] = []

    def feed(self, raw: bytes) -> list[str]:
        """One whole line; returns the lines that stand."""
        line = raw.removesuffix(b"\r").decode("utf-8", "replace")
        if is_repainted(line):
            self._moves.append(line)
            return self._settled() if len(self._moves) > _TURNS else []
        if self._moves:
            # What moves the cursor up is settled by the first line that doesn't.
            self._moves.append(line)
            return self._settled()
        shown = fold([(0, line)])[0].text
        if bar_of(shown) is not None or (self._held and shown.strip() == prefix_of(shown).strip()):
            self._held = [row.text for row in fold([(0, one) for one in (*self._held, shown)])]
            return [self._held.pop(0)] if len(self._held) > _TURNS else []
        return [*self.rest(), shown]

    def rest(self) -> list[str]:
        """What was held back."""
        held, self._held = self._held, []
        return held + self._settled()

    @property
    def changing(self) -> str:
        """The newest state of a bar that is not given out yet; empty where there is none."""
        return self._held[-1] if self._held else ""

    def _settled(self) -> list[str]:
        lines, self._moves = self._moves, []
        return [row.text for row in fold([(number, line) for number, line in enumerate(lines)])]


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file with that label; one that isn't `final` may be followed by a newer state of itself."""

    label: str
    text: str
    is_final: bool = True


def follow(
    files: Callable[[], Sequence[tuple[str, str]]],
    *,
    lines: int = 10,
    is_over: Callable[[], bool] = lambda: False,
    poll_seconds: float = POLL_SECONDS,
) -> Iterator[Line]:
    """Lines of every file that `files()` names, now and later, until `is_over()` and all was read.

    `files` is asked again each time, since ranks' files appear as they start: `lambda: log_files(run_dir)`. A progress
    bar is given out as it changes (`is_final` is false) and once it stands.
    """
    followed: dict[str, _Followed] = {}
    is_first = True
    try:
        while True:
            ends = is_over()  # asked before reading: what was printed until then is still given out
            for label, path in files():
                if path not in followed:
                    followed[path] = _Followed(label, Follower(path, lines, _is_first=is_first))
            is_first = False
            for one in list(followed.values()):
                yield from one.look(ends)
            if ends:
                return
            time.sleep(poll_seconds)
    finally:
        for one in followed.values():
            one.follower.close()


def follow_raw(
    files: Callable[[], Sequence[tuple[str, str]]],
    *,
    lines: int = 10,
    is_over: Callable[[], bool] = lambda: False,
    poll_seconds: float = POLL_SECONDS,
) -> Iterator[bytes]:
    """As `follow`, but the bytes as they were printed, whole lines at a time."""
    followers: dict[str, Follower] = {}
    is_first = True
    try:
        while True:
            ends = is_over()
            for _, path in files():
                if path not in followers:
                    followers[path] = Follower(path, lines, _is_first=is_first)
            is_first = False
            for one in followers.values():
                if found := one.read():
                    yield b"\n".join(found) + b"\n"
                if ends and (rest := one.rest()):
                    yield rest[0]
            if ends:
                return
            time.sleep(poll_seconds)
    finally:
        for one in followers.values():
            one.close()


class _Followed:
    """One file and the state of its bars."""

    def __init__(self, label: str, follower: Follower) -> None:
        self.label, self.follower, self.folder = label, follower, Folder()
        self._shown = ""

    def look(self, ends: bool) -> Iterator[Line]:
        for raw in self.follower.read():
            yield from (Line(self.label, line) for line in self.folder.feed(raw))
        if ends:
            for raw in self.follower.rest():
                yield from (Line(self.label, line) for line in self.folder.feed(raw))
            yield from (Line(self.label, line) for line in self.folder.rest())
            return
        pending = self.follower.pending[-PAGE:]
        changing = fold([(0, pending.decode("utf-8", "replace"))])[0].text if b"\r" in pending else self.folder.changing
        if changing != self._shown:
            self._shown = changing
            if changing:
                yield Line(self.label, changing, is_final=False)
