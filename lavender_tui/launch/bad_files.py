"""Checkpoints that failed a deep check, remembered in `$XDG_STATE_HOME/lavender-tui/known-bad.json`."""

from __future__ import annotations

import os
import time
from typing import Any

from lavender_tui.launch.files import encode, read_document, write_atomically
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.suspects import key_of
from lavender_tui.one_writer import one_writer

FORMAT, VERSION = "lavender-known-bad", 1
MOST_REMEMBERED = 1_000


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
        with one_writer(place):
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
