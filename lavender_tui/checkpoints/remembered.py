"""What was found inside a file, remembered for as long as the file stays what it is.

In memory, and in `$XDG_CACHE_HOME/lavender-tui/integrity.json`. That file is a convenience: where it can't be read or
written, is damaged or holds something odd, everything is looked at again.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import astuple, replace
from typing import Any

from lavender_tui.checkpoints.findings import Integrity, NonFinite, Problem
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.one_writer import one_writer

_NAME, _FORMAT, _VERSION = "integrity.json", "lavender-integrity", 1
_MOST_FILES = 500
_MOST_BYTES = 4 << 20
_MOST_LINES = 50  # a file with more to say is looked at again
_FRESH_SECONDS = 2.0  # a file this young may change without a change of its times

_known: dict[FileFacts, Integrity] = {}
_lock = threading.Lock()
_read_from: list[str] = []  # the cache files that were read into `_known`


def recall(facts: FileFacts) -> Integrity | None:
    """What was found in the file that had these facts, if it was looked through before."""
    with _lock:
        _read_once()
        return _known.get(facts)


def remember(facts: FileFacts, found: Integrity) -> Integrity:
    """Add to what is known of the file; both looks together are the value."""
    with _lock:
        _read_once()
        known = _known.get(facts)
        if known is not None:
            found = _together(known, found)
        if abs(time.time() - max(facts.mtime_ns, facts.ctime_ns) / 1e9) < _FRESH_SECONDS:
            return found
        _known.pop(facts, None)
        _known[facts] = found
        _write()
        _drop_oldest()
        return found


def forget_all() -> None:
    """Start anew, from what the cache file says."""
    with _lock:
        _known.clear()
        _read_from.clear()


def _together(old: Integrity, new: Integrity) -> Integrity:
    if new.problems is None:
        return replace(new, problems=old.problems, has_sums=old.has_sums)
    return new if new.non_finite is not None else replace(new, non_finite=old.non_finite)


def cache_path() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if not os.path.isabs(base):  # as the specification of these directories asks
        base = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "lavender-tui", _NAME)


def _read_once() -> None:
    path = cache_path()
    if path in _read_from:
        return
    _read_from.append(path)
    _read(path)


def _read(path: str) -> None:
    """What it holds counts as older than what is known."""
    read: dict[FileFacts, Integrity] = {}
    try:
        with open(path, "rb") as file:
            raw = file.read(_MOST_BYTES + 1)
        document = json.loads(raw) if len(raw) <= _MOST_BYTES else {}
        if document["format"] == _FORMAT and document["version"] == _VERSION:
            for key, value in document["files"].items():
                read[_facts(key)] = _finding(value)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        pass  # a cache that can't be read is none
    known = {**read, **_known}
    _known.clear()
    _known.update(known)


def _drop_oldest() -> None:
    while len(_known) > _MOST_FILES:
        del _known[next(iter(_known))]


def _facts(key: str) -> FileFacts:
    dev, inode, size, mtime, ctime = map(int, key.split(":"))
    return FileFacts(dev=dev, inode=inode, size_bytes=size, mtime_ns=mtime, ctime_ns=ctime)


def _finding(value: dict[str, Any]) -> Integrity:
    problems, odd = value["problems"], value["non_finite"]
    return Integrity(
        container=str(value["container"]),
        has_sums=bool(value["has_sums"]),
        problems=None if problems is None else tuple(Problem(str(what), str(where)) for what, where in problems),
        non_finite=None if odd is None else tuple(_non_finite(one) for one in odd),
    )


def _non_finite(value: list[Any]) -> NonFinite:
    name, part, dtype, nans, infinities, elements = value
    return NonFinite(str(name), str(part), str(dtype), int(nans), int(infinities), int(elements))


def _write() -> None:
    """What another program has found since the file was read stays in it."""
    path = cache_path()
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with one_writer(path):
            _read(path)
            _drop_oldest()
            with open(temporary, "w", encoding="ascii") as file:
                file.write(_as_text())
            os.replace(temporary, path)
    except OSError:
        try:
            os.unlink(temporary)
        except OSError:
            return


def _as_text() -> str:
    files = {
        ":".join(str(one) for one in (facts.dev, facts.inode, facts.size_bytes, facts.mtime_ns, facts.ctime_ns)): {
            "container": found.container,
            "has_sums": found.has_sums,
            "problems": None if found.problems is None else [[one.what, one.tensor] for one in found.problems],
            "non_finite": None if found.non_finite is None else [list(astuple(one)) for one in found.non_finite],
        }
        for facts, found in _known.items()
        if len(found.problems or ()) + len(found.non_finite or ()) <= _MOST_LINES
    }
    return json.dumps({"format": _FORMAT, "version": _VERSION, "files": files})
