"""Opening what a path names without blocking, without following a device, and never past the size it had."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

from lavender_tui.checkpoints.limits import Damaged, Foreign
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import FileFacts

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

_REASONS = {
    errno.ENOENT: "it is not there (or the link points to nothing)",
    errno.ELOOP: "its links go round in a circle",
    errno.EACCES: "no permission to read it",
    errno.EPERM: "no permission to read it",
    errno.ENXIO: "it is a socket or a device, not a file",
    errno.ENAMETOOLONG: "its path is too long",
    errno.ENOTDIR: "a part of its path is no directory",
    errno.ESTALE: "the file server no longer knows it",
}

_KINDS = (
    (stat.S_ISDIR, "it is a directory"),
    (stat.S_ISFIFO, "it is a pipe, not a file"),
    (stat.S_ISSOCK, "it is a socket, not a file"),
    (stat.S_ISCHR, "it is a device, not a file"),
    (stat.S_ISBLK, "it is a device, not a file"),
)


def file_facts(path: str) -> FileFacts:
    """What stat says of the file that `path` names (links followed). Raises OSError."""
    return FileFacts.of(os.stat(path))


def reason_of(error: OSError) -> str:
    """An operating system error as half a sentence."""
    return _REASONS.get(error.errno or 0) or (error.strerror or "it can't be read").lower()


class OpenFile:
    """A regular file, open for reading at any place. Counts the bytes it reads in `bytes_read`.

    Raises UnreadableFile where it can't be opened, Foreign where it is no regular file.
    """

    def __init__(self, path: str) -> None:
        self.path, self.bytes_read = path, 0
        try:
            self._fd = os.open(path, _FLAGS)
        except (OSError, ValueError) as error:
            reason = reason_of(error) if isinstance(error, OSError) else "its path holds a NUL byte"
            raise UnreadableFile(reason) from None
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            os.close(self._fd)
            raise Foreign(next((text for test, text in _KINDS if test(status.st_mode)), "it is no regular file"))
        self.facts = FileFacts.of(status)
        self.size = status.st_size
        # Our few reads lie far apart: without this the kernel reads a megabyte ahead at each of them.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_RANDOM)

    def __enter__(self) -> OpenFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def at(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer where the file ended when it was opened, or ends now."""
        length = min(length, self.size - offset)
        if offset < 0 or length <= 0:
            return b""
        parts = []
        while length > 0:
            try:
                part = os.pread(self._fd, length, offset)
            except OSError as error:
                raise Damaged(f"reading it fails at byte {offset:,}: {reason_of(error)}") from None
            if not part:
                break
            parts.append(part)
            self.bytes_read += len(part)
            offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def into(self, buffer: memoryview, offset: int) -> int:
        """Fill `buffer` from `offset`; how many bytes of it could be filled. Raises Damaged where reading fails."""
        filled = 0
        while filled < len(buffer):
            try:
                count = os.preadv(self._fd, [buffer[filled:]], offset + filled)
            except OSError as error:
                raise Damaged(f"reading it fails at byte {offset + filled:,}: {reason_of(error)}") from None
            if count == 0:
                break
            filled += count
        self.bytes_read += filled
        return filled

    def will_read_all(self) -> None:
        """From now on it is read from end to end: the kernel may read ahead again."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)

    def forget(self, offset: int, length: int) -> None:
        """These bytes need not stay in the page cache: nobody is going to ask for them soon."""
        if length > 0 and hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._fd, offset, length, os.POSIX_FADV_DONTNEED)

    def has_changed(self) -> bool:
        """Was it written to since it was opened?"""
        return FileFacts.of(os.fstat(self._fd)) != self.facts
