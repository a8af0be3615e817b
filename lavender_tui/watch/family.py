"""The runs that came from one another, by their records alone: which one is the youngest?"""

from __future__ import annotations

import os

from lavender_tui.launch import living
from lavender_tui.launch.record import LaunchRecord, read_launch


def youngest(run_dir: str) -> str:
    """Of the run and all that were resumed from it, under the same root: the one that lives, else the last started."""
    run_dir = os.path.realpath(run_dir)
    children: dict[str, list[tuple[float, str]]] = {}
    for path, record in _records(os.path.dirname(run_dir)):
        if record.resumed_from is not None:
            children.setdefault(os.path.realpath(record.resumed_from.run), []).append((record.started_at, path))
    found, todo = [(0.0, run_dir)], [run_dir]
    seen = {run_dir}
    while todo:
        for started_at, path in children.get(todo.pop(), ()):
            if path not in seen:
                seen.add(path)
                todo.append(path)
                found.append((started_at, path))
    return max(found, key=lambda one: (living.is_alive(one[1]), one))[1]


def _records(root: str) -> list[tuple[str, LaunchRecord]]:
    try:
        with os.scandir(root) as entries:
            paths = [os.path.realpath(one.path) for one in entries if one.is_dir() and not one.name.startswith(".")]
    except OSError:
        return []
    read = ((path, read_launch(path)) for path in paths)
    return [(path, record) for path, record in read if record is not None and living.belongs_here(record, path)]
