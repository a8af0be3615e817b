"""The journal of a root: what was started, stopped and decided there, by whom and why; one JSON line an event.

`ROOT/.lavender-tui/journal.jsonl`, a hidden directory that no walk looks into. Each line is appended by one write, so
that any number of writers, killed at any instant, leave whole lines and at most one torn one, which reading skips.
At `LARGEST_BYTES` the file becomes `journal.1.jsonl`, in the place of the one before it. Nothing depends on the
journal: where it can't be written, the work goes on without. Times are unix seconds.
"""

from __future__ import annotations

import getpass
import json
import math
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lavender_tui.launch.identity import host_name
from lavender_tui.one_writer import lock

DIRECTORY, NAME, OLDER = ".lavender-tui", "journal.jsonl", "journal.1.jsonl"
LARGEST_BYTES = 4 << 20
LINE_BYTES = 4096  # what one write appends as a whole everywhere
LOCK_SECONDS = 0.2
_CUTS = (1000, 300, 80, 20)  # characters a text may have, until the line is short enough


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """`run` is the run's path, absolute; `facts` is whatever JSON stood there: shown as text, never trusted."""

    at: float
    what: str
    run: str | None
    who: str | None
    facts: Mapping[str, Any]


def root_of(run_dir: str) -> str:
    """Where the journal of a run lies: the directory that holds the run."""
    return os.path.dirname(os.path.abspath(run_dir))


def person() -> str:
    """Such as `ada@gpu-03`: who this process acts for."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = f"user {os.getuid()}"
    return f"{name}@{host_name()}"


# Writing


def note(root: str, what: str, *, run: str | None = None, who: str | None = None, **facts: Any) -> bool:
    """Append one event; False where that can't be done. Never raises and never waits long.

    `who` is this process's user and host, where it isn't given. What is too long for a line is cut.
    """
    root = os.path.abspath(root)
    document = {
        "at": round(time.time(), 3),
        "what": what,
        "run": _within(root, run),
        "who": who or person(),
        "facts": facts,
    }
    directory = _directory_of(root)
    if directory is None:
        return False
    try:
        # A line is whole without the lock; a change of files needs it.
        return _append(directory, _line(document), may_rotate=lock(directory, LOCK_SECONDS))
    except (OSError, ValueError, TypeError):
        return False
    finally:
        os.close(directory)


def _directory_of(root: str) -> int | None:
    for _ in range(20):
        try:
            return open_directory(root)
        except FileNotFoundError:
            if not os.path.isdir(root):
                return None  # else it was empty, and removed in this instant by whoever left it
        except OSError:
            return None
    return None


def open_directory(root: str) -> int:
    """A descriptor of `root/.lavender-tui`, made where it is missing; whoever may make runs in the root may write it.

    Never through a link, which might lead anywhere. Raises OSError.
    """
    path = os.path.join(root, DIRECTORY)
    try:
        os.mkdir(path)
        os.chmod(path, stat.S_IMODE(os.stat(root).st_mode) | 0o700)
    except FileExistsError:
        pass
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _within(root: str, run: str | None) -> str | None:
    """Relative where the run lies in the root: a root may be moved, or seen under another name elsewhere."""
    if run is None:
        return None
    path = os.path.abspath(run)
    return os.path.relpath(path, root) if path.startswith(root.rstrip("/") + "/") else path


def _line(document: dict[str, Any]) -> bytes:
    for limit in _CUTS:
        line = json.dumps(_shortened(document, limit), ensure_ascii=True, allow_nan=False).encode("ascii") + b"\n"
        if len(line) < LINE_BYTES:
            return line
    return json.dumps(_shortened({**document, "facts": {"left out": "too long"}}, 200)).encode("ascii") + b"\n"


def _shortened(value: Any, limit: int) -> Any:
    """As JSON that is strict, with no text longer than `limit` and no list longer than a tenth of that."""
    if isinstance(value, dict):
        return {str(key)[:80]: _shortened(one, limit) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_shortened(one, limit) for one in value[: max(4, limit // 10)]]
    if value is None or isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    text = str(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _append(directory: int, line: bytes, *, may_rotate: bool) -> bool:
    journal = _open(directory, NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        size = os.fstat(journal).st_size
        if size >= LARGEST_BYTES and may_rotate:
            os.rename(NAME, OLDER, src_dir_fd=directory, dst_dir_fd=directory)
            os.close(journal)
            journal = _open(directory, NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            size = 0
        if size and os.pread(journal, 1, size - 1) != b"\n":
            line = b"\n" + line  # somebody was killed, or the disk was full, in the middle of a line
        return os.write(journal, line) == len(line)
    finally:
        os.close(journal)


def _open(directory: int, name: str, flags: int) -> int:
    """Only a plain file: a pipe would hang us, a link lead elsewhere. Raises OSError."""
    mode = stat.S_IMODE(os.fstat(directory).st_mode) & 0o666 | 0o600
    descriptor = os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=directory)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError("no regular file")
    return descriptor


# Reading


def read(root: str, run: str | None = None, *, what: str | None = None) -> list[Entry]:
    """Every event of the root, or of one run, or of one kind, oldest first.

    Never raises; what is no whole line of ours is left out.
    """
    root = os.path.abspath(root)
    try:
        directory = os.open(os.path.join(root, DIRECTORY), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    try:
        lines = [line for name in (OLDER, NAME) for line in _lines(directory, name)]
    finally:
        os.close(directory)
    wanted = None if run is None else os.path.realpath(run)
    words = b"" if what is None else json.dumps(what).encode("ascii")  # most lines need no reading then
    entries = (_entry(line, root) for line in lines if words in line)
    return [
        one
        for one in entries
        if one is not None and what in (None, one.what) and (wanted is None or _is(one.run, wanted))
    ]


def _is(run: str | None, wanted: str) -> bool:
    return run is not None and os.path.realpath(run) == wanted


def _lines(directory: int, name: str) -> list[bytes]:
    try:
        descriptor = _open(directory, name, os.O_RDONLY)
    except OSError:
        return []
    with open(descriptor, "rb") as file:
        try:
            start = max(0, os.fstat(descriptor).st_size - 2 * LARGEST_BYTES)
            file.seek(start)
            return file.read(2 * LARGEST_BYTES).split(b"\n")[1 if start else 0 :]
        except OSError:
            return []


def _entry(line: bytes, root: str) -> Entry | None:
    if not line or len(line) > LINE_BYTES:
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    at, what, run, who, facts = (document.get(key) for key in ("at", "what", "run", "who", "facts"))
    # The bounds also keep out NaN, which JSON can't name but Python reads.
    if not isinstance(at, (int, float)) or isinstance(at, bool) or not 0 <= at < 1e12:
        return None
    if not isinstance(what, str) or not isinstance(facts, dict) or not isinstance(who, str | None):
        return None
    if not _may_be_path(run):
        return None
    path = None if run is None else os.path.normpath(os.path.join(root, run))
    return Entry(at=float(at), what=what, run=path, who=who, facts=facts)


def _may_be_path(value: Any) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, str) and bool(value) and b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False  # half a character
