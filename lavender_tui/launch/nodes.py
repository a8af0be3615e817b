"""A run of several hosts: each has its own agent, supervisor and records, all in the run's one directory.

The first node's records are the run's own. Every further one has `node-1/`, `node-2/`, … in it, with the same files:
`launch.json`, `exit.json`, `train.log`, `ranks/`. The supervisors read each other's: a stop of one is a stop of all,
and where one has failed, the others don't wait for it for ever. Light imports only: a supervisor imports this.
"""

from __future__ import annotations

import os
import re

from lavender_tui.launch import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = re.compile(r"node-([1-9][0-9]{0,5})")
LOOK_SECONDS = 2.0
OTHERS_END_SECONDS = 15.0  # in which one that was killed has recorded its end: its ranks have 10 s to save
PATIENCE_SECONDS = 10.0  # in which an agent finds out by itself that another node has failed: it knows more of it


def directories(run_dir: str) -> list[tuple[int, str]]:
    """(number, directory) of the further nodes that have joined, in order."""
    try:
        found = [(int(match[1]), name) for name in os.listdir(run_dir) if (match := NAME.fullmatch(name))]
    except OSError:
        return []
    return [(number, os.path.join(run_dir, name)) for number, name in sorted(found)]


def of_ranks(path: str) -> int | None:
    """The node of a path below the directory of the ranks' files, where the agents of several nodes share it."""
    found = re.fullmatch(r"node-([0-9]{1,6})", path.split(os.sep, 1)[0])
    return int(found[1]) if found else None


def others(run_dir: str, own: str) -> list[tuple[str, str]]:
    """(name, directory) of every node but the one whose directory is `own`: "node 0" is the run's own."""
    every = [(0, run_dir), *directories(run_dir)]
    return [(f"node {number}", path) for number, path in every if path != own]


def stop_of_another(run_dir: str, own: str) -> dict[str, Any] | None:
    """The stop that was asked for at another node."""
    for _, path in others(run_dir, own):
        document, _ = files.read_document(os.path.join(path, files.STOP))
        if document is not None:
            return document
    return None


def failure_of_another(run_dir: str, own: str) -> str | None:
    """In words, how another node ended badly; None while none has."""
    for name, path in others(run_dir, own):
        ended, _ = files.read_document(os.path.join(path, files.EXIT))
        if ended is None or ended.get("code") == 0 or ended.get("stop"):
            continue
        launched, _ = files.read_document(os.path.join(path, files.LAUNCH))
        host = (launched or {}).get("host")
        where = f"{name} on {host}" if isinstance(host, str) and host else name
        why = ended.get("error") or ended.get("signal") or f"exit code {ended.get('code')}"
        return f"{where} failed: {str(why)[:300]}"
    return None
