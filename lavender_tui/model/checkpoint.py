"""A checkpoint as it was found on disk: what it holds, whether it is whole, where it stands in its run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# ASCII digits only: \d also matches other scripts' digits, int() of which is not what the writer meant.
CHECKPOINT_NAME = re.compile(r"(?P<stage>.+)-(?P<clock>[0-9]{2}-[0-9]{2}-[0-9]{2})-(?P<save_count>[0-9]{4,18})\.pt")
STAGES = ("pretrain", "sft", "dpo", "final")


class Wholeness(StrEnum):
    """Is the file all there? Only `whole` may be resumed from."""

    WHOLE = "whole"
    WRITING = "being written"
    CUT = "cut off"
    DAMAGED = "damaged"
    FOREIGN = "not a checkpoint"
    REFUSED = "over a limit"
    UNREADABLE = "unreadable"
    UNREAD = "not read yet"  # listed by its name; its content follows in a later snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """What stat says; two equal FileFacts mean the same content."""

    dev: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, info: os.stat_result) -> FileFacts:
        return cls(
            dev=info.st_dev,
            inode=info.st_ino,
            size_bytes=info.st_size,
            mtime_ns=info.st_mtime_ns,
            ctime_ns=info.st_ctime_ns,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStatesSummary:
    """Rank states seen with a checkpoint. `problems` are sentences that name rank and file."""

    found: int = 0
    expected: int | None = None
    complete: bool = False
    merged: bool = False
    num_splits: int | None = None
    dataset_epoch: int | None = None
    mode: str | None = None  # "row" or "packed"
    consumed: int | None = None  # samples over all splits, by the owners' own counts
    least: int | None = None  # smallest and largest own count of any split
    most: int | None = None
    files: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One saved checkpoint. Values come from the content; `name_*` from the file's name.

    `epoch` is 1-based, as the trainer counts; None where the file holds no whole number.
    `loss` is a finite float or None; `loss_text` says what was there instead ("nan", "inf", …).
    `parameters` counts the elements of the model's tensors, `tensors` all tensors of the file.
    """

    path: str
    format: str
    facts: FileFacts
    wholeness: Wholeness = Wholeness.WHOLE
    reason: str | None = None  # why it isn't usable, one sentence
    stage: str | None = None
    name_stage: str | None = None
    name_save_count: int | None = None
    save_count: int | None = None
    epoch: int | None = None
    epochs: int | None = None
    epoch_complete: bool | None = None
    step: int | None = None
    loss: float | None = None
    loss_text: str | None = None
    loss_key: str | None = None
    lr: float | None = None
    remaining_hours: float | None = None
    world_size: int | None = None
    global_batch: int | None = None
    num_workers: int | None = None
    tensors: int = 0
    parameters: int = 0
    has_model: bool = False
    has_optimizer: bool = False
    has_scheduler: bool = False
    has_rng: bool = False
    rank_states: RankStatesSummary = field(default_factory=RankStatesSummary)
    data: dict[str, Any] | None = None
    versions: dict[str, Any] | None = None
    keys: dict[str, Any] = field(default_factory=dict)  # the tree, for people: key -> text or sub-tree
    refused_globals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.wholeness is Wholeness.WHOLE

    @property
    def name_disagrees(self) -> bool:
        """The name says another stage than the content: shown with both, never a default."""
        return self.stage is not None and self.name_stage is not None and self.stage != self.name_stage

    @property
    def loss_is_no_number(self) -> bool:
        """The loss was NaN or infinite; other values that can't be read as a loss say nothing of the training."""
        return self.loss is None and (self.loss_text or "").lstrip("+-") in ("nan", "inf")

    @property
    def is_usable(self) -> bool:
        """May be resumed from: whole, and holding a model."""
        return self.is_whole and self.has_model

    @property
    def order(self) -> tuple[int, int]:
        """Sorts checkpoints of ONE run: by save_count (content first, then name), else by step."""
        count = self.save_count if self.save_count is not None else self.name_save_count
        return (count if count is not None else -1, self.step if self.step is not None else -1)


def parse_name(name: str) -> tuple[str | None, int | None]:
    """(stage, save_count) from `<stage>-HH-MM-SS-NNNN.pt`, read from the right; (None, None) for other names."""
    match = CHECKPOINT_NAME.fullmatch(name)
    return (match["stage"], int(match["save_count"])) if match else (None, None)
