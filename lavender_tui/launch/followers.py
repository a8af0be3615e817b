"""The runs that were resumed from one, by their records alone: for those who can't look at everything."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator

from lavender_tui.checkpoints.names import has_saved
from lavender_tui.launch import journal
from lavender_tui.launch.files import LARGEST_PLAN_BYTES, LOG, open_regular, read_document
from lavender_tui.launch.living import is_alive, members, private_to
from lavender_tui.launch.record import LaunchRecord, end_facts, read_launch, this_machine
from lavender_tui.model.plan import PLAN_NAME
from lavender_tui.model.run import EndFacts, started_at_from_name
from lavender_tui.model.suspects import AT_ONCE_STEPS, Follower

MOST_NEIGHBOURS = 5_000
_METRICS = "metrics.jsonl"
_MOST_LINES, _MOST_LINE_BYTES = 4 * AT_ONCE_STEPS, 1 << 16


def directories_resumed_from(run_path: str, root: str) -> list[str]:
    """The run directories whose records say that they were resumed from it: beside it, in the root, or noted there."""
    places = dict.fromkeys((*_neighbours(run_path, root), *noted_as_resumed_from(run_path)))
    return [directory for directory in places if is_resumed_from(directory, run_path)]


def is_resumed_from(directory: str, run_path: str) -> bool:
    """By the launch record; where only another user may read that, by the plan beside it."""
    record = read_launch(directory)
    source = record.resumed_from.run if record is not None and record.resumed_from is not None else None
    if record is None and private_to(directory) is not None:
        plan, _ = read_document(os.path.join(directory, PLAN_NAME), most_bytes=LARGEST_PLAN_BYTES)
        told = (plan or {}).get("source")
        run = told.get("run") if isinstance(told, dict) else None
        source = run if isinstance(run, str) and "\0" not in run else None
    return source is not None and os.path.realpath(source) == os.path.realpath(run_path)


def _neighbours(run_path: str, root: str) -> Iterator[str]:
    for place in places_beside(run_path, (root,)):
        try:
            with os.scandir(place) as entries:
                yield from sorted(one.path for one in itertools.islice(entries, MOST_NEIGHBOURS) if one.is_dir())
        except OSError:
            continue  # no such root yet, or not ours to list: the launch looks again


def places_beside(run_path: str, roots: Iterable[str]) -> list[str]:
    """The directories that hold the run, by the name given and by its own, and the roots; each once."""
    path = os.path.abspath(run_path)
    places = (os.path.dirname(path), os.path.dirname(os.path.realpath(path)), *map(os.path.abspath, roots))
    return list({os.path.realpath(place): place for place in reversed(places)}.values())[::-1]


def noted_as_resumed_from(run_path: str) -> list[str]:
    """The runs that the journal beside it knows to be resumed from it: also those whose root is another one."""
    itself = os.path.realpath(run_path)
    found = {}
    for place in places_beside(run_path, ()):
        for entry in journal.read(place, what="resumed"):
            source = entry.facts.get("from")
            if entry.run is not None and isinstance(source, str) and os.path.realpath(source) == itself:
                found[entry.run] = True
    return list(found)


def followers_of(run_path: str) -> list[Follower]:
    """The runs beside it that were resumed from it, each with what says how it went. Never raises."""
    found = directories_resumed_from(os.path.abspath(run_path), os.path.dirname(os.path.abspath(run_path)))
    return [_follower(one, record) for one in found if (record := read_launch(one)) is not None]


def _follower(directory: str, record: LaunchRecord) -> Follower:
    told = record.resumed_from.checkpoint if record.resumed_from is not None else None
    started = started_at_from_name(os.path.basename(directory))
    lives = is_alive(directory)
    return Follower(
        path=directory,
        checkpoint=os.path.basename(told) if told else None,
        is_alive=lives,
        has_saved=has_saved(directory),
        steps=steps_of(os.path.join(directory, _METRICS)),
        started_at=started if started is not None else record.started_at,
        end=end_facts(directory) or (None if lives else _unseen_end(directory, record)),
        last_activity_at=max(_written_at(os.path.join(directory, name)) for name in (_METRICS, LOG)),
    )


def _unseen_end(directory: str, record: LaunchRecord) -> EndFacts | None:
    """What a training left whose supervisor was gone before it; None where its processes may live out of sight."""
    from lavender_tui.launch import cause

    here = this_machine()
    was_here = record.host == here.host and (record.is_here or record.boot_id != here.boot_id)
    if record.slurm is not None or not was_here or members(directory, record):
        return None
    try:
        failure = cause.examine(directory, None)
    except (OSError, ValueError, RecursionError):
        return None  # what a training wrote may be anything
    return None if failure is None else EndFacts(is_unseen=True, error=failure.words, failure=failure)


def _written_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def steps_of(path: str) -> int:
    """How many steps the first lines of a `metrics.jsonl` go through; beyond some more than "at once" nobody counts."""
    steps = list(itertools.islice(_steps(path), _MOST_LINES))
    return steps[-1] - steps[0] + 1 if steps else 0


def _steps(path: str) -> Iterator[int]:
    try:
        with open(open_regular(path), "rb") as file:
            for line in itertools.islice(iter(lambda: file.readline(_MOST_LINE_BYTES), b""), 2 * _MOST_LINES):
                try:
                    values = json.loads(line)
                except (ValueError, RecursionError):
                    continue  # torn, or no line of ours
                if isinstance(values, dict) and type(values.get("step")) is int and "loss" in values:
                    yield values["step"]
    except OSError:
        return
