"""Small real checkpoints, as a training saves them."""

from __future__ import annotations

import os
import sys
from typing import Any

from lavender_tui.model.plan import Check, Proposal, Verdict
from lavender_tui.resume import Options, Target, propose

SLEEP = (sys.executable, "-c", "import time; time.sleep(30)")
TRAIN = (sys.executable, "-m", "train")


def model() -> tuple[dict[str, Any], dict[str, Any]]:
    import torch

    net = torch.nn.Linear(4, 2)
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return net.state_dict(), optimizer.state_dict()


def save(
    run: str, count: int = 1, dataset: Any = None, *, stage: str = "pretrain", drop: tuple[str, ...] = (), **more: Any
) -> str:
    """Write one checkpoint into the run directory and return its path."""
    import torch

    os.makedirs(run, exist_ok=True)
    weights, moments = model()
    content = {
        "model_state_dict": weights, "optimizer_state_dict": moments, "model_cfg": {}, "stage": stage,
        "save_count": count, "epoch": 1, "epochs": 3, "epoch_complete": False, f"{stage}_loss": 2.0,
        "remaining_hours": 1.0, **({} if dataset is None else {"dataset": dataset}), **more,
    }  # fmt: skip
    for key in drop:
        del content[key]
    path = os.path.join(run, f"{stage}-10-00-00-{count:04d}.pt")
    torch.save(content, path)
    return path


def save_beside(path: str, states: list[Any], pattern: str = "{stem}.rank{rank}.pt") -> list[str]:
    """One file a rank beside the checkpoint."""
    import torch

    paths = []
    for rank, state in enumerate(states):
        name = pattern.format(stem=os.path.splitext(os.path.basename(path))[0], rank=rank, of=len(states))
        paths.append(os.path.join(os.path.dirname(path), name))
        torch.save(state, paths[-1])
    return paths


def row(count: int = 6, splits: int = 4, **more: Any) -> dict[str, Any]:
    counts = {"samples_consumed_per_split": [count] * splits, "positions_consumed_per_split": [count] * splits}
    return {"shuffle_seed": 0, "num_splits": splits, "epoch": 0, **counts, **more}


def proposed(path: str, command: tuple[str, ...] = TRAIN, **options: Any) -> Proposal:
    return propose(Target(paths=(path,)), Options(command=command, **options))


def check(proposal: Proposal, id: str) -> Check:
    return next(one for one in proposal.checks if one.id == id)


def refusals(proposal: Proposal) -> list[str]:
    return [one.id for one in proposal.checks if one.verdict is Verdict.REFUSE]


def warnings(proposal: Proposal) -> list[str]:
    return [one.id for one in proposal.checks if one.verdict is Verdict.WARN]
