"""Small real records for tests of the pure rules."""

from __future__ import annotations

from typing import Any

from lavender_tui.model.checkpoint import Checkpoint, FileFacts, RankStatesSummary
from lavender_tui.model.run import Run, RunState


def checkpoint(count: int | None = 1, **fields: Any) -> Checkpoint:
    facts = FileFacts(dev=1, inode=count or 0, size_bytes=1000, mtime_ns=10**18 + (count or 0), ctime_ns=0)
    base: dict[str, Any] = {
        "path": f"/runs/run-2026-04-24_18-53-41/pretrain-10-00-00-{count or 0:04d}.pt",
        "format": "lavender",
        "facts": facts,
        "stage": "pretrain",
        "name_stage": "pretrain",
        "save_count": count,
        "name_save_count": count,
        "epoch": 1,
        "epochs": 3,
        "has_model": True,
        "loss": 2.5,
    }
    return Checkpoint(**{**base, **fields})


def run(name: str = "run-2026-04-24_18-53-41", *checkpoints: Checkpoint, **fields: Any) -> Run:
    base: dict[str, Any] = {
        "path": f"/runs/{name}",
        "root": "/runs",
        "name": name,
        "format": "lavender",
        "state": RunState.IDLE,
        "state_reason": "",
        "checkpoints": checkpoints,
        "newest": checkpoints[-1] if checkpoints else None,
    }
    return Run(**{**base, **fields})


ALL_RANKS = RankStatesSummary(found=2, expected=2, complete=True, num_splits=8)
