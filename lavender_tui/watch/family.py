"""The runs that came from one another, by their records alone: which one is the youngest?"""

from __future__ import annotations

import os

from lavender_tui.launch import living
from lavender_tui.launch.record import LaunchRecord, read_launch


def youngest(run_dir: str, since: float | None = None) -> str:
    """Of the run and all that were resumed from it, under the same root: the one that lives, else the last started.

    With `since` (unix seconds) its whole family counts that was started from then on: who resumes a dead run by hand
    may also go back to what that one came from.
    """
    run_dir = os.path.realpath(run_dir)
    records = _records(os.path.dirname(run_dir))
    started = {path: record.started_at for path, record in records.items()}
    parents = {
        path: os.path.realpath(one.resumed_from.run) for path, one in records.items() if one.resumed_from is not None
    }
    found = _below(run_dir, parents)
    if since is not None:
        found |= {path for path in _below(_first(run_dir, parents), parents) if started.get(path, 0.0) >= since}
    return max(found, key=lambda path: (living.is_alive(path), path != run_dir, started.get(path, 0.0), path))


def _first(run_dir: str, parents: dict[str, str]) -> str:
    seen = set[str]()
    while run_dir in parents and run_dir not in seen:
        seen.add(run_dir)
        run_dir = parents[run_dir]
    return run_dir


def _below(run_dir: str, parents: dict[str, str]) -> set[str]:
    """The run and whatever was resumed from it, and so on."""
    children: dict[str, list[str]] = {}
    for path, parent in parents.items():
        children.setdefault(parent, []).append(path)
    found, todo = {run_dir}, [run_dir]
    while todo:
        new = [path for path in children.get(todo.pop(), ()) if path not in found]
        found.update(new)
        todo += new
    return found


def _records(root: str) -> dict[str, LaunchRecord]:
    try:
        with os.scandir(root) as entries:
            paths = [os.path.realpath(one.path) for one in entries if one.is_dir() and not one.name.startswith(".")]
    except OSError:
        return {}
    read = ((path, read_launch(path)) for path in paths)
    return {path: record for path, record in read if record is not None and living.belongs_here(record, path)}
