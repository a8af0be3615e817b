"""From a path to a tree of inert values: which container it is, whether it is whole, and its pickle read.

Three containers: the zip that torch.save writes since 1.6, the older row of pickles with raw storages behind them, and
a plain pickle. A file that ends too early is read from its head, as far as its pickle goes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from lavender_tui.checkpoints.archive import LOCAL_MAGIC, Archive, head_of_first_member
from lavender_tui.checkpoints.collector import collector_paused
from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.inert import Machine
from lavender_tui.checkpoints.limits import CutShort, Damaged, Foreign, Limits, OverLimit
from lavender_tui.checkpoints.objects import ITEM_SIZE, Global, Storage, Tensor
from lavender_tui.checkpoints.small_tensors import ArchiveValues, LegacyValues, fill_values
from lavender_tui.checkpoints.what import ALL_ZEROS, explain
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import FileFacts, Wholeness

LEGACY_MAGIC = 0x1950A86A20F9469CFC6C  # first pickle of the older container (torch/serialization.py)
_FIRST_HEAD = 64 << 10
_HEAD_GROWTH = 4
_END_MAGIC = b"PK\x05\x06"
# First bytes of pickles: PROTO, and what protocols 0 and 1 begin with.
_PICKLE_STARTS = b"\x80" + b"(c]}IL"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What one file holds: plain values and inert objects. `reason` says why it is not whole."""

    path: str
    facts: FileFacts
    value: Any
    tensors: tuple[Tensor, ...]
    globals: tuple[str, ...]  # every name that the pickle asked for, in order
    container: str  # "zip", "legacy" or "pickle"
    wholeness: Wholeness = Wholeness.WHOLE
    reason: str | None = None
    bytes_read: int = 0
    places: dict[str, int] | None = None  # legacy only: where the data of each storage begins


def read_tree(path: str, *, limits: Limits | None = None, allow_partial: bool = False) -> Tree:
    """The content of the file at `path`, without executing or importing anything and without its tensors' data.

    Raises UnreadableFile with `where` set: CutShort (also for a head that could be read, unless `allow_partial`),
    Damaged, OverLimit, Foreign.
    """
    try:
        with OpenFile(path) as file, collector_paused():
            tree = read_open(file, limits or Limits())
            if tree.wholeness is not Wholeness.WHOLE and not allow_partial:
                raise CutShort(tree.reason or "it is not whole")
            return tree
    except UnreadableFile as error:
        error.where = error.where or path
        raise


def read_open(file: OpenFile, limits: Limits) -> Tree:
    """Like `read_tree`, of an open file; a cut file whose head could be read comes back with `wholeness` CUT."""
    if file.size == 0:
        raise CutShort("it is empty (0 bytes)")
    head = file.at(0, 512)
    if head.startswith((LOCAL_MAGIC, _END_MAGIC)):
        return _read_zip(file, limits)
    if head[:1] in (bytes([code]) for code in _PICKLE_STARTS):
        try:
            return _read_pickles(file, limits)
        except (Damaged, OverLimit, CutShort):
            if head[:1] == b"\x80":
                raise
            raise explain(file, head) from None  # a text that happens to begin like a pickle of protocol 0
    if _END_MAGIC in file.at(file.size - min(1024, file.size), 1024):
        return _with_foreign_head(_read_zip(file, limits))
    raise explain(file, head)


def _with_foreign_head(tree: Tree) -> Tree:
    return _partial(tree, Wholeness.DAMAGED, "foreign bytes stand before its archive: torch.load refuses such a file")


def _partial(tree: Tree, wholeness: Wholeness, reason: str) -> Tree:
    return replace(tree, wholeness=wholeness, reason=reason)


def _tree(file: OpenFile, machine: Machine, value: Any, container: str) -> Tree:
    names = tuple(str(name) for name in machine.globals.values())
    return Tree(
        path=file.path,
        facts=file.facts,
        value=value,
        tensors=tuple(machine.tensors),
        globals=names,
        container=container,
        bytes_read=file.bytes_read,
    )


# ---- zip


def _read_zip(file: OpenFile, limits: Limits) -> Tree:
    try:
        archive = Archive(file, limits)
    except CutShort as error:
        return _read_zip_head(file, limits, error.what)
    if archive.has(b"/constants.pkl") and archive.has(b"/code/"):
        raise Foreign("it is a TorchScript program, not a checkpoint", kind="torchscript")
    if archive.has(b"archive_format") and archive.has(b"/models/"):
        raise Foreign("it is a program saved by torch.export, not a checkpoint", kind="torch-export")
    member, root = archive.find_pickle()
    machine = Machine(limits)
    try:
        value, _ = machine.run(archive.read(member))
    except CutShort:
        raise Damaged("its data.pkl ends too early, though its checksum is right") from None
    fill_values(value, ArchiveValues(archive, root))
    tree = _tree(file, machine, value, "zip")
    if archive.bytes_behind:
        reason = f"{archive.bytes_behind:,} foreign bytes stand behind its archive: torch.load refuses such a file"
        return _partial(tree, Wholeness.DAMAGED, reason)
    return tree


def _read_zip_head(file: OpenFile, limits: Limits, reason: str) -> Tree:
    """data.pkl is the first member, and unpacked: a save that is not finished can be read from its head."""
    try:
        start = head_of_first_member(file)
        machine, value = _grow(file, limits, start, _one_pickle)
    except (CutShort, Foreign) as error:
        raise CutShort(reason if isinstance(error, CutShort) else error.what) from None
    except Damaged:
        zeros = not file.at(file.size - min(4096, file.size), 4096).strip(b"\0")
        raise CutShort(f"{reason}; its last part is all zeros" if zeros else reason) from None
    return _partial(_tree(file, machine, value, "zip"), Wholeness.CUT, reason)


def _one_pickle(machine: Machine, data: bytes) -> Any:
    return machine.run(data)[0]


def _grow(file: OpenFile, limits: Limits, start: int, read: Any) -> tuple[Machine, Any]:
    """`read(machine, bytes)` with ever more bytes from `start`, until it has enough of them."""
    data = file.at(start, _FIRST_HEAD)
    while True:
        machine = Machine(limits)
        try:
            return machine, read(machine, data)
        except CutShort:
            more = file.at(start + len(data), (_HEAD_GROWTH - 1) * len(data))
            if not more:
                raise
            if len(data) + len(more) > limits.max_pickle_bytes:
                raise OverLimit(f"its pickle takes more than {limits.max_pickle_bytes:,} bytes") from None
            data += more


# ---- the older container, and plain pickles


@dataclass(slots=True)
class _Pickles:
    """The pickles at a file's start. `keys` is None where the file ends before them."""

    value: Any
    is_legacy: bool = False
    keys: Any = None
    end: int = 0


def _all_pickles(machine: Machine, data: bytes) -> _Pickles:
    first, at = machine.run(data)
    if type(first) is not int or first != LEGACY_MAGIC:
        return _Pickles(first, end=at)
    _, at = machine.run(data, at)  # protocol version
    _, at = machine.run(data, at)  # sizes and byte order of the machine that saved it
    value, at = machine.run(data, at)
    keys, at = machine.run(data, at)
    return _Pickles(value, True, keys, at)


def _without_keys(machine: Machine, data: bytes) -> _Pickles:
    value, at = machine.run(data)
    for _ in range(3):
        value, at = machine.run(data, at)
    return _Pickles(value, True)


def _read_pickles(file: OpenFile, limits: Limits) -> Tree:
    try:
        machine, found = _grow(file, limits, 0, _all_pickles)
    except CutShort as error:
        head = file.at(0, 64)
        if LEGACY_MAGIC.to_bytes(10, "little") not in head:
            raise
        try:
            machine, found = _grow(file, limits, 0, _without_keys)
        except CutShort:
            raise error from None
    if not found.is_legacy:
        return _tree(file, machine, found.value, "pickle")
    held = (*machine.storages, *(tensor.storage for tensor in machine.tensors))
    sizes = {one.key: one for one in held if type(one) is Storage}
    places, expected = _places(found, sizes)
    if places is not None:
        fill_values(found.value, LegacyValues(file, places))
    tree = replace(_tree(file, machine, found.value, "legacy"), places=places)
    if found.keys is None or (expected is not None and expected > file.size):
        missing = "" if expected is None else f": {file.size:,} of {expected:,} bytes are there"
        return _partial(tree, Wholeness.CUT, f"it ends before its tensors do{missing}")
    return tree


def _places(found: _Pickles, storages: dict[str, Storage]) -> tuple[dict[str, int] | None, int | None]:
    """Where each storage's data begins, and where the file must end; None where that can't be known.

    Behind the list of keys stand, for each key, the number of elements (8 bytes) and the elements.
    """
    if type(found.keys) is not list:
        return None, None
    at, places = found.end, {}
    for key in found.keys:
        storage = storages.get(key) if type(key) is str else None
        if storage is None:
            return None, None
        places[key] = at + 8
        at += 8 + storage.numel * ITEM_SIZE.get(storage.dtype, 1)
    return places, at


__all__ = ["ALL_ZEROS", "Global", "Tree", "read_open", "read_tree"]
