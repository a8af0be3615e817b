"""NaN and infinity in raw bytes, counted with nothing but bytes: as fast as memory, and no number is ever made.

A number is not finite where all bits of its exponent are ones. They stand in its highest byte, and with most types
partly in the next one. So the highest bytes alone clear a block in one go; only a block that is not cleared is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

Bytes = bytes | bytearray


def _table(marked: Iterable[int]) -> bytes:
    """For `translate`: 1 for each marked byte, 0 for every other."""
    marked = frozenset(marked)
    return bytes(one in marked for one in range(256))


_ZERO = _table([0])


@dataclass(frozen=True, slots=True)
class Float:
    """A floating-point type: its size in bytes; which highest bytes, and which second ones, have all ones in the
    exponent's bits; and which second ones are infinity's, where the type has one. `seconds` None: the highest
    byte says it all."""

    width: int
    firsts: frozenset[int]
    seconds: frozenset[int] | None = None
    infinities: frozenset[int] = frozenset()  # of the last byte looked at: its mantissa bits are zeros
    is_first_table: bytes = field(init=False)
    is_second_table: bytes | None = field(init=False)
    infinity_table: bytes = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_first_table", _table(self.firsts))
        object.__setattr__(self, "is_second_table", None if self.seconds is None else _table(self.seconds))
        object.__setattr__(self, "infinity_table", _table(self.infinities))

    def is_clear(self, data: Bytes, *, big_endian: bool = False) -> bool:
        """True: certainly all finite. False: to be counted."""
        high = self._byte(data, 0, big_endian)
        return not any(one in high for one in self.firsts)

    def count(self, data: Bytes, *, big_endian: bool = False) -> tuple[int, int]:
        """(NaNs, infinities) among the numbers in `data`, whose length is a multiple of `width`."""
        odd = self._marks(data, big_endian)
        if not odd:
            return 0, 0
        last = 0 if self.seconds is None else 1
        infinite = odd & _number(self._byte(data, last, big_endian).translate(self.infinity_table))
        for place in range(last + 1, self.width):
            infinite &= _number(self._byte(data, place, big_endian).translate(_ZERO))
        return odd.bit_count() - infinite.bit_count(), infinite.bit_count()

    def places(self, data: Bytes, *, big_endian: bool = False) -> list[int]:
        """Which of the numbers in `data`, counted from 0, are not finite."""
        marks = self._marks(data, big_endian).to_bytes(len(data) // self.width, "little")
        found, at = [], marks.find(1)
        while at >= 0:
            found.append(at)
            at = marks.find(1, at + 1)
        return found

    def _marks(self, data: Bytes, big_endian: bool) -> int:
        """A byte for each number, 1 where it is not finite, as one long whole number."""
        marks = _number(self._byte(data, 0, big_endian).translate(self.is_first_table))
        if marks and self.is_second_table is not None:
            marks &= _number(self._byte(data, 1, big_endian).translate(self.is_second_table))
        return marks

    def _byte(self, data: Bytes, place: int, big_endian: bool) -> Bytes:
        """Of each number the byte at `place`, counted from the highest."""
        if self.width == 1:
            return data
        return data[place if big_endian else self.width - 1 - place :: self.width]


def _number(marks: Bytes) -> int:
    return int.from_bytes(marks, "little")


def _both_signs(*values: int) -> frozenset[int]:
    return frozenset((*values, *(0x80 | one for one in values)))


_FLOAT32 = Float(4, _both_signs(0x7F), frozenset(range(0x80, 0x100)), frozenset([0x80]))
_FLOAT64 = Float(8, _both_signs(0x7F), frozenset(range(0xF0, 0x100)), frozenset([0xF0]))
_FLOAT16 = Float(2, _both_signs(0x7C, 0x7D, 0x7E, 0x7F), None, _both_signs(0x7C))
_BFLOAT16 = Float(2, _both_signs(0x7F), frozenset(range(0x80, 0x100)), frozenset([0x80]))

# By the names of torch's types; a complex number is two numbers.
FLOATS = {
    "float64": _FLOAT64,
    "float32": _FLOAT32,
    "float16": _FLOAT16,
    "bfloat16": _BFLOAT16,
    "complex128": _FLOAT64,
    "complex64": _FLOAT32,
    "complex32": _FLOAT16,
    "float8_e5m2": Float(1, _both_signs(0x7C, 0x7D, 0x7E, 0x7F), None, _both_signs(0x7C)),
    "float8_e4m3fn": Float(1, _both_signs(0x7F)),
    "float8_e4m3fnuz": Float(1, frozenset([0x80])),
    "float8_e5m2fnuz": Float(1, frozenset([0x80])),
    "float8_e8m0fnu": Float(1, frozenset([0xFF])),
}
