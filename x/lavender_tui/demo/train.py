"""The example to copy: a small mixture-of-experts language model that goes on after any kill, on any world_size.

    python -m lavender_tui.demo.corpus data
    torchrun --standalone --nproc-per-node 2 -m lavender_tui.demo.train --data data

The same lines start it fresh and resume it: what was saved comes in through `begin`, what is to be saved goes out
through `manager`. Everything else is an ordinary training.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from datetime import timedelta
from typing import Any, TextIO

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional as F

from lavender_tui.demo.corpus import TABLE_NAME
from lavender_tui.demo.model import LENGTH, MoELanguageModel
from lavender_tui.training import CheckpointManager, beginning


def as_tokens(rows: list[dict[str, Any]]) -> Tensor:
    padded = [row["text"].encode()[:LENGTH].ljust(LENGTH, b"\0") for row in rows]
    return torch.tensor([list(text) for text in padded])


def average_gradients(model: nn.Module) -> None:
    """The mean over all ranks, in one flat tensor with the parameters in their own order.

    DistributedDataParallel regroups its buckets after its first step: over more than two ranks a resumed run would
    then add the same numbers in another order than the one that never stopped, and drift away from it. It would also
    have to be told of experts that nobody asked.
    """
    gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    means = (flat / dist.get_world_size()).split([gradient.numel() for gradient in gradients])
    for parameter, mean in zip(model.parameters(), means, strict=True):
        parameter.grad = mean.view_as(parameter)


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, tokens: Tensor) -> float:
    """One step of all ranks together; returns the mean of their losses."""
    scores = model(tokens[:, :-1])
    loss = F.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0)
    optimizer.zero_grad()
    loss.backward()
    average_gradients(model)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


def note_rows(file: TextIO, epoch: int, step: int, rows: list[dict[str, Any]]) -> None:
    """Write down what this rank has trained on, so that anybody can check afterwards that no row is lost."""
    file.write(json.dumps({"epoch": epoch, "step": step, "ids": [row["id"] for row in rows]}) + "\n")


def train(options: argparse.Namespace) -> None:
    torch.manual_seed(options.seed)  # the same weights on every rank
    config = {"width": options.width, "layers": options.layers, "experts": options.experts, "top": 2, "dropout": 0.1}
    model = MoELanguageModel(**config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=options.schedule_steps)
    torch.manual_seed(options.seed + 1 + dist.get_rank())  # another dropout on every rank

    begin = beginning(options.resume)  # the launcher's plan first, then --resume, else from scratch
    begin.restore(model, optimizer, scheduler)
    table = begin.open_table(options.data, TABLE_NAME)
    manager = CheckpointManager(
        options.root, model=model, model_cfg=config, begin=begin, every_seconds=options.save_seconds
    )
    manager.set_optimizer(optimizer)
    manager.set_scheduler(scheduler)
    step = begin.global_step
    with manager, open(os.path.join(manager.run_dir, f"rows.rank{dist.get_rank()}.jsonl"), "a", buffering=1) as noted:
        for epoch in begin.epochs(options.epochs):
            dataset = begin.streaming_dataset(table, epoch, num_splits=8)
            for rows in manager.loader(dataset, batch_size=options.global_batch, collate_fn=list):
                loss = train_step(model, optimizer, as_tokens(rows))
                scheduler.step()
                step += 1
                note_rows(noted, epoch, step, rows)
                manager.log(step=step, loss=loss, lr=scheduler.get_last_lr()[0])
                if manager.maybe_save("pretrain", epoch=epoch, epochs=options.epochs):
                    print(f"epoch {epoch} step {step} loss {loss:.4f}: saved")
                time.sleep(options.pause)
            manager.save("pretrain", epoch=epoch, epochs=options.epochs, epoch_complete=True)


def join_the_ranks() -> None:
    """Under torchrun join the other ranks; started alone, be the only one."""
    if "RANK" in os.environ:
        dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="the directory of the LanceDB database")
    parser.add_argument("--root", default="checkpoints", help="where the run's directory is made")
    parser.add_argument("--resume", help="a checkpoint, run or root to go on from, without lavender-tui")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--global-batch", type=int, default=32, help="rows a step, over all ranks together")
    parser.add_argument("--save-seconds", type=float, default=5.0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds to wait after a step, to have time to look")
    parser.add_argument("--schedule-steps", type=int, default=1000, help="length of the learning rate's cosine")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--experts", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    join_the_ranks()
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
