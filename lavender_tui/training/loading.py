"""Finding a checkpoint to go on from, and loading it without executing anything that it names."""

from __future__ import annotations

import logging
import os
import pickle
import re
from collections.abc import Container, Iterator
from contextlib import contextmanager
from typing import Any

from lavender_tui.checkpoints import is_checkpoint_name, read_checkpoint
from lavender_tui.errors import NotFound, UnreadableFile
from lavender_tui.launch import bad_files
from lavender_tui.launch.followers import followers_of
from lavender_tui.launch.record import read_launch
from lavender_tui.model.choosing import in_run
from lavender_tui.model.run import started_at_from_name
from lavender_tui.model.suspects import suspects
from lavender_tui.training.ranks import current_ranks, first_does

LOG = logging.getLogger("lavender_tui.training")
_REFUSED = re.compile(r"(?:GLOBAL|global:?)\s+`?([A-Za-z_][\w.]*\.[\w.]+)")


def resume_from_checkpoint(
    resume_from: str | os.PathLike[str] | None = None,
    *,
    root: str | os.PathLike[str] = "checkpoints",
    stage: str | None = None,
    device: str = "cpu",
) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
    """(model state, optimizer state or None, everything else that the checkpoint holds).

    `resume_from`: a checkpoint file, a run directory (its newest usable checkpoint), a root, or None for the newest
    usable checkpoint over all runs of `root`; of `stage`, where one is named. Newest is the newest run by its start,
    and in it the highest save_count: neither names nor file times decide, links are never chosen. A file that is cut
    off, being written, damaged or known to be bad is passed over with a warning on the logger
    `lavender_tui.training`.

    The third value has `checkpoint_path` too. Tensors are put on `device`. Under torch.distributed rank 0 chooses for
    all ranks. Raises NotFound where there is nothing to resume from, UnreadableFile for a file that can't be loaded
    without executing what it names: nothing but tensors and plain values is ever loaded.
    """
    asked = None if resume_from is None else os.fspath(resume_from)
    path = first_does(current_ranks(), lambda: find_checkpoint(asked, root=os.fspath(root), stage=stage))
    content = load_checkpoint(path, device)
    model_state = content.pop("model_state_dict", None)
    if model_state is None:
        raise UnreadableFile("holds no model weights (model_state_dict)", where=path)
    return model_state, content.pop("optimizer_state_dict", None), {**content, "checkpoint_path": path}


def find_checkpoint(resume_from: str | None, *, root: str, stage: str | None = None) -> str:
    """The absolute path of the checkpoint to resume from; see `resume_from_checkpoint`."""
    place = os.path.abspath(root if resume_from is None else resume_from)
    if os.path.isfile(place):
        return place
    if not os.path.isdir(place):
        raise NotFound("there is no such checkpoint, run or root", where=place, hint="Name one that is there")
    for run_dir in [place] if _checkpoint_files(place) else _runs_newest_first(place):
        chosen = newest_usable(run_dir, stage)
        if chosen is not None:
            return chosen
    of_stage = f" of stage {stage}" if stage else ""
    raise NotFound(f"no usable checkpoint{of_stage} in here", where=place, hint="Start afresh, or name a checkpoint")


def newest_usable(run_dir: str, stage: str | None = None, *, but_not: Container[str] = ()) -> str | None:
    """The newest usable checkpoint of a run, what is passed over said; a known bad one only where there is no other.

    `but_not` are paths that are out of the question.
    """
    found = [read_checkpoint(path) for path in _checkpoint_files(run_dir) if path not in but_not]
    bad = suspects(found, followers_of(run_dir), bad_files.remembered())
    choice = in_run(found, stage, bad=bad)
    for path, why in choice.passed_over:
        LOG.warning("%s: passed over: %s", path, why)
    if choice.checkpoint is None:
        return None
    if choice.checkpoint.path in bad:
        LOG.warning("%s: known to be bad: %s", choice.checkpoint.path, bad[choice.checkpoint.path])
    return choice.checkpoint.path


def _checkpoint_files(run_dir: str) -> list[str]:
    """Regular `.pt` files with a checkpoint's name; links are no default."""
    with os.scandir(run_dir) as entries:
        return [
            entry.path
            for entry in entries
            if entry.name.endswith(".pt") and is_checkpoint_name(entry.name) and entry.is_file(follow_symlinks=False)
        ]


def _runs_newest_first(root: str) -> list[str]:
    with os.scandir(root) as entries:
        runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    runs = [run for run in runs if _checkpoint_files(run)]
    return sorted(runs, key=lambda run: (_started_at(run), run), reverse=True)


def _started_at(run_dir: str) -> float:
    """By the name, else by the launch record, else by the first save."""
    started = started_at_from_name(os.path.basename(run_dir))
    if started is None and (record := read_launch(run_dir)) is not None:
        started = record.started_at
    if started is None:
        started = min(os.stat(path).st_mtime for path in _checkpoint_files(run_dir))
    return started


def load_checkpoint(path: str, device: str = "cpu") -> dict[str, Any]:
    """The whole content, by `torch.load(weights_only=True)`: zip or the older container, tensors and plain values.

    numpy's numbers and arrays are let through too, which other trainers put into the loss; they are values as well.
    Raises UnreadableFile, with the class's name where the file wants one.
    """
    import torch

    try:
        with _numpy_values():
            content = torch.load(path, map_location=device, weights_only=True)
    except FileNotFoundError as error:
        raise NotFound("there is no such file", where=path) from error
    except pickle.UnpicklingError as error:
        raise _refusal(path, error) from error
    except (OSError, RuntimeError, EOFError, ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        reason = read_checkpoint(path).reason or f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
        raise UnreadableFile(reason, where=path, hint="Resume from the checkpoint before it") from error
    if not isinstance(content, dict):
        raise UnreadableFile(f"holds a {type(content).__name__}, not a checkpoint's dict", where=path)
    return content


def _refusal(path: str, error: pickle.UnpicklingError) -> UnreadableFile:
    found = _REFUSED.search(str(error))
    if found is None:
        reason = read_checkpoint(path).reason or str(error).splitlines()[0][:200]
        return UnreadableFile(reason, where=path, hint="Resume from the checkpoint before it")
    return UnreadableFile(
        f"needs the class {found[1]}, which loading would have to import and call; it was not",
        where=path,
        hint="Save plain values (numbers, text, lists, dicts, tensors) in its place, or convert the file where you "
        "trust it",
    )


@contextmanager
def _numpy_values() -> Iterator[None]:
    """What rebuilds numpy's numbers and arrays: constructors of values, under their old and new names."""
    import torch

    try:
        import numpy
        from numpy._core import multiarray  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        yield
        return
    import _codecs

    scalar, rebuild = multiarray.scalar, multiarray._reconstruct
    allowed: list[Any] = [numpy.dtype, numpy.ndarray, scalar, rebuild, _codecs.encode]
    allowed += [(scalar, "numpy.core.multiarray.scalar"), (rebuild, "numpy.core.multiarray._reconstruct")]
    kinds = ("Float16", "Float32", "Float64", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt32", "UInt64", "Bool")
    allowed += [getattr(numpy.dtypes, f"{kind}DType") for kind in kinds]
    with torch.serialization.safe_globals(allowed):
        yield
