"""What looking through a whole file finds."""

from __future__ import annotations

from dataclasses import dataclass

from lavender_tui.errors import LavenderError

# Tensors that hold infinities on purpose: masks of attention, and the ranges of observers that saw nothing yet.
_MEANT = ("mask", "min_val", "max_val")


class Cancelled(LavenderError):
    """The look was ended before it came to an end; nothing is known from it."""

    def __init__(self) -> None:
        super().__init__("looking through the checkpoint was cancelled")


@dataclass(frozen=True, slots=True)
class Problem:
    """Bytes that aren't what they should be. `tensor` names what they belong to, "" where it is no tensor."""

    what: str
    tensor: str = ""


@dataclass(frozen=True, slots=True)
class NonFinite:
    """A tensor with numbers that are none. `part`: "model", "optimizer" or "other"."""

    name: str
    part: str
    dtype: str
    nans: int
    infinities: int
    elements: int

    @property
    def is_meant(self) -> bool:
        """Infinities of a tensor whose name says that it holds some on purpose."""
        last = self.name.rpartition(".")[2]
        return self.nans == 0 and any(word in last for word in _MEANT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Integrity:
    """`problems` and `non_finite` are None where that wasn't looked at, () where all is well.

    `has_sums`: the file has checksums. Without them (torch's older container, or a torch that was told to leave them
    out) only sizes could be compared. `bytes_read` is 0 where the answer was remembered.
    """

    container: str
    has_sums: bool = False
    problems: tuple[Problem, ...] | None = None
    non_finite: tuple[NonFinite, ...] | None = None
    bytes_read: int = 0

    @property
    def is_sound(self) -> bool:
        """No byte is known to be wrong."""
        return not self.problems
