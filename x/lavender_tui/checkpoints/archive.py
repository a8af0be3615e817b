"""The zip that torch.save writes, read from its tail: end record, central directory, data.pkl, single scalars.

Nothing is extracted and no name in the archive is ever used as a path. Offsets are those of PKWARE's APPNOTE.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.limits import CutShort, Damaged, Foreign, Limits, OverLimit

LOCAL_MAGIC = b"PK\x03\x04"
_ENTRY_MAGIC = b"PK\x01\x02"
_END_MAGIC = b"PK\x05\x06"
_END64_MAGIC = b"PK\x06\x06"
_LOCATOR64_MAGIC = b"PK\x06\x07"

_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR64 = struct.Struct("<4sIQI")
_ENTRY = struct.Struct("<4s6H3I5H2I")
_LOCAL = struct.Struct("<4s5H3I2H")

_FIRST_TAIL = 1024
_LONGEST_TAIL = _END.size + 65_535  # a comment may be that long
_PADDING = 64  # torch aligns data to 64 bytes by padding the local header
_FULL32, _FULL16 = 0xFFFFFFFF, 0xFFFF
_ONE_READ = 4 << 20  # up to here header and data are read together
_ZIP64_EXTRA = 1
ENCRYPTED = 1
STORED, DEFLATED = 0, 8


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of the central directory. `offset` is where its local header begins."""

    name: bytes
    method: int
    flags: int
    crc: int
    packed_size: int
    size: int
    offset: int


class Archive:
    """The members of a zip archive at the end of `file`.

    Raises CutShort where there is no end record, Damaged where the records contradict each other.
    """

    def __init__(self, file: OpenFile, limits: Limits) -> None:
        self.file, self.limits = file, limits
        self.bytes_behind = 0  # what follows the end record and its comment
        self.directory, self._shift = self._read_directory()

    def _read_directory(self) -> tuple[bytes, int]:
        tail, end = self._find_end()
        size, start_claimed, end_at = self._end_values(tail, end)
        start = end_at - size
        if size > self.limits.max_directory_bytes:
            if start < 0:
                raise Damaged("its archive's directory does not fit into the file")
            raise OverLimit(f"its archive's directory takes {size:,} bytes")
        if start < 0:
            raise Damaged("its archive's directory does not fit into the file")
        tail_at = self.file.size - len(tail)
        if start >= tail_at:
            directory = tail[start - tail_at : start - tail_at + size]
        else:  # the part that the tail holds already is not read again
            directory = self.file.at(start, tail_at - start) + tail[: max(0, end_at - tail_at)]
            directory = directory[:size]
        if len(directory) != size or (size and directory[:4] != _ENTRY_MAGIC):
            raise Damaged("its archive's directory is not where its end record says")
        return directory, start - start_claimed

    def _find_end(self) -> tuple[bytes, int]:
        """The file's tail and the place of the end record in it."""
        for length in (_FIRST_TAIL, _LONGEST_TAIL):
            length = min(length, self.file.size)
            tail = self.file.at(self.file.size - length, length)
            end = tail.rfind(_END_MAGIC)
            if end >= 0 and len(tail) - end >= _END.size:
                return tail, end
        raise CutShort("its archive has no end record: the save was not finished, or the file was cut")

    def _end_values(self, tail: bytes, end: int) -> tuple[int, int, int]:
        """(directory size, its offset as claimed, where it really ends in the file)."""
        values = _END.unpack_from(tail, end)
        size, offset, end_at = values[5], values[6], self.file.size - len(tail) + end
        self.bytes_behind = max(0, self.file.size - (end_at + _END.size + values[7]))
        locator = tail[end - _LOCATOR64.size : end] if end >= _LOCATOR64.size else b""
        if not locator.startswith(_LOCATOR64_MAGIC):
            if _FULL32 in (size, offset) or values[4] == _FULL16:
                raise Damaged("its archive's 64-bit end record is missing")
            return size, offset, end_at
        claimed = _LOCATOR64.unpack(locator)[2]
        record_at = end_at - _LOCATOR64.size - _END64.size
        raw = tail[end - _LOCATOR64.size - _END64.size : end - _LOCATOR64.size]
        if not raw.startswith(_END64_MAGIC):
            record_at, raw = claimed, self.file.at(claimed, _END64.size)
        if len(raw) != _END64.size or not raw.startswith(_END64_MAGIC):
            raise Damaged("its archive's 64-bit end record is missing")
        size, offset = _END64.unpack(raw)[8:10]
        return size, offset, record_at

    # ---- members

    def has(self, suffix: bytes) -> bool:
        """Does any entry seem to end so? (Only for telling what kind of archive it is.)"""
        return suffix in self.directory

    def find(self, name: bytes) -> Member | None:
        """The one member called `name`. Raises Damaged where there are two."""
        found, at = None, self.directory.find(name)
        while at >= 0:
            start = at - _ENTRY.size
            if start >= 0 and self.directory.startswith(_ENTRY_MAGIC, start):
                member = self._entry(start)
                if member.name == name:
                    if found is not None:
                        raise Damaged(f"its archive holds {name.decode('latin1')!r} twice")
                    found = member
            at = self.directory.find(name, at + 1)
        return found

    def find_pickle(self) -> tuple[Member, bytes]:
        """data.pkl and the root it lies under (`root/` or nothing). Raises Foreign, or Damaged where there are two."""
        if self.directory.count(b"data.pkl") == 1 and self.directory:
            first = self._entry(0)
            if first.name.endswith(b"/data.pkl") and first.name.count(b"/") == 1:
                return first, first.name[:-8]
        found = [member for member in self.members() if _is_pickle(member.name)]
        if not found:
            raise Foreign("it is a zip archive without data.pkl, not something that torch.save wrote", kind="zip")
        if len(found) > 1:
            raise Damaged("its archive holds data.pkl twice")
        return found[0], found[0].name[:-8]

    def members(self) -> list[Member]:
        """All entries, in the directory's order."""
        members, at, size = [], 0, len(self.directory)
        while at + _ENTRY.size <= size and self.directory.startswith(_ENTRY_MAGIC, at):
            member = self._entry(at)
            members.append(member)
            name, extra, comment = _ENTRY.unpack_from(self.directory, at)[10:13]
            at += _ENTRY.size + name + extra + comment
        return members

    def _entry(self, at: int) -> Member:
        try:
            (_, _, _, flags, method, _, _, crc, packed, size, name_length, extra_length, _, _, _, _, offset) = (
                _ENTRY.unpack_from(self.directory, at)
            )
        except struct.error:
            raise Damaged("its archive's directory ends in the middle of an entry") from None
        name_end = at + _ENTRY.size + name_length
        if _FULL32 in (packed, size, offset):
            extra = self.directory[name_end : name_end + extra_length]
            packed, size, offset = _long_values(extra, packed, size, offset)
        name = self.directory[at + _ENTRY.size : name_end]
        return Member(name, method, flags, crc, packed, size, offset + self._shift)

    # ---- contents

    def read(self, member: Member) -> bytes:
        """A member's bytes, unpacked and checked against its checksum."""
        limit = self.limits.max_pickle_bytes
        if member.flags & ENCRYPTED:
            raise Foreign("it is an encrypted zip archive", kind="zip")
        if member.size > limit or member.packed_size > limit:
            if member.offset + member.packed_size > self.file.size and member.method == STORED:
                raise Damaged("its archive's directory claims more bytes than the file has")
            raise OverLimit(f"its data.pkl takes {member.size:,} bytes (at most {limit:,})")
        raw = self._raw(member)
        if member.method == DEFLATED:
            raw = _inflate(raw, member.size)
        elif member.method != STORED:
            raise Foreign(f"its archive is packed by method {member.method}, which torch never uses", kind="zip")
        if len(raw) != member.size:
            raise Damaged("its data.pkl is not as long as its archive's directory says")
        # A checksum of 0 is none: torch can be told to leave them out.
        if member.crc and zlib.crc32(raw) != member.crc:
            raise Damaged("its data.pkl does not agree with its checksum: bytes of it were lost or changed")
        return raw

    def _raw(self, member: Member) -> bytes:
        start, size = _LOCAL.size + len(member.name) + _PADDING, member.packed_size
        together = start + size if size <= _ONE_READ else start
        head = self.file.at(member.offset, together)
        begin = self._data_start(head)
        if begin + size <= len(head):
            return head[begin : begin + size]
        if size > _ONE_READ:
            return self.file.at(member.offset + begin, size)
        return head[begin:] + self.file.at(member.offset + max(begin, len(head)), size - max(0, len(head) - begin))

    @staticmethod
    def _data_start(head: bytes) -> int:
        if len(head) < _LOCAL.size or not head.startswith(LOCAL_MAGIC):
            raise Damaged("its archive's directory points to something that is no member")
        name_length, extra_length = _LOCAL.unpack_from(head)[9:11]
        return _LOCAL.size + int(name_length) + int(extra_length)

    def data_offset(self, member: Member) -> int:
        """Where a member's bytes begin in the file. Raises Damaged where its local header is none."""
        return member.offset + self._data_start(self.file.at(member.offset, _LOCAL.size))

    def slice(self, member: Member, offset: int, length: int) -> bytes | None:
        """`length` bytes of a stored member from `offset`; None where that can't be had."""
        if member.method != STORED or member.flags & ENCRYPTED or offset + length > member.size:
            return None
        head = self.file.at(member.offset, _LOCAL.size + len(member.name) + _PADDING + offset % 256 + length)
        begin = self._data_start(head) + offset
        if begin + length > len(head):
            head, begin = self.file.at(member.offset + begin, length), 0
        part = head[begin : begin + length]
        return part if len(part) == length else None


def _is_pickle(name: bytes) -> bool:
    return name == b"data.pkl" or (name.endswith(b"/data.pkl") and name.count(b"/") == 1)


def _long_values(extra: bytes, packed: int, size: int, offset: int) -> tuple[int, int, int]:
    """The 64-bit values of an entry: in the order size, packed size, offset, and only those that are full."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == _ZIP64_EXTRA:
            field = extra[at + 4 : at + 4 + length]
            numbers = iter(struct.unpack_from(f"<{len(field) // 8}Q", field))
            try:
                size = next(numbers) if size == _FULL32 else size
                packed = next(numbers) if packed == _FULL32 else packed
                offset = next(numbers) if offset == _FULL32 else offset
            except StopIteration:
                break
            return packed, size, offset
        at += 4 + length
    raise Damaged("its archive's directory lacks a 64-bit size")


def _inflate(raw: bytes, size: int) -> bytes:
    stream = zlib.decompressobj(-15)
    try:
        data = stream.decompress(raw, size + 1)
    except zlib.error:
        raise Damaged("its data.pkl can't be unpacked") from None
    if len(data) > size:
        raise OverLimit("its data.pkl unpacks to more than its archive's directory says")
    return data


def head_of_first_member(file: OpenFile) -> int:
    """Where data.pkl begins in an archive without directory. Raises CutShort or Foreign."""
    head = file.at(0, _LOCAL.size + 1024)
    if len(head) < _LOCAL.size:
        raise CutShort("it ends in its first bytes")
    values = _LOCAL.unpack_from(head)
    method, name_length, extra_length = values[3], values[9], values[10]
    name = head[_LOCAL.size : _LOCAL.size + name_length]
    if len(name) < name_length and file.size < _LOCAL.size + name_length:
        raise CutShort("it ends in its first bytes")
    if not _is_pickle(name) or method != STORED:
        raise Foreign("it is a cut zip archive, and not one that torch.save wrote")
    return _LOCAL.size + int(name_length) + int(extra_length)
