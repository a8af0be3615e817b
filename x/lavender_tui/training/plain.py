"""Values as plain ones: what a checkpoint holds must load with `weights_only=True`, on any machine, for ever."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from enum import Enum
from typing import Any


def as_plain(value: Any) -> Any:
    """`value` made of None, bool, int, float, str, bytes, list, tuple, dict and torch tensors only.

    numpy's numbers become Python's, its arrays become tensors, a tensor with one element and no shape its number,
    dataclasses and namespaces dicts, paths and everything unknown their text: a class of the script's own could not
    be loaded without importing it, and nothing that a checkpoint names is ever imported.
    """
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, Mapping):
        return {_plain_key(key): as_plain(one) for key, one in value.items()}
    if type(value) is tuple:
        return tuple(as_plain(one) for one in value)
    if isinstance(value, list | tuple | set | frozenset):
        return [as_plain(one) for one in value]
    return _plain_object(value)


def _plain_key(key: Any) -> Any:
    return key if type(key) in (bool, int, float, str) else str(key)


def _plain_object(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        detached = value.detach()
        return detached.item() if detached.dim() == 0 else detached
    if hasattr(value, "dtype") and hasattr(value, "tolist"):  # numpy, without importing it
        return value.tolist() if not getattr(value, "shape", ()) else torch.as_tensor(value)
    if isinstance(value, Enum):
        return as_plain(value.value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return as_plain(dataclasses.asdict(value))
    if isinstance(value, int | float | str):  # subclasses of them
        return next(kind(value) for kind in (int, float, str) if isinstance(value, kind))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value).__name__ in ("Namespace", "SimpleNamespace"):
        return as_plain(vars(value))
    return str(value)
