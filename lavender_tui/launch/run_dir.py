"""A directory of one's own for every run: made exclusively, and removed again only while nobody else used it."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterable
from datetime import datetime, timedelta

from lavender_tui.errors import LaunchFailed

NAME = "run-%Y-%m-%d_%H-%M-%S"
TRIES = 100_000  # more than a day of taken seconds: then something else is wrong


def new_run_dir(root: str, now: datetime | float | None = None) -> str:
    """Make `root/run-YYYY-MM-DD_HH-MM-SS` and return its absolute path; a taken second gives the next free one.

    `now` is local time (or unix seconds). Two callers at once get two directories: mkdir decides. The root is made
    where it is missing. Raises LaunchFailed where the directory can't be made.
    """
    if now is None or isinstance(now, (int, float)):
        now = datetime.fromtimestamp(now) if now is not None else datetime.now()
    root = os.path.abspath(root)
    try:
        os.makedirs(root, exist_ok=True)
        for second in range(TRIES):
            path = os.path.join(root, (now + timedelta(seconds=second)).strftime(NAME))
            if _make(path):
                return path
    except OSError as error:
        raise LaunchFailed(
            f"the directory of the new run can't be made ({error.strerror or error})",
            where=root,
            hint="Choose another root, or make this one writable",
        ) from error
    raise LaunchFailed(
        f"the names of {TRIES:,} seconds from {now:{NAME}} on are all taken", where=root, hint="Choose another root"
    )


def _make(path: str) -> bool:
    try:
        os.mkdir(path)
    except FileExistsError:
        return False
    return True


def remove_if_untouched(path: str, names: Iterable[str]) -> bool:
    """Remove a run directory that we made, if it holds nothing but `names` (ours); True where it is gone then.

    A directory that holds anything else, or a directory under one of the names, stays as it is, whole.
    """
    ours = set(names)
    try:
        with os.scandir(path) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        if any(name not in ours or is_directory for name, is_directory in found):
            return False
        for name, _ in found:
            os.unlink(os.path.join(path, name))
        os.rmdir(path)  # fails where somebody put something in meanwhile
    except FileNotFoundError:
        return not os.path.lexists(path)
    except OSError:
        return False
    return True


def try_lock(descriptor: int) -> bool:
    """Take the exclusive lock at once or return False; a file system without locks counts as free."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
    return True
