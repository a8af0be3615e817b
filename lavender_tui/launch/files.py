"""The run's small JSON files: written once and whole, read with distrust.

Imports the standard library's lightest only: the supervisor pays for each import at every launch.
"""

from __future__ import annotations

import errno
import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing takes milliseconds
    from typing import Any

LAUNCH = "launch.json"
STOP = "stop.json"
EXIT = "exit.json"
REQUEST = "request.json"
LOCK = "launch.lock"
HELD = "training.lock"  # empty; each rank of a CheckpointManager holds it open
LOG = "train.log"
RANKS = "ranks"

LARGEST_BYTES = 1 << 20
LARGEST_PLAN_BYTES = 32 << 20  # a resume plan holds the data position: 14 MB for 1,024 packed splits of 2,048 tokens
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def write_atomically(path: str, data: bytes, *, replace: bool = False, mode: int = 0o644) -> None:
    """Put `data` at `path` whole or not at all: a temporary file beside it, fsync, then its name, then the directory.

    Raises FileExistsError where the name is taken (unless `replace`), and OSError where the disk refuses.
    """
    directory, name = os.path.split(os.path.abspath(path))
    temporary = os.path.join(directory, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _give_name(temporary, path, replace)
    except BaseException:
        _unlink(temporary)
        raise
    _sync_directory(directory)


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _give_name(temporary: str, path: str, replace: bool) -> None:
    if replace:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename it fails where the name is taken
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        # No hard links on this file system: all that is left is to look first.
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from None
        os.replace(temporary, path)
        return
    _unlink(temporary)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network file systems can't; the file itself is synced.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)


def encode(document: dict[str, Any]) -> bytes:
    """The document as ASCII JSON: a path that isn't UTF-8 comes back as it was, by its surrogate escapes."""
    return json.dumps(document, indent=1, allow_nan=False).encode("ascii") + b"\n"


def open_regular(path: str) -> int:
    """The descriptor of a regular file, to be read: a fifo would hang us, a device never end. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "no regular file", path)
    return descriptor


def read_document(path: str, *, most_bytes: int = LARGEST_BYTES) -> tuple[dict[str, Any] | None, str | None]:
    """(the JSON object at `path`, None), or (None, why not); (None, None) where there is no such file. Never raises."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a fifo must not hang us
    except (FileNotFoundError, NotADirectoryError):
        return None, None
    except (OSError, ValueError) as error:
        return None, f"can't be opened ({error})"
    try:
        return read_opened(descriptor, most_bytes)
    except OSError as error:
        return None, f"can't be read ({error})"
    finally:
        os.close(descriptor)


def read_opened(descriptor: int, most_bytes: int = LARGEST_BYTES) -> tuple[dict[str, Any] | None, str | None]:
    """As `read_document`, of a file that is open. Raises OSError where it can't be read."""
    facts = os.fstat(descriptor)
    if not stat.S_ISREG(facts.st_mode):
        return None, "is no regular file"
    if facts.st_size > most_bytes:
        return None, f"is {facts.st_size:,} bytes long, more than such a record can be"
    data = os.read(descriptor, most_bytes + 1)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        return None, f"is no whole JSON ({type(error).__name__})"
    if not isinstance(document, dict):
        return None, f"holds a JSON {type(document).__name__}, not an object"
    return document, None
