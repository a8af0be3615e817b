"""Our list of what torch's safe loading refuses, against torch itself."""

from __future__ import annotations

import argparse
import collections
import enum
import pathlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.serialization import get_unsafe_globals_in_checkpoint

from lavender_tui.checkpoints import read_checkpoint


class Colour(enum.Enum):
    RED = 1


CONTENTS: dict[str, Any] = {
    "plain": {"a": [1, 2.5, "x", None, True, b"bytes"], "t": torch.zeros(2)},
    "namespace": argparse.Namespace(a=1),
    "numpy scalar": np.float64(1.5),
    "numpy array": np.zeros(3),
    "path": pathlib.PurePosixPath("/a"),
    "enum": Colour.RED,
    "ordered": collections.OrderedDict(a=1),
    "counter": collections.Counter("ab"),
    "default": collections.defaultdict(list),
    "complex": 1j,
    "set": {1, 2},
    "size and device": [torch.Size([1]), torch.device("cpu")],
    "types": [torch.float32, torch.float8_e4m3fn, torch.int4, torch.bfloat16],
    "tensors": [
        torch.zeros(2, dtype=torch.uint16),
        torch.zeros(2, dtype=torch.float16),
        torch.nn.Parameter(torch.zeros(1)),
    ],
    "sparse": torch.eye(2).to_sparse(),
    "module": torch.nn.Linear(2, 2),
    "function": torch.nn.functional.relu,
    "storage": torch.UntypedStorage(4),
}


@pytest.mark.parametrize("kind", sorted(CONTENTS))
def test_as_torch_says(kind: str, tmp_path: Path) -> None:
    path = str(tmp_path / "x.pt")
    torch.save({"content": CONTENTS[kind]}, path)
    assert set(read_checkpoint(path).refused_globals) == set(get_unsafe_globals_in_checkpoint(path))
