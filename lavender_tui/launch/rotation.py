"""Keep a log that a training writes within its limit, and lose not a line of it.

The training holds its log open for weeks, so the file itself must stay. `rotate` copies its older part to `NAME.1`
(what was there becomes `NAME.2`) and then takes exactly that part out of the file:

- `train.log` is written by appending. The part is cut off at its front (`FALLOC_FL_COLLAPSE_RANGE`, ext4 and xfs),
  in one step of the file system: lines written meanwhile are behind it and stay. Elsewhere the file is copied to its
  last byte and emptied; lines printed in the microseconds between the two are lost, and the log says so.
- A rank's `stdout.log` is written by torchrun's workers at a position of their own, and its agent reads it at
  another: the part becomes a hole (`FALLOC_FL_PUNCH_HOLE`), which takes no room. Length and positions stay.

What a reader sees of it. `train.log` keeps its inode and becomes shorter by the length of the new `train.log.1`: what
stood at `offset` stands at `offset - size(train.log.1)` now, and what it hasn't read below that is in `train.log.1`.
A new inode or time of `train.log.1` announces it, an instant before. Cuts are at blocks, not at line ends: `NAME.2`,
`NAME.1` and the file, read one after the other, are the whole. A rank's file begins with NULs as far as its hole goes
(skip it with `os.lseek(fd, 0, os.SEEK_DATA)`), and its `.1` holds what stood there.

Standard library only; imported when a log has reached its limit.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from collections.abc import Callable, Iterable

COLLAPSE_RANGE, PUNCH_HOLE, KEEP_SIZE = 0x08, 0x02, 0x01  # linux/falloc.h
CHUNK_BYTES = 8 << 20
_CANNOT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.ETXTBSY)


def rotate(path: str, *, may_go_on: Callable[[], bool] = lambda: True) -> str | None:
    """Move the older part of an appended log to `path.1`; a sentence where lines may have been lost.

    `may_go_on` is asked between pieces of the copy; where it says no, everything stays as it was. Raises OSError where
    there is no room for the copy: then nothing is taken away either.
    """
    log = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        block = os.fstatvfs(log).f_bsize
        length = (os.fstat(log).st_size - 1) // block * block  # a cut must leave something behind it
        if length <= 0 or not _copy(log, path, 0, length, may_go_on):
            return None
        if _fallocate(log, COLLAPSE_RANGE, 0, length):
            return None
        return _empty(log, f"{path}.1", length)
    finally:
        os.close(log)


def _empty(log: int, older: str, copied: int) -> str:
    """Copy the rest, to the last byte, and truncate at once."""
    asked = time.monotonic()
    with open(older, "ab", buffering=0) as copy:
        while data := os.pread(log, CHUNK_BYTES, copied):
            copy.write(data)
            copied += len(data)
            asked = time.monotonic()
        os.ftruncate(log, 0)
        window = time.monotonic() - asked
    return (
        f"older lines are in {os.path.basename(older)}; this file system can't cut a file's front off, so that lines "
        f"printed within {window * 1e6:.0f} µs may be missing between the two"
    )


def hollow(path: str, read_up_to: int | None, *, may_go_on: Callable[[], bool] = lambda: True) -> None:
    """Move the older part of a log that is written at positions to `path.1`, and leave a hole in its place.

    Nothing from `read_up_to` on is touched: somebody has still to read it. Raises OSError as `rotate`.
    """
    log = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        block = os.fstatvfs(log).f_bsize
        size = os.fstat(log).st_size
        end = min(size - 1, size if read_up_to is None else read_up_to) // block * block  # the end stays
        start = os.lseek(log, 0, os.SEEK_DATA)
        if end - start < block or not _copy(log, path, start, end, may_go_on):
            return
        if not _fallocate(log, PUNCH_HOLE | KEEP_SIZE, 0, end):
            os.unlink(f"{path}.1")  # this file system can't: it would only be there twice
            raise OSError(errno.EOPNOTSUPP, "can't make holes in files")
    except OSError as error:
        if error.errno != errno.ENXIO:  # no data at all
            raise
    finally:
        os.close(log)


def _copy(log: int, path: str, start: int, end: int, may_go_on: Callable[[], bool]) -> bool:
    """The bytes from `start` to `end` as `path.1`, whole or not at all; the older `.1` becomes `.2` first."""
    older, temporary = f"{path}.1", f"{os.path.dirname(path)}/.{os.path.basename(path)}.1.tmp"
    if os.path.exists(older):
        os.replace(older, f"{path}.2")
    copy = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, os.fstat(log).st_mode & 0o777)
    try:
        while start < end:
            if not may_go_on():
                os.unlink(temporary)
                return False
            start += _copy_some(log, copy, start, min(CHUNK_BYTES, end - start))
        os.fsync(copy)  # on disk before it is taken from where it was
        os.replace(temporary, older)
        return True
    except OSError:
        os.unlink(temporary)
        raise
    finally:
        os.close(copy)


def _copy_some(log: int, copy: int, start: int, length: int) -> int:
    try:
        if done := os.copy_file_range(log, copy, length, offset_src=start):
            return done
    except OSError as error:
        if error.errno not in (*_CANNOT, errno.EXDEV):
            raise
    return os.write(copy, os.pread(log, length, start))


def _fallocate(descriptor: int, mode: int, offset: int, length: int) -> bool:
    """False where the file system can't do it."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "fallocate64", None)
    if call is None:
        return False
    if call(descriptor, mode, ctypes.c_int64(offset), ctypes.c_int64(length)) == 0:
        return True
    number = ctypes.get_errno()
    if number in _CANNOT:
        return False
    raise OSError(number, os.strerror(number))


def read_position(path: str, pids: Iterable[int]) -> int | None:
    """How far the slowest of these processes has read that file; None where none of them has it open to read."""
    wanted = os.stat(path)
    found = []
    for pid in pids:
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                it = os.stat(f"/proc/{pid}/fd/{name}")
                if (it.st_dev, it.st_ino) == (wanted.st_dev, wanted.st_ino):
                    found += _reading(f"/proc/{pid}/fdinfo/{name}")
        except OSError:
            continue  # it ended, or the descriptor was closed
    return min(found, default=None)


def _reading(info: str) -> list[int]:
    """The position of a descriptor that is open for reading."""
    with open(info, encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file if ":" in line)
    is_reading = int(fields["flags"], 8) & os.O_ACCMODE == os.O_RDONLY
    return [int(fields["pos"])] if is_reading else []
