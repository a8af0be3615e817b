"""The few tensors whose value is wanted: a loss or an epoch saved as a tensor, counts of a rank state.

Only their own bytes are read. An optimizer's moments and a dict of many tensors are never among them; of a model of a
few tensors, one that is a single number is.
"""

from __future__ import annotations

import zlib
from collections import deque
from typing import Any, Protocol

from lavender_tui.checkpoints.archive import Archive
from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.objects import ITEM_SIZE, Inert, Tensor
from lavender_tui.checkpoints.scalars import decode

_MOST_READS = 128
_MOST_NODES = 4000
_MANY_TENSORS = 16  # a dict with more tensors than this holds weights
_STATE_ELEMENTS = 65_536  # longest list of a rank state that was saved as a tensor
_STATE_KEYS = ("dataset", "dataset_state", "dataset_state_dict")
_BIG_ENDIAN = zlib.crc32(b"big")  # torch writes the order as the text of member ROOT/byteorder


class Values(Protocol):
    """Where a container keeps its tensors' bytes."""

    def read(self, tensor: Tensor) -> list[Any] | None: ...


class ArchiveValues:
    """Tensors of the zip: member ROOT/data/<key>."""

    def __init__(self, archive: Archive, root: bytes) -> None:
        self._archive, self._root = archive, root
        order = archive.find(root + b"byteorder")
        self._big_endian = order is not None and order.crc == _BIG_ENDIAN

    def read(self, tensor: Tensor) -> list[Any] | None:
        width = ITEM_SIZE.get(tensor.dtype)
        if tensor.storage is None or width is None:
            return None
        member = self._archive.find(self._root + b"data/" + tensor.storage.key.encode("utf-8", "replace"))
        if member is None:
            return None
        raw = self._archive.slice(member, tensor.offset * width, tensor.numel * width)
        return None if raw is None else decode(tensor.dtype, raw, big_endian=self._big_endian)


class LegacyValues:
    """Tensors of the older container: one place in the file for each storage."""

    def __init__(self, file: OpenFile, places: dict[str, int]) -> None:
        self._file, self._places = file, places

    def read(self, tensor: Tensor) -> list[Any] | None:
        width = ITEM_SIZE.get(tensor.dtype)
        if tensor.storage is None or width is None or tensor.storage.key not in self._places:
            return None
        length = tensor.numel * width
        raw = self._file.at(self._places[tensor.storage.key] + tensor.offset * width, length)
        return decode(tensor.dtype, raw) if len(raw) == length else None


def fill_values(top: Any, values: Values) -> None:
    """Set `value` of the small tensors that a person or a resume wants to know."""
    left = _MOST_READS
    for tensor, longest in _wanted(top):
        if left == 0:
            return
        if tensor.numel > longest or (tensor.shape not in ((), (1,)) and tensor.stride != (1,)):
            continue
        left -= 1
        found = values.read(tensor)
        if found:
            tensor.value = found[0] if tensor.numel == 1 else found


def _wanted(top: Any) -> list[tuple[Tensor, int]]:
    """Tensors outside of weights, each with the most elements that may be read of it."""
    found: list[tuple[Tensor, int]] = []
    waiting = deque([(top, 1, 0)])
    seen: set[int] = set()
    for _ in range(_MOST_NODES):
        if not waiting:
            break
        value, longest, depth = waiting.popleft()
        if type(value) is Tensor:
            found.append((value, longest))
            continue
        if id(value) in seen or depth > 6:
            continue
        seen.add(id(value))
        for key, child in _children(value):
            inner = _STATE_ELEMENTS if type(key) is str and key in _STATE_KEYS else longest
            if type(child) in (dict, list, Tensor, Inert, tuple):
                waiting.append((child, inner, depth + 1))
    return found


def _children(value: Any) -> list[tuple[Any, Any]]:
    if type(value) is dict:
        if len(value) > _MANY_TENSORS:
            several = [type(child) is Tensor for _, child in zip(range(64), value.values(), strict=False)]
            if sum(several) > _MANY_TENSORS:
                return []
        if "param_groups" in value and "state" in value:  # an optimizer: only its settings
            return [("param_groups", value["param_groups"])]
        return list(value.items())
    if type(value) in (list, tuple):
        return [(None, child) for child in value[:256]]
    return [(None, value.state), *((None, one) for one in (value.items or [])[:64])] if type(value) is Inert else []
