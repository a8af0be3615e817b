"""What a run's processes printed: which files there are, their last lines, and new lines as they come.

Lines are decoded with replacement and otherwise as they were printed: whoever shows them escapes them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from lavender_tui.launch.files import LOG, RANKS

BLOCK_BYTES = 64 * 1024
LONGEST_LINE_BYTES = 1 << 20  # a longer line is given out in pieces: it may be one that never ends
POLL_SECONDS = 0.2
_STREAMS = {"stdout.log": "stdout", "stderr.log": "stderr"}
_NUMBER = re.compile(r"[0-9]{1,9}")


def log_files(run_dir: str) -> list[tuple[str, str]]:
    """(label, path) of the run's own log first, then of each rank's files: `rank 1 stderr`, `attempt 2 rank 0 stdout`.

    torchrun counts attempts from 0 and starts the next after a restart; the label counts from 1 and is left out for the
    first. A rank here is the rank on this node.
    """
    found = []
    log = os.path.join(run_dir, LOG)
    if os.path.isfile(log):
        found.append((LOG, log))
    ranks = sorted(_rank_files(os.path.join(run_dir, RANKS)))
    return found + [(label, path) for *_, label, path in ranks]


def _rank_files(directory: str) -> Iterator[tuple[int, int, str, str, str]]:
    """(attempt, rank, stream, label, path); links are not followed."""
    for where, _, names in os.walk(directory):
        attempt, rank = _number(os.path.basename(os.path.dirname(where))), _number(os.path.basename(where))
        for name in names:
            if name in _STREAMS and rank is not None:
                again = f"attempt {attempt + 1} " if attempt else ""
                label = f"{again}rank {rank} {_STREAMS[name]}"
                yield attempt or 0, rank, _STREAMS[name], label, os.path.join(where, name)


def _number(name: str) -> int | None:
    digits = name.removeprefix("attempt_")
    return int(digits) if _NUMBER.fullmatch(digits) else None


def tail(path: str, lines: int = 10) -> list[str]:
    """The last `lines` lines without their line ends; reads from the end, so a file's length doesn't matter.

    Raises OSError where the file can't be read.
    """
    with open(path, "rb") as file:
        data, _ = _last(file.fileno(), lines)
    return [_text(line) for line in _split(data)]


def _last(descriptor: int, lines: int) -> tuple[bytes, int]:
    """(the bytes of the last `lines` lines, the size of the file when they were read)."""
    size = os.fstat(descriptor).st_size
    start, blocks, newlines = size, [], 0
    # One more line end than lines: that of the line before them.
    while start > 0 and newlines <= lines and size - start < max(1, lines) * LONGEST_LINE_BYTES:
        length = min(BLOCK_BYTES, start)
        start -= length
        block = os.pread(descriptor, length, start)
        newlines += block.count(b"\n")
        blocks.append(block)
    data = b"".join(reversed(blocks))
    kept = _split(data)[-lines:] if lines > 0 else []
    return (data[-sum(len(line) for line in kept) :] if kept else b""), size


def _split(data: bytes) -> list[bytes]:
    """Lines with their ends; only a newline ends a line (a progress bar's carriage returns stay within one)."""
    lines = data.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _text(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")


@dataclass(slots=True)
class Follower:
    """New lines of one file, over its truncation and its replacement by another of the same name."""

    path: str
    lines: int = 10
    _descriptor: int | None = None
    _offset: int = 0
    _part: bytes = b""
    _is_first: bool = field(default=True)

    def read(self) -> list[str]:
        """The lines that are complete since the last call; at the first call the last `lines` ones."""
        if self._descriptor is None:
            self._open()
        if self._descriptor is None:
            return []
        found = self._drain()
        if self._was_replaced():
            found += self._drain() + self._rest()
            self.close()
            self._open()
            found += self._drain() if self._descriptor is not None else []
        return found

    def rest(self) -> list[str]:
        """A last line without a line end: for when nothing more will come."""
        return self._rest()

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._offset, self._part = None, 0, b""

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._is_first = False  # whatever appears later is new from its first byte
            return
        if self._is_first:
            data, size = _last(self._descriptor, self.lines)
            self._offset = size - len(data)
        self._is_first = False

    def _drain(self) -> list[str]:
        assert self._descriptor is not None
        if os.fstat(self._descriptor).st_size < self._offset:
            self._offset, self._part = 0, b""  # truncated: what is there now is new
        found: list[bytes] = []
        while block := os.pread(self._descriptor, BLOCK_BYTES, self._offset):
            self._offset += len(block)
            *complete, self._part = (self._part + block).split(b"\n")
            found += complete
            if len(self._part) > LONGEST_LINE_BYTES:
                found.append(self._part)
                self._part = b""
        return [_text(line) for line in found]

    def _rest(self) -> list[str]:
        part, self._part = self._part, b""
        return [_text(part)] if part else []

    def _was_replaced(self) -> bool:
        assert self._descriptor is not None
        try:
            there = os.stat(self.path)
        except OSError:
            return False  # moved away, and nothing new is there yet
        here = os.fstat(self._descriptor)
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)


def follow(
    files: Callable[[], Sequence[tuple[str, str]]],
    *,
    lines: int = 10,
    is_over: Callable[[], bool] = lambda: False,
    poll_seconds: float = POLL_SECONDS,
) -> Iterator[tuple[str, str]]:
    """(label, line) of every file that `files()` names, now and later, until `is_over()` and all was read.

    `files` is asked again each time, since ranks' files appear as they start: `lambda: log_files(run_dir)`.
    """
    followers: dict[str, tuple[str, Follower]] = {}
    is_first = True
    try:
        while True:
            ends = is_over()  # asked before reading: what was printed until then is still given out
            for label, path in files():
                if path not in followers:
                    followers[path] = label, Follower(path, lines, _is_first=is_first)
            is_first = False
            for label, follower in list(followers.values()):
                yield from ((label, line) for line in follower.read())
                if ends:
                    yield from ((label, line) for line in follower.rest())
            if ends:
                return
            time.sleep(poll_seconds)
    finally:
        for _, follower in followers.values():
            follower.close()
