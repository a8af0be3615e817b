"""A training of any kind under torchrun: it logs what it reads, step by step, and saves all the time.

python script.py --data data --root checkpoints --kind packed --num-workers 2
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings

import torch
import torch.distributed as dist

sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))))

from lavender_tui.training import CheckpointManager, beginning
from tests.end_to_end.modes.kinds import CHEAP, KINDS, SEED, SPLITS, TABLE

warnings.filterwarnings("ignore")


def train(options: argparse.Namespace) -> None:
    kind = next(one for one in KINDS if one.title == options.kind)
    many = max(1, options.num_workers)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    begin = beginning()
    begin.restore(model, optimizer)
    manager = CheckpointManager(options.root, model=model, begin=begin, every_seconds=options.save_seconds)
    manager.set_optimizer(optimizer)
    table = begin.open_table(options.data, TABLE)
    step = begin.global_step
    with manager, open(os.path.join(manager.run_dir, f"rows.rank{dist.get_rank()}.jsonl"), "a", buffering=1) as noted:
        for epoch in begin.epochs(1):
            reading = {**CHEAP, **kind.reading}
            dataset = begin.streaming_dataset(table, epoch, num_splits=SPLITS, shuffle_seed=SEED, **reading)
            loader = manager.loader(
                dataset, 16 // many, num_workers=options.num_workers, accumulate=many, collate_fn=list
            )
            names: list[str] = []
            for number, rows in enumerate(loader, 1):
                names += [kind.name(row) for row in rows]
                if number % many:
                    continue
                dist.barrier()
                step += 1
                noted.write(json.dumps({"epoch": epoch, "step": step, "ids": names}) + "\n")
                names = []
                manager.log(step=step, loss=1.0 / step)
                manager.maybe_save("pretrain", epoch=epoch, epochs=1)
                time.sleep(options.pause)
            manager.save("pretrain", epoch=epoch, epochs=1, epoch_complete=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--root", required=True)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--save-seconds", type=float, default=0.4)
    parser.add_argument("--pause", type=float, default=0.1)
    options = parser.parse_args()
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    train(options)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
