"""The rank states of one save, from inside the checkpoint and the files beside it, and what they are held against."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lavender_tui import checkpoints
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import Checkpoint, FileFacts
from lavender_tui.model.data_rows import readable_rows
from lavender_tui.model.rank_state import SaveFacts, StateSet, examine
from lavender_tui.model.state_rules import refuse

_POSITIONS_SINCE = (0, 38)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """`set` has the states and every check on them, `facts` what they were checked against.

    `files` are the files that were read, as they were then: the plan holds only while they stay so.
    """

    set: StateSet
    facts: SaveFacts
    files: tuple[tuple[str, FileFacts], ...] = ()
    scheduler_epoch: int | None = None  # last_epoch of the saved scheduler


def gather(checkpoint: Checkpoint, *, world_size: int | None = None, num_workers: int = 0) -> Gathered:
    """Read and check the states that belong to this checkpoint. `world_size`: ranks that saved, as the record says.

    Only files of the checkpoint's own stem are taken, so that another save's are never mixed in. Never raises for what
    the files hold; of a checkpoint that isn't whole nothing is read again.
    """
    if not checkpoint.is_whole:
        return Gathered(set=StateSet(), facts=save_facts(checkpoint, {}, world_size=world_size))
    content = _content(checkpoint)
    facts = save_facts(checkpoint, content, world_size=world_size, num_workers=num_workers)
    try:
        found = checkpoints.read_rank_states(checkpoint.path)
    except (UnreadableFile, OSError) as error:
        bad = refuse("states.shape", f"the rank states can't be read: {error}")
        return Gathered(set=StateSet(checks=(bad,)), facts=facts, scheduler_epoch=_scheduler_epoch(content))
    result = examine(found, facts)
    if not found and content.get("dataset") in ([], ()):
        bad = refuse("states.shape", "the checkpoint has an empty list of rank states: 0 states", checkpoint.path)
        result = StateSet(recorded_ranks=facts.world_size, checks=(bad,))
    return Gathered(set=result, facts=facts, files=_files(checkpoint), scheduler_epoch=_scheduler_epoch(content))


def without_states(checkpoint: Checkpoint) -> Gathered:
    """For a start that takes nothing but the weights: the states are not looked at, the file is still watched."""
    return Gathered(set=StateSet(), facts=save_facts(checkpoint, {}), files=((checkpoint.path, checkpoint.facts),))


def _scheduler_epoch(content: Mapping[str, Any]) -> int | None:
    state = content.get("scheduler_state_dict")
    steps = state.get("last_epoch") if isinstance(state, Mapping) else None
    return steps if type(steps) is int else None


def save_facts(
    checkpoint: Checkpoint, content: Mapping[str, Any], *, world_size: int | None = None, num_workers: int = 0
) -> SaveFacts:
    """What the checkpoint says of the moment of its save. Its own world_size comes before the record's."""
    data, versions = checkpoint.data or {}, checkpoint.versions or {}
    start, step = _progress(content)
    steps_count = _steps_count(checkpoint, content)
    on_error = data.get("on_transform_error")
    return SaveFacts(
        world_size=checkpoint.world_size if checkpoint.world_size is not None else world_size,
        epoch=checkpoint.epoch,
        epoch_complete=checkpoint.epoch_complete,
        global_step=checkpoint.step if steps_count else None,
        global_batch=checkpoint.global_batch if steps_count else None,
        start_samples=start,
        start_step=step,
        num_rows=readable_rows(data),
        num_workers=num_workers,
        on_transform_error=on_error if isinstance(on_error, str) else None,
        states_have_positions=_version(versions.get("lancedb")) >= _POSITIONS_SINCE,
    )


def _content(checkpoint: Checkpoint) -> Mapping[str, Any]:
    """The checkpoint's top level, as plain values; {} where it has none that can be read."""
    try:
        value = checkpoints.read_tree(checkpoint.path).value
    except (UnreadableFile, OSError):
        return {}
    return value if isinstance(value, Mapping) else {}


def _progress(content: Mapping[str, Any]) -> tuple[int | None, int | None]:
    progress = content.get("progress")
    if not isinstance(progress, Mapping):
        return None, None
    start, step = progress.get("start_samples"), progress.get("start_step")
    return (start, step) if type(start) is int and type(step) is int else (None, None)


def _steps_count(checkpoint: Checkpoint, content: Mapping[str, Any]) -> bool:
    """May steps × batch be held against the states? At the end of an epoch the last batch may be short.

    Our own CheckpointManager leaves `progress` out where the two don't agree by nature (accumulation, packing, a step
    count that is a guess); where it wrote the file, its silence is meant.
    """
    batch = content.get("batch")
    accumulates = isinstance(batch, Mapping) and batch.get("accumulate", 1) != 1
    silent = "lavender_tui" in (checkpoint.versions or {}) and "progress" not in content
    return not (accumulates or silent or checkpoint.epoch_complete)


def _version(text: Any) -> tuple[int, ...]:
    match = re.match(r"([0-9]{1,6})\.([0-9]{1,6})", text) if isinstance(text, str) else None
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _files(checkpoint: Checkpoint) -> tuple[tuple[str, FileFacts], ...]:
    """The checkpoint and its rank files, as they are now."""
    facts = [(checkpoint.path, checkpoint.facts)]
    for one in checkpoints.rank_files(checkpoint.path):
        try:
            facts.append((one.path, checkpoints.file_facts(one.path)))
        except OSError:
            continue  # gone again: the states that were read are what counts
    return tuple(facts)
