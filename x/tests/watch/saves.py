"""Real checkpoints, written by torch, for the watch tests."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

RUN = "run-2025-03-14_09-00-00"


def body(stage: str = "pretrain", save_count: int = 1, **more: Any) -> dict[str, Any]:
    """What a trainer saves: a tiny model, its optimizer, and the progress."""
    model, optimizer = _trained()
    content: dict[str, Any] = {
        "model_state_dict": model,
        "optimizer_state_dict": optimizer,
        "model_cfg": {"width": 4},
        "stage": stage,
        "save_count": save_count,
        "epoch": 1,
        "epochs": 3,
        "epoch_complete": False,
        "remaining_hours": 5.0,
        "ce_loss": 2.0,
    }
    content.update(more)
    return content


def as_bytes(**content: Any) -> bytes:
    import torch

    buffer = io.BytesIO()
    torch.save(body(**content), buffer)
    return buffer.getvalue()


def name(save_count: int, stage: str = "pretrain", clock: str = "09-30-00") -> str:
    return f"{stage}-{clock}-{save_count:04d}.pt"


def save(run: Path, save_count: int, *, stage: str = "pretrain", inside: str | None = None, **content: Any) -> Path:
    """Save into `run`; `mtime` (unix seconds) sets the file time, `named` the name."""
    mtime, named = content.pop("mtime", None), content.pop("named", None)
    run.mkdir(parents=True, exist_ok=True)
    path = run / (named or name(save_count, stage))
    path.write_bytes(as_bytes(stage=inside or stage, save_count=save_count, **content))
    if mtime is not None:
        os.utime(path, (mtime, mtime))
    return path


def state(consumed: int, epoch: int = 0) -> dict[str, Any]:
    """One rank's data position as lancedb's StreamingDataset gives it, 4 splits in equal measure."""
    return {
        "shuffle_seed": 0,
        "num_splits": 4,
        "epoch": epoch,
        "samples_consumed_per_split": [consumed] * 4,
        "positions_consumed_per_split": [consumed] * 4,
    }


@lru_cache(maxsize=1)
def _trained() -> tuple[Any, Any]:
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model(torch.randn(2, 4)).sum().backward()
    optimizer.step()
    return model.state_dict(), optimizer.state_dict()
