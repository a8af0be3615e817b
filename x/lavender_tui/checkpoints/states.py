"""The rank states of one save: inside the checkpoint, and in the files beside it. Judging them is the model's part."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints.container import Tree, read_tree
from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.formats.lancedb import has_states
from lavender_tui.checkpoints.limits import Damaged, Limits, OverLimit
from lavender_tui.checkpoints.names import RankFile, own_rank, rank_files
from lavender_tui.checkpoints.words import to_plain
from lavender_tui.errors import UnreadableFile

_MOST_FILES = 8192
_LONGEST_JSON = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundState:
    """A rank state as it was found: plain Python data, or None where a rank has none. Nothing of it is checked yet.

    `rank` and `world_size` are None where neither a list's order nor a file's name says them; `origin` names the place
    for messages ("pretrain-…-0060.pt dataset[3]" or "…-0060.rank3.pt").
    """

    rank: int | None
    world_size: int | None
    origin: str
    state: Any


def read_rank_states(
    path: str, *, names: Iterable[str] | None = None, limits: Limits | None = None
) -> list[FoundState]:
    """All rank states of the checkpoint at `path`, inside it and beside it, in rank order.

    `names`: what its directory holds, if known. Raises UnreadableFile (with `where`) for a checkpoint that is not
    whole, and for a rank file that can't be read: leaving one out would look like a smaller run.
    """
    tree = read_tree(path, limits=limits)
    states, problems = states_of(path, tree, names=names, limits=limits)
    if problems:
        where, what = problems[0]
        raise UnreadableFile(what, where=where)
    return states


def states_of(
    path: str, tree: Tree, *, names: Iterable[str] | None = None, limits: Limits | None = None
) -> tuple[list[FoundState], list[tuple[str, str]]]:
    """The states, and (path, reason) of each rank file that could not be read."""
    files = rank_files(path, names)
    rank, world_size = own_rank(path) if files else (None, None)
    states = _inside(tree.value, os.path.basename(path), rank, world_size, limits)
    problems = []
    if len(files) > _MOST_FILES:
        problems.append((path, f"{len(files):,} rank files lie beside it (at most {_MOST_FILES:,} are read)"))
    for one in files[:_MOST_FILES]:
        try:
            states.append(_from_file(one, limits))
        except UnreadableFile as error:
            problems.append((one.path, error.what))
    states.sort(key=lambda state: -1 if state.rank is None else state.rank)
    return states, problems


def _inside(value: Any, name: str, rank: int | None, world_size: int | None, limits: Limits | None) -> list[FoundState]:
    """`dataset`: one state, or a list with one a rank. The whole file may be the state, or the list."""
    if type(value) is dict and "dataset" in value:
        held, where = value["dataset"], f"{name} dataset"
    elif has_states(value):
        held, where = value, name
    else:
        return []
    if held is None:
        return []
    if type(held) in (list, tuple):
        return [
            FoundState(rank=index, world_size=len(held), origin=f"{where}[{index}]", state=one)
            for index, one in enumerate(to_plain(held, limits))
        ]
    return [FoundState(rank=rank, world_size=world_size, origin=where, state=to_plain(held, limits))]


def _from_file(file: RankFile, limits: Limits | None) -> FoundState:
    value = _read_json(file.path) if file.path.endswith(".json") else read_tree(file.path, limits=limits).value
    if type(value) is dict and "dataset" in value:
        value = value["dataset"]
    if type(value) is list and len(value) == 1:
        value = value[0]
    name = os.path.basename(file.path)
    directory = os.path.basename(os.path.dirname(file.path))
    origin = f"{directory}/{name}" if "rank" not in name else name
    return FoundState(rank=file.rank, world_size=file.world_size, origin=origin, state=to_plain(value, limits))


def _read_json(path: str) -> Any:
    try:
        with OpenFile(path) as file:
            if file.size > _LONGEST_JSON:
                raise OverLimit(f"it takes {file.size:,} bytes (at most {_LONGEST_JSON:,})")
            return json.loads(file.at(0, file.size).decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Damaged("it is no readable JSON", where=path) from None
    except UnreadableFile as error:
        error.where = error.where or path
        raise
