"""Checkpoints that failed a deep check, remembered in `$XDG_STATE_HOME/lavender-tui/known-bad.json`."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from lavender_tui.launch.files import encode, read_document, write_atomically
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.suspects import key_of

FORMAT, VERSION = "lavender-known-bad", 1
MOST_REMEMBERED = 1_000
LOCK_SECONDS = 5.0


def memory_path() -> str:
    """Where it is remembered."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "lavender-tui", "known-bad.json")


def remember(path: str, facts: FileFacts, reason: str) -> bool:
    """Remember that this file, as it is now, failed a deep check. False where that can't be written."""
    entry = {"key": key_of(facts), "path": path, "reason": reason[:500], "at": round(time.time(), 3)}
    return _replace(key_of(facts), [entry])


def forget(facts: FileFacts) -> bool:
    """A later look found nothing wrong. False where that can't be written."""
    return key_of(facts) not in remembered() or _replace(key_of(facts), [])


def _replace(key: str, new: list[dict[str, Any]]) -> bool:
    place = memory_path()
    try:
        os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
        with _locked(place):
            entries = [one for one in _entries(place) if one["key"] != key] + new
            document = {"format": FORMAT, "version": VERSION, "files": entries[-MOST_REMEMBERED:]}
            write_atomically(place, encode(document), replace=True)
    except OSError:
        return False
    return True


def remembered() -> dict[str, str]:
    """Key of the file's facts -> reason. Never raises: a file that can't be read counts as empty."""
    return {one["key"]: one["reason"] for one in _entries(memory_path())}


def _entries(place: str) -> list[dict[str, Any]]:
    document, _ = read_document(place)
    files = document.get("files") if document is not None and document.get("format") == FORMAT else None
    if not isinstance(files, list):
        return []
    return [
        one
        for one in files
        if isinstance(one, dict) and isinstance(one.get("key"), str) and isinstance(one.get("reason"), str)
    ]


@contextmanager
def _locked(place: str) -> Iterator[None]:
    """One writer at a time: what two find at once is remembered twice, not once. Never waits long."""
    descriptor = os.open(os.path.dirname(place), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    """Without it, as on a file system that has none, the last writer's word stands."""
    deadline = time.monotonic() + LOCK_SECONDS
    with suppress(OSError):
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > deadline:
                    return
                time.sleep(0.01)
