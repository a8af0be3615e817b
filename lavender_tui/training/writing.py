"""One checkpoint file: its name, and how it appears whole or not at all."""

from __future__ import annotations

import os
import re
import time
from typing import Any

from lavender_tui.errors import LavenderError, UsageError
from lavender_tui.model.checkpoint import parse_name
from lavender_tui.training.plain import as_plain

# The stage becomes part of a file name that is read back from the right.
_STAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
OURS = frozenset({
    "model_state_dict", "optimizer_state_dict", "scheduler_state_dict", "model_cfg", "save_count", "world_size",
    "versions", "rng", "batch", "dataset", "data", "data_warnings", "progress", "stopped_by",
})  # fmt: skip


def check_stage(stage: str) -> str:
    """The stage itself. Raises UsageError for one that can't stand in a file name."""
    if not isinstance(stage, str) or not _STAGE.fullmatch(stage):
        raise UsageError(
            f"{stage!r} can't be a stage",
            hint="Use a word such as pretrain, sft, dpo or final: letters, digits, - _ . +",
        )
    return stage


def file_name(stage: str, save_count: int, now: float | None = None) -> str:
    """`<stage>-HH-MM-SS-NNNN.pt`: local time, and the save_count with at least four digits."""
    return f"{stage}-{time.strftime('%H-%M-%S', time.localtime(now))}-{save_count:04d}.pt"


def last_save_count(run_dir: str) -> int:
    """The highest save_count among the names in a run's directory, 0 where there is none.

    Above 0 only where the launcher started the same run again in the same directory.
    """
    return max((parse_name(name)[1] or 0 for name in os.listdir(run_dir)), default=0)


def write_checkpoint(path: str, payload: dict[str, Any]) -> None:
    """`torch.save` at `path`, whole or not at all: a hidden temporary file beside it, fsync, rename, fsync.

    Raises LavenderError where the disk refuses or something can't be pickled; nothing half written stays behind.
    """
    import torch

    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                torch.save(payload, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, path)
        except BaseException:
            if os.path.lexists(temporary):
                os.unlink(temporary)
            raise
        _sync(directory)
    except Exception as error:  # OSError; RuntimeError from torch's writer on a full disk; pickle's many kinds
        raise LavenderError(
            f"the checkpoint could not be written ({type(error).__name__}: {error})",
            where=path,
            hint="The training goes on; make room, or look at what was given to be saved",
        ) from error


def _sync(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError:
        return  # some network file systems can't sync a directory; the file itself is synced
    finally:
        os.close(descriptor)


def check_names(extra: dict[str, Any]) -> None:
    """Raises UsageError where a value of the script has the name of one of ours."""
    if not OURS.isdisjoint(extra):
        taken = ", ".join(sorted(OURS & extra.keys()))
        raise UsageError(f"{taken}: the checkpoint has this already", hint="Give your own value another name")


def plain_fields(stage: str, fields: dict[str, Any], last_loss: Any) -> dict[str, Any]:
    """The values that a checkpoint is told, those that are None left out; the last logged loss where none is told."""
    plain = {key: as_plain(value) for key, value in fields.items() if value is not None}
    if last_loss is not None and f"{stage}_loss" not in plain and "ce_loss" not in plain:
        plain[f"{stage}_loss"] = as_plain(last_loss)
    return plain


def is_the_last(saved: dict[str, Any]) -> bool:
    """Is a save with these values the training's last: of its final stage, or of its last epoch, complete?"""
    over = saved.get("epoch_complete") and saved.get("epoch") is not None and saved.get("epoch") == saved.get("epochs")
    return saved.get("stage") == "final" or bool(over)
