"""Deleting the checkpoints that no resume needs: the only place where a checkpoint is ever removed.

Decided anew right before it is done, from what lies there then; each run under the lock that keeps its resumes away;
a file only while it is the very one that was judged, and the one that a resume would take instead was read to its last
byte. Only in runs that this product or its library recorded: what another trainer saves, it may still want.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lavender_tui.checkpoints.names import rank_files, rank_stem, stem_of
from lavender_tui.errors import LavenderError
from lavender_tui.launch import journal
from lavender_tui.launch.files import LAUNCH
from lavender_tui.launch.locks import resume_lock
from lavender_tui.model.checkpoint import Checkpoint, FileFacts
from lavender_tui.model.disk import Fate, KeepRules, fates, sound_ones, tail
from lavender_tui.model.run import Run
from lavender_tui.resume.examining import why_unsound

FOREIGN = "nothing says that lavender-tui or CheckpointManager made this run: left alone"


@dataclass(slots=True)
class Pruned:
    """What was deleted, and a sentence for each thing that was to be and wasn't."""

    gone: list[Fate] = field(default_factory=list)
    freed_bytes: int = 0
    left: list[str] = field(default_factory=list)


def judged(runs: Iterable[Run], rules: KeepRules) -> list[Fate]:
    """The fate of every checkpoint, with what only the disk tells: whose run it is, and who was resumed from it."""
    runs = tuple(runs)
    led = led_to()
    parents = {os.path.dirname(led(run.path)) for run in runs}
    roots = {led(root) for root in {run.root for run in runs}}
    by_journal = _journals_tell(parents | roots)
    by_record = _records_tell(parents - roots)
    found = []
    for fate in fates(runs, rules):
        why = fate.why
        if not why and not os.path.lexists(os.path.join(fate.run.path, LAUNCH)):
            why = FOREIGN
        if not why and (name := tail(led(fate.checkpoint.path))) in by_journal:
            why = "a run was resumed from it, says the journal"
        elif not why and name in by_record:
            why = f"{by_record[name]}, beside its run, was resumed from it"
        found.append(Fate(run=fate.run, checkpoint=fate.checkpoint, why=why))
    return found


def led_to() -> Callable[[str], str]:
    """As os.path.realpath, for many paths of few directories: each of these is followed once."""
    known: dict[str, str] = {}

    def led(path: str) -> str:
        head, name = os.path.split(path)
        if name in ("", ".") or ".." in path or os.path.islink(path):
            return os.path.realpath(path)
        if (real := known.get(head)) is None:
            real = known[head] = led(head)
        return os.path.join(real, name)

    return led


def _journals_tell(roots: Iterable[str]) -> set[tuple[str, str]]:
    """Checkpoints that some run was ever resumed from, also one that isn't there any more, or lies in another root."""
    told = (entry.facts.get("checkpoint") for root in roots for entry in journal.read(root) if entry.what == "resumed")
    return {name for path in told if isinstance(path, str) and "\0" not in path for name in _names(path)}


def _names(path: str) -> set[tuple[str, str]]:
    """As it is written, which a moved root keeps, and as its links lead today."""
    return {tail(path), tail(os.path.realpath(path))}


def _records_tell(parents: Iterable[str]) -> dict[tuple[str, str], str]:
    """What lies beside runs that were named alone, or that a link leads to: who was resumed from what."""
    from lavender_tui.watch.discover import discover
    from lavender_tui.watch.index import Index
    from lavender_tui.watch.listing import list_run
    from lavender_tui.watch.records import read_papers

    told: dict[tuple[str, str], str] = {}
    for path in discover(sorted(parents)).runs:
        source = read_papers(list_run(path), Index()).resumed_from
        if source is not None and source.checkpoint and "\0" not in source.checkpoint:
            told.update(dict.fromkeys(_names(source.checkpoint), os.path.basename(path)))
    return told


def prune(roots: Sequence[str], wanted: Iterable[Fate], rules: KeepRules) -> Pruned:
    """Delete those of `wanted` (from `judged`) that may still go, with the rank files beside them.

    Never raises for a file that can't be deleted: it is said.
    """
    from lavender_tui.watch.scan import scan

    still = {fate.checkpoint.path: fate for fate in judged(scan(roots), rules) if fate.may_go}
    done = Pruned()
    groups: dict[tuple[str, str | None], list[Fate]] = {}
    for fate in wanted:
        now = still.get(fate.checkpoint.path)
        if now is None or now.checkpoint.facts != fate.checkpoint.facts:
            done.left.append(f"{fate.checkpoint.path}: not what it was when it was shown: kept")
        else:
            groups.setdefault((now.run.path, now.checkpoint.stage), []).append(now)
    for (run_dir, stage), doomed in groups.items():
        stays = sound_ones(doomed[0].run)[stage][-1]
        if (why := why_unsound(stays.path)) is None:
            _prune_run(run_dir, doomed, stays, done)
        else:
            done.left.append(f"{stays.path}: {why}: the ones before it are kept")
    return done


def _prune_run(run_dir: str, doomed: Sequence[Fate], stays: Checkpoint, done: Pruned) -> None:
    """Delete them, of one stage, as long as `stays` is there, from which a resume would start."""
    before = len(done.gone)
    try:
        with resume_lock(run_dir) as held:
            for fate in doomed:
                held.confirm()
                if FileFacts.of(os.lstat(os.path.realpath(stays.path))) != stays.facts:
                    done.left.append(f"{stays.path}: it was changed meanwhile: the ones before it are kept")
                    break
                _delete(fate, done)
    except LavenderError as error:
        done.left.append(f"{run_dir}: {error.what}: nothing more of it was deleted")
    except OSError as error:
        done.left.append(f"{run_dir}: {error.strerror or error}")
    names = [os.path.basename(fate.checkpoint.path) for fate in done.gone[before:]]
    if names:
        journal.note(journal.root_of(run_dir), "pruned", run=run_dir, count=len(names), names=names)


def _delete(fate: Fate, done: Pruned) -> None:
    """The checkpoint first: without it its rank files are nothing that could be mistaken for a whole one."""
    path = fate.checkpoint.path
    beside = _its_own(fate)
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


def _its_own(fate: Fate) -> list[str]:
    """The rank files beside a checkpoint; none where another checkpoint there may count on them, as `a.pt` and `a.pth`
    do."""
    directory, name = os.path.split(fate.checkpoint.path)
    others = (one.path for one in fate.run.checkpoints if one.path != fate.checkpoint.path)
    alike = (one for one in others if os.path.dirname(one) == directory and _stem(os.path.basename(one)) == _stem(name))
    if any(os.path.lexists(one) for one in alike):
        return []
    return [one.path for one in rank_files(fate.checkpoint.path) if os.path.dirname(one.path) == directory]


def _stem(name: str) -> str:
    stem = rank_stem(name)
    return stem_of(name) if stem is None else stem
