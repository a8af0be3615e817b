"""Real tables, real models, and trainings in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest
import torch

HERE = Path(__file__).parent
ROWS = 200


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """A database with the table "corpus": x = 0 … 199."""
    path = str(tmp_path / "data")
    lancedb.connect(path).create_table("corpus", pa.table({"x": list(range(ROWS))}))
    return path


@pytest.fixture
def table(uri: str) -> Any:
    return lancedb.connect(uri).open_table("corpus")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints")


@pytest.fixture
def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(1, 1)


@pytest.fixture
def manage(root: str, model: torch.nn.Module) -> Iterator[Callable[..., Any]]:
    """Makes managers; closes what a test leaves open, so that hooks and handlers don't outlive it."""
    from lavender_tui.training import CheckpointManager

    made: list[CheckpointManager] = []

    def make(**options: Any) -> CheckpointManager:
        made.append(CheckpointManager(options.pop("root", root), model=options.pop("model", model), **options))
        return made[-1]

    yield make
    for manager in reversed(made):
        manager.close()


@pytest.fixture
def torchrun(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """`torchrun(ranks, "script.py", **options)`: the script of this folder gets the options as one JSON argument."""

    def start(ranks: int, script: str, **options: Any) -> subprocess.Popen[str]:
        runner = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        options = {"out": str(tmp_path), **options}
        return subprocess.Popen(
            [sys.executable, *runner, str(HERE / script), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    return start


@pytest.fixture
def results(tmp_path: Path) -> Callable[[subprocess.Popen[str], int], list[dict[str, Any]]]:
    """What every rank of an ended torchrun wrote to `rank<r>.json`."""

    def read(process: subprocess.Popen[str], ranks: int) -> list[dict[str, Any]]:
        output, _ = process.communicate(timeout=120)
        files = [tmp_path / f"rank{rank}.json" for rank in range(ranks)]
        assert all(file.exists() for file in files), output
        return [json.loads(file.read_text()) for file in files]

    return read
