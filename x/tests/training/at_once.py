"""Run by torchrun: what ranks must do together, one question after the other. Answers go to rank<r>.json."""

from __future__ import annotations

import json
import os
import resource
import sys
from typing import Any

import lancedb
import torch
import torch.distributed as dist
from lancedb.streaming import StreamingDataset
from torch.distributed.fsdp import fully_shard

from lavender_tui.errors import LavenderError
from lavender_tui.training import CheckpointManager, beginning


def one_directory(root: str, model: torch.nn.Module) -> list[str]:
    """Two managers after each other: each directory is new, and the same on every rank."""
    names = []
    for _ in range(2):
        manager = CheckpointManager(root, model=model)
        names.append(manager.run_dir)
        manager.close()
    return names


def clocks(root: str, model: torch.nn.Module, rank: int) -> dict[str, list[bool]]:
    """Only rank 0's clock counts, whatever the others' say."""
    answers = {}
    for name, first, others in (("first is due", 0.0, 1e9), ("others are due", 1e9, 0.0)):
        manager = CheckpointManager(root, model=model, every_seconds=first if rank == 0 else others)
        answers[name] = [manager.maybe_save("pretrain", epoch=1, epochs=1) is not None for _ in range(3)]
        manager.close()
    return answers


def full_disk(root: str, model: torch.nn.Module, rank: int) -> dict[str, Any]:
    """Rank 0 can't write more than 2 kB: no rank hangs, no half file stays, and the training goes on."""
    manager = CheckpointManager(root, model=model, every_seconds=0.0)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if rank == 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2048, hard))
    tried = manager.maybe_save("pretrain", epoch=1, epochs=1)
    try:
        manager.save("pretrain", epoch=1, epochs=1)
        raised = None
    except LavenderError as error:
        raised = str(error)
    left = sorted(os.listdir(manager.run_dir))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    saved = manager.save("pretrain", epoch=1, epochs=1)
    manager.close()
    return {"tried": tried, "raised": raised, "left": left, "saved": saved}


def uneven_ranks(root: str, model: torch.nn.Module, uri: str, rank: int, world_size: int) -> str:
    """Rank r has read r + 2 rows of each of its splits; each rank guesses about the others' splits."""
    table = lancedb.connect(uri).open_table("corpus")
    dataset = StreamingDataset(table, num_splits=4, shuffle_seed=3, rank=rank, world_size=world_size)
    manager = CheckpointManager(root, model=model)
    manager.set_dataset(dataset, batch_size=8)
    rows = iter(dataset)
    for _ in range((rank + 2) * (4 // world_size)):
        next(rows)
    path = manager.save("pretrain", epoch=1, epochs=1, global_step=9)
    manager.close()
    return path


def sharded(root: str) -> dict[str, list[bool]]:
    """FSDP's parts are gathered into one file, which goes back into parts, and into a whole model, and the reverse."""

    def build(in_parts: bool) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
        if in_parts:
            fully_shard(model[0])
            fully_shard(model)
        return model, torch.optim.AdamW(model.parameters(), lr=1e-2)

    def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.ones(2, 8)).pow(2).mean().backward()
            optimizer.step()

    def whole(model: torch.nn.Module) -> list[torch.Tensor]:
        return [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]

    reference = build(False)
    train(*reference, 5)
    answers = {}
    for before, after in ((True, True), (True, False), (False, True)):
        model, optimizer = build(before)
        train(model, optimizer, 3)
        manager = CheckpointManager(root, model=model)
        manager.set_optimizer(optimizer)
        path = manager.save("pretrain", epoch=1, epochs=1)
        manager.close()
        resumed = build(after)
        beginning(path).restore(*resumed)
        train(*resumed, 2)
        same = [torch.allclose(a, b) for a, b in zip(whole(reference[0]), whole(resumed[0]), strict=True)]
        answers[f"{before} to {after}"] = same
    return answers


def main(options: dict[str, Any]) -> None:
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(40, 40))
    root = os.path.join(options["out"], "checkpoints")
    answers = {
        "rng": torch.get_rng_state().tolist()[:64],
        "directories": one_directory(root, model),
        "clocks": clocks(root, model, rank),
        "full disk": full_disk(root, model, rank),
        "uneven": uneven_ranks(root, model, options["uri"], rank, world_size),
        "sharded": sharded(root),
    }
    with open(os.path.join(options["out"], f"rank{rank}.json"), "w", encoding="utf-8") as file:
        json.dump(answers, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
