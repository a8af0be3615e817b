"""Deleting the checkpoints that no resume needs: the only place where a checkpoint is ever removed.

Decided anew right before it is done, from what lies there then; each run under the lock that keeps its resumes away;
a file only while it is the very one that was judged. Only in runs that this product or its library recorded: what
another trainer saves, it may still want.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lavender_tui.checkpoints.names import rank_files
from lavender_tui.errors import AlreadyRunning
from lavender_tui.launch import journal
from lavender_tui.launch.files import LAUNCH
from lavender_tui.launch.locks import resume_lock
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.disk import Fate, KeepRules, fates
from lavender_tui.model.run import Run

FOREIGN = "nothing says that lavender-tui or CheckpointManager made this run: left alone"


@dataclass(slots=True)
class Pruned:
    """What was deleted, and a sentence for each thing that was to be and wasn't."""

    gone: list[Fate] = field(default_factory=list)
    freed_bytes: int = 0
    left: list[str] = field(default_factory=list)


def judged(runs: Iterable[Run], rules: KeepRules) -> list[Fate]:
    """The fate of every checkpoint, with what only the disk tells: whose run it is, and what the journals remember."""
    runs = tuple(runs)
    remembered = _resumed_from({run.root for run in runs})
    found = []
    for fate in fates(runs, rules):
        why = fate.why
        if not why and not os.path.lexists(os.path.join(fate.run.path, LAUNCH)):
            why = FOREIGN
        if not why and os.path.realpath(fate.checkpoint.path) in remembered:
            why = "a run was resumed from it, says the journal"
        found.append(Fate(run=fate.run, checkpoint=fate.checkpoint, why=why))
    return found


def _resumed_from(roots: Iterable[str]) -> set[str]:
    """Real paths of the checkpoints that some run was ever resumed from, also one that isn't there any more."""
    told = (entry.facts.get("checkpoint") for root in roots for entry in journal.read(root) if entry.what == "resumed")
    return {os.path.realpath(path) for path in told if isinstance(path, str) and "\0" not in path}


def prune(roots: Sequence[str], wanted: Iterable[Fate], rules: KeepRules) -> Pruned:
    """Delete those of `wanted` (from `judged`) that may still go, with the rank files beside them.

    Never raises for a file that can't be deleted: it is said.
    """
    from lavender_tui.watch.scan import scan

    still = {fate.checkpoint.path: fate for fate in judged(scan(roots), rules) if fate.may_go}
    done = Pruned()
    by_run: dict[str, list[Fate]] = {}
    for fate in wanted:
        now = still.get(fate.checkpoint.path)
        if now is None or now.checkpoint.facts != fate.checkpoint.facts:
            done.left.append(f"{fate.checkpoint.path}: not what it was when it was shown: kept")
        else:
            by_run.setdefault(now.run.path, []).append(now)
    for run_dir, doomed in by_run.items():
        _prune_run(run_dir, doomed, done)
    return done


def _prune_run(run_dir: str, doomed: Sequence[Fate], done: Pruned) -> None:
    try:
        with resume_lock(run_dir) as held:
            before = len(done.gone)
            for fate in doomed:
                held.confirm()
                _delete(fate, done)
    except AlreadyRunning as error:
        done.left.append(f"{run_dir}: {error.what}: nothing more of it was deleted")
    except OSError as error:
        done.left.append(f"{run_dir}: {error.strerror or error}")
    else:
        names = [os.path.basename(fate.checkpoint.path) for fate in done.gone[before:]]
        if names:
            journal.note(journal.root_of(run_dir), "pruned", run=run_dir, count=len(names), names=names)


def _delete(fate: Fate, done: Pruned) -> None:
    """The checkpoint first: without it its rank files are nothing that could be mistaken for a whole one."""
    path = fate.checkpoint.path
    beside = [one.path for one in rank_files(path) if os.path.dirname(one.path) == os.path.dirname(path)]
    try:
        info = os.lstat(path)
        if not stat.S_ISREG(info.st_mode) or FileFacts.of(info) != fate.checkpoint.facts:
            done.left.append(f"{path}: it was changed meanwhile: kept")
            return
        os.unlink(path)
        done.gone.append(fate)
        done.freed_bytes += info.st_size
        for one in beside:
            size = os.lstat(one).st_size
            os.unlink(one)
            done.freed_bytes += size
    except OSError as error:
        done.left.append(f"{error.filename or path}: can't be deleted ({error.strerror or error})")
