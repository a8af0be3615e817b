"""`merge`: rank files, or a checkpoint with its rank states, into the one state for every rank of the next topology."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from lavender_tui import checkpoints
from lavender_tui.checkpoints.names import own_rank
from lavender_tui.checkpoints.states import FoundState
from lavender_tui.checkpoints.words import to_plain
from lavender_tui.errors import BadState, LavenderError, NotFound, UsageError
from lavender_tui.launch.files import open_regular
from lavender_tui.launch.record import write_atomically
from lavender_tui.model.plan import Verdict
from lavender_tui.model.rank_state import SaveFacts, StateSet, examine, owners_merge
from lavender_tui.model.state_rules import difference
from lavender_tui.resume.child import Child
from lavender_tui.resume.gather import gather
from lavender_tui.resume.request import sentence_case

_LONGEST_JSON = 64 << 20


def merge_files(paths: Sequence[str], out: str, *, world_size: int | None = None) -> dict[str, Any]:
    """Merge the states of ONE save and write them to `out` (`.pt` or `.json`), whole or not at all; returns the state.

    One path: a checkpoint with its states inside or beside it, or a directory of rank files. Several: one file a rank,
    whose name (or own `rank`) says which. `world_size`: how many ranks wrote them. Raises BadState for a set that may
    not be merged, NotFound, UsageError and other LavenderErrors; then nothing is written.
    """
    for path in paths:
        if not os.path.lexists(path):
            raise NotFound("there is no such file", where=path)
    files = _expand(paths)
    _refuse_output(files, out)
    gathered = _gather(files, world_size)
    _refuse_incomplete(gathered, paths)
    expected = owners_merge(gathered.states, gathered.world_size)
    with Child() as child:
        merged = child.merge([state.state for state in gathered.states])
        if merged != expected:
            raise BadState(
                f"the library's merge and the owners of the splits disagree ({difference(merged, expected)})"
            )
        _write(merged, out, child)
    return merged


def _expand(paths: Sequence[str]) -> list[str]:
    files: list[str] = []
    for path in paths:
        if not os.path.isdir(path):
            files.append(path)
            continue
        inside = sorted(os.path.join(path, name) for name in os.listdir(path))
        ranked = [one for one in inside if own_rank(one)[0] is not None and one.endswith((".pt", ".pth", ".json"))]
        if not ranked:
            raise UsageError("no rank states lie in this directory", where=path, hint="Name the files, or a checkpoint")
        files += ranked
    return files


def _refuse_output(files: Sequence[str], out: str) -> None:
    if not out.endswith((".pt", ".json")):
        raise UsageError("the merged state is written as FILE.pt or FILE.json", where=out)
    if os.path.realpath(out) in {os.path.realpath(path) for path in files}:
        raise UsageError("this is one of the states to merge", where=out, hint="Write to another file")
    if not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise NotFound("there is no such directory", where=os.path.dirname(os.path.abspath(out)))


def _gather(files: Sequence[str], world_size: int | None) -> StateSet:
    if len(files) == 1 and not files[0].endswith(".json"):
        checkpoint = checkpoints.read_checkpoint(files[0])
        if world_size is not None and checkpoint.world_size not in (None, world_size):
            what = f"the checkpoint says that {checkpoint.world_size} ranks saved it, not {world_size}"
            raise BadState(what, where=files[0])
        return gather(checkpoint, world_size=world_size).set
    found = [one for path in files for one in _read(path)]
    return examine(found, SaveFacts(world_size=world_size))


def _read(path: str) -> list[FoundState]:
    """The states of one file: its own, or a list with one a rank."""
    value, name = _value(path), os.path.basename(path)
    rank, of = own_rank(path)
    held = value
    if isinstance(value, dict) and "dataset" in value:
        held = value["dataset"]
        rank = rank if rank is not None else _whole(value.get("rank"))
        of = of if of is not None else _whole(value.get("world_size"))
    if isinstance(held, list | tuple) and (rank is None or len(held) != 1):
        return [
            FoundState(rank=index, world_size=len(held), origin=f"{name}[{index}]", state=to_plain(one))
            for index, one in enumerate(held)
        ]
    if isinstance(held, list | tuple):
        held = held[0]
    return [FoundState(rank=rank, world_size=of, origin=name, state=to_plain(held))]


def _value(path: str) -> Any:
    if not path.endswith(".json"):
        return checkpoints.read_tree(path).value
    try:
        with open(open_regular(path), "rb") as file:
            raw = file.read(_LONGEST_JSON + 1)
        if len(raw) > _LONGEST_JSON:
            raise BadState(f"more than {_LONGEST_JSON >> 20} MiB is no rank state", where=path)
        return json.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise LavenderError(f"can't be read ({error.strerror})", where=path) from error
    except (ValueError, RecursionError) as error:
        raise BadState("it is no readable JSON", where=path) from error


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _refuse_incomplete(gathered: StateSet, paths: Sequence[str]) -> None:
    refused = [check for check in gathered.checks if check.verdict is Verdict.REFUSE]
    if refused:
        what = "; ".join(f"{check.what} ({check.evidence})" if check.evidence else check.what for check in refused)
        raise BadState(f"not merged: {what}", hint=sentence_case(refused[0].remedy))
    if not gathered.states:
        raise BadState("there are no rank states in it", where=paths[0])


def _write(merged: dict[str, Any], out: str, child: Child) -> None:
    if out.endswith(".pt"):
        child.save(merged, out)
        return
    try:
        write_atomically(out, json.dumps(merged).encode() + b"\n", replace=True)
    except OSError as error:
        raise LavenderError(f"can't be written ({error.strerror or error})", where=out) from error
