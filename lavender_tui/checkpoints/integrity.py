"""A checkpoint looked through to its last byte: are they the bytes that were written, and are its numbers numbers?

torch compares no checksum when it loads a file, though it writes one for every storage: a flipped bit on a disk or in
a copy goes on training, as some other weight. Nor does anything look for a NaN among the weights before they are
loaded. Both are done here in one pass, in order, in blocks, with the standard library alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from lavender_tui.checkpoints.archive import DEFLATED, ENCRYPTED, STORED, Archive, Member
from lavender_tui.checkpoints.container import Tree, read_open
from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.findings import Cancelled, Integrity, NonFinite, Problem
from lavender_tui.checkpoints.limits import CutShort, Damaged, Limits
from lavender_tui.checkpoints.named import Named, named_tensors
from lavender_tui.checkpoints.objects import ITEM_SIZE, Storage
from lavender_tui.checkpoints.remembered import recall, remember
from lavender_tui.checkpoints.scan import StorageScan
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import FileFacts, Wholeness
from lavender_tui.model.text import clean

Progress = Callable[[int, int], None]  # bytes done, bytes in all
IsCancelled = Callable[[], bool]

BLOCK = 1 << 20
_BETWEEN_REPORTS = 8 << 20
_BETWEEN_FORGETTING = 32 << 20
_BIG_ENDIAN = zlib.crc32(b"big")
_MOST_PROBLEMS = 1000

__all__ = [
    "Cancelled", "Integrity", "NonFinite", "Problem", "find_non_finite", "look_through", "recall", "verify",
]  # fmt: skip


def verify(
    path: str, *, on_progress: Progress | None = None, is_cancelled: IsCancelled | None = None, fresh: bool = False
) -> Integrity:
    """Compare every member of the file with its checksum, and every tensor with the bytes that are there for it.

    See `look_through` for the arguments and errors.
    """
    return look_through(path, finite=False, on_progress=on_progress, is_cancelled=is_cancelled, fresh=fresh)


def find_non_finite(
    path: str, *, on_progress: Progress | None = None, is_cancelled: IsCancelled | None = None, fresh: bool = False
) -> Integrity:
    """Look for NaN and infinity in every floating-point tensor. See `look_through` for the arguments and errors."""
    return look_through(path, sums=False, on_progress=on_progress, is_cancelled=is_cancelled, fresh=fresh)


def look_through(
    path: str,
    *,
    sums: bool = True,
    finite: bool = True,
    on_progress: Progress | None = None,
    is_cancelled: IsCancelled | None = None,
    fresh: bool = False,
    keep_cached: bool = False,
    remembers: bool = True,
) -> Integrity:
    """Read the file through once, for its checksums, its numbers, or both.

    A few MB of memory at any size. `on_progress(bytes done, bytes in all)` and `is_cancelled()` are called from this
    thread, the latter for each MiB. What was found before in the very same file is not looked for again, unless
    `fresh`; `remembers` False is for small files, which are as quickly read as remembered. Bytes leave the page cache
    behind the reading, unless `keep_cached`: the next reader is near.

    Raises Cancelled; UnreadableFile (with `where`) for a file that isn't whole, or that changed meanwhile.
    """
    try:
        with OpenFile(path) as file:
            known = None if fresh else recall(file.facts)
            sums = sums and not (known and known.problems is not None)
            finite = finite and not (known and known.non_finite is not None)
            if known is not None and not (sums or finite):
                return known
            found = _Look(file, sums, finite, keep_cached, on_progress, is_cancelled).find()
            if file.has_changed():
                raise UnreadableFile("it was written to while it was looked through")
            return _remembered(file.facts, found) if remembers else found
    except UnreadableFile as error:
        error.where = error.where or path
        raise


def _remembered(facts: FileFacts, found: Integrity) -> Integrity:
    """Failures of the disk aren't: they may be gone the next time."""
    if any(one.what.startswith("reading it fails") for one in found.problems or ()):
        return found
    return replace(remember(facts, replace(found, bytes_read=0)), bytes_read=found.bytes_read)


@dataclass(slots=True)
class _Look:
    file: OpenFile
    sums: bool
    finite: bool
    keep_cached: bool
    on_progress: Progress | None
    is_cancelled: IsCancelled | None
    done: int = 0
    total: int = 0
    reported: int = 0
    forgotten: int = 0  # what lies before has left the page cache
    problems: list[Problem] = field(default_factory=list)
    non_finite: list[NonFinite] = field(default_factory=list)
    buffer: bytearray = field(default_factory=lambda: bytearray(BLOCK))

    def find(self) -> Integrity:
        tree = read_open(self.file, Limits())
        if tree.wholeness is not Wholeness.WHOLE:
            error = CutShort if tree.wholeness is Wholeness.CUT else Damaged
            raise error(tree.reason or "it is not whole")
        self.file.will_read_all()
        by_key: dict[str, list[Named]] = {}
        for one in named_tensors(tree):
            if one.tensor.storage is not None:
                by_key.setdefault(one.tensor.storage.key, []).append(one)
        has_sums = False
        if tree.container == "zip":
            has_sums = self._archive(Archive(self.file, Limits()), by_key)
        elif tree.places is not None:
            self._legacy(tree, by_key)
        self._forget(self.file.size)
        self._report(last=True)
        return Integrity(
            container=tree.container,
            has_sums=has_sums,
            problems=tuple(self.problems[:_MOST_PROBLEMS]) if self.sums else None,
            non_finite=tuple(self.non_finite) if self.finite else None,
            bytes_read=self.file.bytes_read,
        )

    # ---- the zip

    def _archive(self, archive: Archive, by_key: dict[str, list[Named]]) -> bool:
        """True where the archive has checksums."""
        root = archive.find_pickle()[1]
        order = archive.find(root + b"byteorder")
        big_endian = order is not None and order.crc == _BIG_ENDIAN
        prefix = root + b"data/"
        owners = {prefix + key.encode("utf-8", "replace"): held for key, held in by_key.items()}
        members = sorted(archive.members(), key=lambda one: one.offset)
        has_sums = any(one.crc for one in members)
        if self.sums:
            self._sizes(members, owners)
        self.total = sum(one.packed_size for one in members)
        for member in members:
            held = owners.get(member.name, [])
            scan = StorageScan(held, big_endian=big_endian) if self.finite else None
            if self.sums or scan:
                self._member(archive, member, scan or None, held, has_sums)
            else:
                self._advance(member.packed_size)
        return has_sums

    def _sizes(self, members: list[Member], owners: dict[bytes, list[Named]]) -> None:
        """Is every tensor's storage there, and long enough? Do members share bytes, which none that torch wrote do?"""
        there = {one.name: one for one in members}
        for name, held in owners.items():
            self._sizes_of(there.get(name), _text(name), held)
        end = 0
        for one in members:
            if one.packed_size and one.offset < end:
                self._problem(f"{_text(one.name)} begins inside of the member before it")
                return
            end = max(end, one.offset + one.packed_size)

    def _sizes_of(self, member: Member | None, name: str, held: list[Named]) -> None:
        storage = held[0].tensor.storage
        wanted = _bytes_of(storage) if storage is not None else 0
        if member is None:
            if wanted:
                self._problem(f"{name} is missing", held)
            return
        if member.size < wanted:
            self._problem(f"{name} has {member.size:,} of {wanted:,} bytes", held)
            return
        for one in held:
            _check_extent(one, member.size, self._problem)

    def _member(
        self, archive: Archive, member: Member, scan: StorageScan | None, held: list[Named], has_sums: bool
    ) -> None:
        name, before = _text(member.name), self.done
        try:
            crc, length = self._through(self._blocks(archive, member), scan)
        except Damaged as error:
            self._problem(f"{error.what} ({name})" if name not in error.what else error.what, held)
            self._advance(member.packed_size - (self.done - before))
            return
        if length != member.size:
            self._problem(f"{name} has {length:,} of {member.size:,} bytes", held)
        elif self.sums and has_sums and crc != member.crc:
            self._problem(f"{name} does not agree with its checksum: bytes of it were lost or changed", held)
        if scan is not None:
            self.non_finite += scan.found()

    def _through(self, blocks: Iterator[tuple[bytearray, int]], scan: StorageScan | None) -> tuple[int, int]:
        """(checksum, length) of what goes by."""
        crc = length = 0
        for block, count in blocks:
            if self.sums:
                crc = zlib.crc32(memoryview(block)[:count], crc)
            if scan is not None:
                scan.feed(block if count == len(block) else block[:count], length)
            length += count
        return crc, length

    def _blocks(self, archive: Archive, member: Member) -> Iterator[tuple[bytearray, int]]:
        """A member's unpacked bytes: one buffer again and again, and how much of it is filled."""
        if member.flags & ENCRYPTED or member.method not in (STORED, DEFLATED):
            raise Damaged(f"{_text(member.name)} is packed in a way that torch never uses")
        raw = self._raw(archive.data_offset(member), member.packed_size)
        return raw if member.method == STORED else _inflated(raw, member.size)

    # ---- the older container

    def _legacy(self, tree: Tree, by_key: dict[str, list[Named]]) -> None:
        """Before each storage's bytes stands the number of its elements; there are no checksums."""
        places = sorted((at, key) for key, at in (tree.places or {}).items())
        self.total = self.file.size
        for at, key in places:
            held = by_key.get(key, [])
            storage = held[0].tensor.storage if held else None
            if storage is None:
                continue
            count, length = self.file.at(at - 8, 8), _bytes_of(storage)
            if self.sums and (len(count) < 8 or struct.unpack("<q", count)[0] != storage.numel):
                self._problem(f"storage {clean(key, 40)} is not as long as its tensors say", held)
            for one in held if self.sums else ():
                _check_extent(one, length, self._problem)
            scan = StorageScan(held, big_endian=False) if self.finite else None
            if scan:
                self._through(self._raw(at, length), scan)
                self.non_finite += scan.found()

    # ---- bytes

    def _raw(self, offset: int, size: int) -> Iterator[tuple[bytearray, int]]:
        view = memoryview(self.buffer)
        while size > 0:
            if self.is_cancelled is not None and self.is_cancelled():
                raise Cancelled
            count = self.file.into(view[: min(BLOCK, size)], offset)
            if count == 0:
                break
            yield self.buffer, count
            offset, size = offset + count, size - count
            self._advance(count)
            if offset - self.forgotten >= _BETWEEN_FORGETTING:
                self._forget(offset)

    def _advance(self, count: int) -> None:
        self.done += count
        if self.done - self.reported >= _BETWEEN_REPORTS:
            self._report()

    def _forget(self, end: int) -> None:
        if not self.keep_cached:
            self.file.forget(self.forgotten, end - self.forgotten)
        self.forgotten = end

    def _report(self, last: bool = False) -> None:
        self.reported = self.done
        if self.on_progress is not None:
            self.on_progress(self.total if last else min(self.done, self.total), self.total)

    def _problem(self, what: str, held: list[Named] | None = None) -> None:
        names = [one.name for one in held or () if one.name]
        self.problems.append(Problem(what, names[0] if names else ""))


def _inflated(raw: Iterator[tuple[bytearray, int]], size: int) -> Iterator[tuple[bytearray, int]]:
    """Unpacked in full blocks, and never more than `size` bytes and one."""
    stream, block = zlib.decompressobj(-15), bytearray()
    try:
        for packed, count in raw:
            waiting = bytes(packed[:count])
            while waiting and size >= 0:
                part = stream.decompress(waiting, BLOCK - len(block))
                waiting, size = stream.unconsumed_tail, size - len(part)
                block += part
                if len(block) == BLOCK:
                    yield block, BLOCK
                    block = bytearray()
                elif not part:
                    break
        block += stream.flush()
    except zlib.error:
        raise Damaged("it can't be unpacked") from None
    if block:
        yield block, len(block)


def _bytes_of(storage: Storage) -> int:
    return storage.numel * ITEM_SIZE.get(storage.dtype, 0)


def _check_extent(one: Named, length: int, problem: Callable[[str, list[Named]], None]) -> None:
    """Does the tensor lie inside of its storage?"""
    width, tensor = one.width, one.tensor
    if width is None or not one.extent:
        return
    end = (tensor.offset + one.extent) * width
    if end > length:
        problem(f"it ends at byte {end:,} of a storage with {length:,}", [one])


def _text(name: bytes) -> str:
    return clean(name.decode("utf-8", "replace"), 120)
