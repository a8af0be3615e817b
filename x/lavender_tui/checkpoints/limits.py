"""How much a file may cost to read, and the ways in which reading it ends early."""

from __future__ import annotations

from dataclasses import dataclass

from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import Wholeness

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one reading. A file of 130,000 tensors stays inside them; a bomb of a few kB does not get past them.

    An opcode costs at most some 80 bytes of memory here, so `max_ops` is also the bound on memory (about 250 MB).
    """

    max_ops: int = 3_000_000
    """Opcodes of one pickle. One tensor, read at a stroke, counts as eight."""

    max_memo_index: int = 4_000_000
    """Highest memo index. Real picklers count up from 0 or 1."""

    max_sparse_memo: int = 500_000
    """Memo entries that are out of order (they cost more memory)."""

    max_blob_bytes: int = 16 * MIB
    """One string, byte string or number."""

    max_wide_text_bytes: int = 16 * MIB
    """All longer texts that are not ASCII, together: they may take four times their size in memory."""

    max_marks: int = 10_000
    """Depth of open MARKs."""

    max_globals: int = 10_000
    """Different `module.name` pairs."""

    max_tensors: int = 250_000
    """Tensors in one file."""

    max_pickle_bytes: int = 64 * MIB
    """data.pkl, unpacked; the head of a file without directory."""

    max_directory_bytes: int = 64 * MIB
    """The archive's central directory (about 60 bytes a tensor)."""

    deadline_seconds: float = 5.0
    """Wall time of one pickle, looked at every few milliseconds."""

    max_nodes: int = 1_000_000
    """Objects that one conversion to plain data may make."""

    max_numbers: int = 8_000_000
    """Whole numbers in all lists of all rank states of one file, counted wherever a list is referred to."""


class OverLimit(UnreadableFile):
    """The file would cost more than a limit allows."""

    wholeness = Wholeness.REFUSED


class CutShort(UnreadableFile):
    """The bytes end before the content does: a file that is cut, or still being written."""

    wholeness = Wholeness.CUT


class Damaged(UnreadableFile):
    """The bytes are there, but they contradict each other."""

    wholeness = Wholeness.DAMAGED


class Foreign(UnreadableFile):
    """The file is something else than a checkpoint; `kind` names what ("safetensors", "git-lfs", …)."""

    wholeness = Wholeness.FOREIGN

    def __init__(self, what: str, *, kind: str = "unknown") -> None:
        super().__init__(what)
        self.kind = kind
