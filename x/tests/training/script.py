"""A training as people write it, by the ten lines. Options come as one JSON argument; rows go to rows<r>.jsonl."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

from lavender_tui.training import CheckpointManager, beginning


def train(options: dict[str, Any]) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 100)
    begin = beginning(options.get("resume"))
    begin.restore(model, optimizer, scheduler)
    table = begin.open_table(options["uri"], "corpus")
    manager = CheckpointManager(options["root"], model=model, model_cfg={"dim": 1}, begin=begin)
    manager.set_optimizer(optimizer)
    manager.set_scheduler(scheduler)
    step, epochs = begin.global_step, options.get("epochs", 1)
    with open(os.path.join(options["out"], f"rows{dist.get_rank()}.jsonl"), "a", buffering=1) as rows:
        for epoch in begin.epochs(epochs):
            dataset = begin.streaming_dataset(table, epoch, num_splits=8, shuffle_seed=7)
            for batch in manager.loader(dataset, batch_size=16, num_workers=options.get("num_workers", 0)):
                loss = model(batch["x"].float().unsqueeze(1) / 200).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
                step += 1
                rows.write(json.dumps({"epoch": epoch, "step": step, "x": batch["x"].tolist()}) + "\n")
                manager.log(step=step, loss=loss, lr=scheduler.get_last_lr()[0])
                manager.maybe_save("pretrain", epoch=epoch, epochs=epochs, pretrain_loss=loss)
                time.sleep(options.get("pause", 0.0))
            manager.save("pretrain", epoch=epoch, epochs=epochs, epoch_complete=True, pretrain_loss=loss)
    manager.close()


def main() -> None:
    dist.init_process_group("gloo")
    train(json.loads(sys.argv[1]))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
