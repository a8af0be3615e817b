"""From roots to run directories: a bounded walk that opens no file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lavender_tui.model.run import RUN_NAME
from lavender_tui.model.text import clean
from lavender_tui.watch.listing import may_hold_a_run

MAX_DEPTH = 4  # levels below a root
MAX_DIRECTORIES = 40_000  # looked into, over all roots
MAX_RUNS = 20_000
MAX_ENTRIES = 50_000  # of one directory
_PASSED_BY = re.compile(r"\..*|__pycache__|node_modules|site-packages|rank[_-]?[0-9]+|ranks", re.IGNORECASE)
_MARKS = ("launch.json", "resume.json")


@dataclass(slots=True)
class Tree:
    """The run directories under some roots.

    `runs` maps a run directory to its root; `containers` are the other directories that were looked into: a new run
    appears in one of them. `mtimes` holds every container's mtime_ns from before it was listed.
    """

    runs: dict[str, str] = field(default_factory=dict)
    containers: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


def discover(roots: Sequence[str]) -> Tree:
    """Walk the roots. Never raises: a missing or unreadable directory is a warning of the tree.

    A root may be a directory of runs, a run, or a file in a run. A directory is a run by its name
    (`run-YYYY-MM-DD_HH-MM-SS`), or because it directly holds a launch record, or files named like checkpoints or like
    parts of another program's. Each directory counts once, by device and inode, however many names lead to it; links
    are followed last and one step only, to runs that lie elsewhere.
    """
    walk = _Walk()
    for root in dict.fromkeys(map(_as_directory, roots)):
        walk.root(root)
    walk.follow_links()
    return walk.tree


def _as_directory(root: str) -> str:
    path = os.path.abspath(os.path.expanduser(root))
    return os.path.dirname(path) if os.path.isfile(path) else path


class _Walk:
    def __init__(self) -> None:
        self.tree = Tree()
        self._seen: set[tuple[int, int]] = set()
        self._links: list[tuple[str, str]] = []
        self._visited = 0

    def root(self, root: str) -> None:
        queue = [(root, 0)]
        for path, depth in queue:  # the queue grows while it is walked: breadth first, so near runs come before far
            if self._visited >= MAX_DIRECTORIES or len(self.tree.runs) >= MAX_RUNS:
                self._say(f"{clean(root)} holds more than can be walked; the rest isn't looked at")
                return
            queue += [(below, depth + 1) for below in self._visit(path, root, depth)]

    def follow_links(self) -> None:
        for path, root in self._links:
            try:
                info = os.stat(path)
            except OSError:
                continue  # dangling or looping: no directory, so no run
            if (info.st_dev, info.st_ino) in self._seen or _is_above(path, root):
                continue
            if RUN_NAME.fullmatch(os.path.basename(path)) or holds_checkpoints(path):
                self._seen.add((info.st_dev, info.st_ino))
                self.tree.runs[path] = root

    def _visit(self, path: str, root: str, depth: int) -> list[str]:
        """Note one directory as run, container or both; return the directories below that are worth a look."""
        try:
            info = os.stat(path)
            if (info.st_dev, info.st_ino) in self._seen:
                return []
            self._seen.add((info.st_dev, info.st_ino))
            if RUN_NAME.fullmatch(os.path.basename(path)):
                self.tree.runs[path] = root
                return []
            self._visited += 1
            below, is_run = self._look_into(path, root)
        except OSError as error:
            if depth == 0 or not isinstance(error, FileNotFoundError):
                self._say(f"{clean(path)} can't be read ({error.strerror})")
            return []
        self.tree.containers[path] = info.st_mtime_ns
        if is_run:
            self.tree.runs[path] = root
        return below if depth < MAX_DEPTH else []

    def _look_into(self, path: str, root: str) -> tuple[list[str], bool]:
        below: list[str] = []
        is_run = False
        for entry in _entries(path):
            if entry.is_symlink():
                if not _PASSED_BY.fullmatch(entry.name):
                    self._links.append((entry.path, root))
            elif entry.is_dir():
                if not _PASSED_BY.fullmatch(entry.name):
                    below.append(entry.path)
            elif not is_run:
                is_run = entry.name in _MARKS or may_hold_a_run(entry.name)
        return sorted(below, reverse=True), is_run

    def _say(self, warning: str) -> None:
        if warning not in self.tree.warnings:
            self.tree.warnings.append(warning)


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    with os.scandir(path) as entries:
        for count, entry in enumerate(entries):
            if count >= MAX_ENTRIES:
                return
            yield entry


def _is_above(path: str, root: str) -> bool:
    """A link to the root or to a directory above it would show other people's files."""
    target, home = os.path.realpath(path), os.path.realpath(root)
    return home == target or home.startswith(target.rstrip("/") + "/")


def holds_checkpoints(path: str) -> bool:
    """Is it a run by what lies directly in it? Links count."""
    try:
        return os.path.isdir(path) and any(
            entry.name in _MARKS or (may_hold_a_run(entry.name) and entry.is_file()) for entry in _entries(path)
        )
    except OSError:
        return False
