"""One storage's bytes going by: how many of its tensors' numbers are not finite."""

from __future__ import annotations

from collections.abc import Iterable

from lavender_tui.checkpoints.findings import NonFinite
from lavender_tui.checkpoints.floats import FLOATS, Float
from lavender_tui.checkpoints.named import Named


class StorageScan:
    """Takes a storage's bytes in order and block by block; only what a tensor covers counts.

    A storage may be longer than its tensors, and what stands between them is nobody's.
    """

    def __init__(self, tensors: Iterable[Named], *, big_endian: bool) -> None:
        self._big_endian = big_endian
        self._by_type: dict[str, list[Named]] = {}
        self._odd: dict[int, list[int]] = {}  # id of a Named → NaNs, infinities
        for one in tensors:
            if one.tensor.dtype in FLOATS:
                self._by_type.setdefault(one.tensor.dtype, []).append(one)

    def __bool__(self) -> bool:
        """Is there anything to look for?"""
        return bool(self._by_type)

    def feed(self, block: bytearray | bytes, at: int) -> None:
        """`block` begins at byte `at` of the storage, a multiple of 16."""
        for dtype, tensors in self._by_type.items():
            kind = FLOATS[dtype]
            if not kind.is_clear(block, big_endian=self._big_endian):
                for one in tensors:
                    self._count(kind, one, block, at)

    def _count(self, kind: Float, one: Named, block: bytearray | bytes, at: int) -> None:
        width = one.width or kind.width
        start, extent = one.tensor.offset * width, one.extent * width
        low, high = max(0, start - at), min(len(block), start + extent - at)
        high -= (high - low) % kind.width
        if low >= high:
            return
        part = block[low:high]
        if one.extent <= one.tensor.numel:
            nans, infinities = kind.count(part, big_endian=self._big_endian)
        else:
            nans, infinities = self._count_with_gaps(kind, one, part, (at + low - start) // kind.width)
        counts = self._odd.setdefault(id(one), [0, 0])
        counts[0] += nans
        counts[1] += infinities

    def _count_with_gaps(self, kind: Float, one: Named, part: bytearray | bytes, first: int) -> tuple[int, int]:
        """Of a strided tensor only its own elements. `first`: which number of its extent `part` begins with."""
        per_element = (one.width or kind.width) // kind.width
        nans = infinities = 0
        for place in kind.places(part, big_endian=self._big_endian):
            if _is_element(one, (first + place) // per_element):
                at = place * kind.width
                counted = kind.count(part[at : at + kind.width], big_endian=self._big_endian)
                nans, infinities = nans + counted[0], infinities + counted[1]
        return nans, infinities

    def found(self) -> list[NonFinite]:
        """The tensors with numbers that are none."""
        found = []
        for one in (one for tensors in self._by_type.values() for one in tensors):
            nans, infinities = self._odd.get(id(one), (0, 0))
            if nans or infinities:
                found.append(NonFinite(one.name, one.part, one.tensor.dtype, nans, infinities, one.tensor.numel))
        return found


def _is_element(one: Named, place: int) -> bool:
    """Does the element at this place, from the tensor's first, belong to it? Right where strides don't overlap."""
    axes = sorted(zip(one.tensor.stride, one.tensor.shape, strict=False), reverse=True)
    for step, size in axes:
        if step:
            index = min(place // step, size - 1)
            place -= index * step
    return place == 0
