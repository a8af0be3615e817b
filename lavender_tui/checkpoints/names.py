"""Which file names may be checkpoints, and which belong to one rank of a checkpoint."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

from lavender_tui.model.checkpoint import parse_name

_ENDINGS = (".pt", ".pth", ".ckpt", ".pth.tar")
_NOT_YET = (".tmp", ".part", ".partial", ".crdownload", ".filepart", ".incomplete", ".swp", ".bak")
# ASCII digits only, as in all names that are read here.
_RANK_END = re.compile(r"(?P<stem>.*?)(?P<join>^|[._-])rank[_-]?(?P<rank>[0-9]{1,9})(?:-of-(?P<world>[0-9]{1,9}))?")
_RANK_DIRECTORY = re.compile(r"rank[_-]?(?P<rank>[0-9]{1,9})")
_SIDE_ENDINGS = (*_ENDINGS, ".json")
MOST_NAMES = 50_000


@dataclass(frozen=True, slots=True)
class RankFile:
    """A file with one rank's state. `world_size` only where the name says it."""

    rank: int
    world_size: int | None
    path: str


def is_checkpoint_name(name: str) -> bool:
    """May a file of this name be a checkpoint? Hidden, temporary and rank files are not; nothing is opened.

    A directory of one file a rank (`rank_0.pt`, `rank_1.pt`, …) is one checkpoint: it goes by the name of rank 0.
    Whether `checkpoint_100_rank0.pt` is one, too, depends on what lies beside it: see `first_of_ranks`.
    """
    if name.startswith((".", "~", "#", "tmp.", "tmp_", "tmp-")) or name.endswith(("~", "#")):
        return False
    ending = _ending(name)
    if ending is None or any(mark + "." in name + "." for mark in _NOT_YET):
        return False
    found = _RANK_END.fullmatch(name[: -len(ending)])
    return found is None or (found["stem"] == "" and int(found["rank"]) == 0)


def has_saved(run_dir: str) -> bool:
    """Does a file with the name of a checkpoint lie there? False where the directory can't be listed."""
    try:
        return any(is_checkpoint_name(name) for name in os.listdir(run_dir))
    except OSError:
        return False


def first_of_ranks(name: str) -> str | None:
    """The stem of a rank 0 file that may be the checkpoint: "checkpoint_100" of `checkpoint_100_rank0.pt`.

    It is one where no file of the stem itself lies beside it, just as `rank_0.pt` is. None for all other names, and
    for the trainer's own: there the checkpoint comes after its rank files, or was deleted and left them behind.
    """
    ending = _ending(name) if "rank" in name else None
    found = _RANK_END.fullmatch(name[: -len(ending)]) if ending else None
    if found is None or ending is None or not found["stem"] or int(found["rank"]) != 0:
        return None
    is_ours = parse_name(found["stem"] + ".pt")[1] is not None
    return found["stem"] if not is_ours and is_checkpoint_name(found["stem"] + ending) else None


def rank_stem(name: str) -> str | None:
    """What a rank file's name says before its rank ("" for `rank_3.pt`); None for a name without one."""
    found = _RANK_END.fullmatch(stem_of(name))
    return found["stem"] if found else None


def _ending(name: str) -> str | None:
    return next((ending for ending in sorted(_ENDINGS, key=len, reverse=True) if name.endswith(ending)), None)


def stem_of(name: str) -> str:
    """The name without its ending; `.pth.tar` is one ending."""
    return name[: -len(_ending(name) or os.path.splitext(name)[1] or "")] if "." in name else name


def _names_in(directory: str) -> list[str]:
    names = []
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                names.append(entry.name)
                if len(names) >= MOST_NAMES:
                    break
    except OSError:
        return []
    return names


def rank_files(path: str, names: Iterable[str] | None = None) -> list[RankFile]:
    """The rank files that belong to the checkpoint at `path`, by rank (10 after 9). `names`: its directory's, if known.

    Beside it: `<stem>.rank3.pt`, `<stem>.rank3-of-8.pt`, `<stem>_rank3.pt`, `<stem>-rank_3.pt`, also with a
    checkpoint's other endings and `.json`. In directories: `rank3/<name>` beside it, or beside its own directory where
    that is `rank0`. A checkpoint that is itself rank 0's file (`rank_0.pt`, `checkpoint_100_rank0.pt`) has its
    siblings. `path` itself is never among them.
    """
    directory, name = os.path.split(path)
    here = list(names) if names is not None else _names_in(directory)
    found = [*_beside(directory, name, here), *_in_directories(directory, name, here)]
    parent, own = os.path.split(directory)
    if _RANK_DIRECTORY.fullmatch(own):
        found += _in_directories(parent, name, _names_in(parent))
    unique = {one.path: one for one in found if one.path != path}
    return sorted(unique.values(), key=lambda one: (one.rank, one.path))


def own_rank(path: str) -> tuple[int | None, int | None]:
    """(rank, world_size) where the path itself says that it is one rank's file; None for what it does not say."""
    directory, name = os.path.split(path)
    found = _RANK_END.fullmatch(stem_of(name))
    if found:
        return int(found["rank"]), int(found["world"]) if found["world"] else None
    inside = _RANK_DIRECTORY.fullmatch(os.path.basename(directory))
    return (int(inside["rank"]), None) if inside else (None, None)


def is_one_of_ranks(path: str, names: Iterable[str] | None = None) -> bool:
    """Does the file's name give it a rank, and are there other ranks: by their files beside it, or by its name?"""
    directory, name = os.path.split(path)
    found = _RANK_END.fullmatch(stem_of(name)) if "rank" in name else None
    if found is None:
        return False
    if found["world"] and int(found["world"]) > 1:
        return True
    here = list(names) if names is not None else _names_in(directory)
    return any(one.path != path for one in _beside(directory, name, here))


def _beside(directory: str, name: str, names: list[str]) -> list[RankFile]:
    stem = stem_of(name)
    own = _RANK_END.fullmatch(stem)
    stems = {stem} | ({own["stem"]} if own else set())
    found = []
    for other in names:
        if "rank" not in other or not other.endswith(_SIDE_ENDINGS) or other.startswith("."):
            continue
        match = _RANK_END.fullmatch(stem_of(other))
        if match and match["stem"] in stems:
            world = int(match["world"]) if match["world"] else None
            found.append(RankFile(int(match["rank"]), world, os.path.join(directory, other)))
    return found


def _in_directories(directory: str, name: str, names: list[str]) -> list[RankFile]:
    stem = stem_of(name)
    found = []
    for other in names:
        match = _RANK_DIRECTORY.fullmatch(other)
        if not match:
            continue
        for candidate in dict.fromkeys((name, stem + ".pt", stem + ".json")):
            inside = os.path.join(directory, other, candidate)
            if os.path.isfile(inside):
                found.append(RankFile(int(match["rank"]), None, inside))
                break
    return found
