"""Reading what lies on disk: metadata of checkpoints, without executing a byte of them and without their tensors' data.

    read_checkpoint(path, *, known=None, now=None, names=None, limits=None) -> Checkpoint     never raises
    read_tree(path, *, limits=None, allow_partial=False) -> Tree                              raises UnreadableFile
    read_rank_states(path, *, names=None, limits=None) -> list[FoundState]                    raises UnreadableFile
    rank_files(path, names=None) -> list[RankFile]                                            files beside it, by rank
    is_checkpoint_name(name) -> bool                                                          opens nothing
    file_facts(path) -> FileFacts                                                             raises OSError

Only the standard library is imported, and that when a name is first used: the screen is painted before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lavender_tui.checkpoints.container import Tree, read_tree
    from lavender_tui.checkpoints.files import file_facts
    from lavender_tui.checkpoints.limits import Limits
    from lavender_tui.checkpoints.names import RankFile, is_checkpoint_name, rank_files
    from lavender_tui.checkpoints.reading import read_checkpoint
    from lavender_tui.checkpoints.states import FoundState, read_rank_states

__all__ = [
    "FoundState",
    "Limits",
    "RankFile",
    "Tree",
    "file_facts",
    "is_checkpoint_name",
    "rank_files",
    "read_checkpoint",
    "read_rank_states",
    "read_tree",
]

_HOMES = {
    "FoundState": "states",
    "Limits": "limits",
    "RankFile": "names",
    "Tree": "container",
    "file_facts": "files",
    "is_checkpoint_name": "names",
    "rank_files": "names",
    "read_checkpoint": "reading",
    "read_rank_states": "states",
    "read_tree": "container",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
    return value
