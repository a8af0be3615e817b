"""A training of somebody's own, that nobody of us starts: it uses CheckpointManager and nothing else.

by_hand.py ROOT [--deaf]
"""

from __future__ import annotations

import signal
import sys
import time

import torch

from lavender_tui.training import CheckpointManager, beginning


def main() -> None:
    root = sys.argv[1]
    begin = beginning()
    manager = CheckpointManager(root, model=torch.nn.Linear(2, 2), model_cfg={}, begin=begin)
    if "--deaf" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for step in range(1, 100_000):
        manager.log(step=step, loss=1.0 / step)
        manager.maybe_save("pretrain", epoch=1, epochs=3, pretrain_loss=1.0 / step)
        time.sleep(0.05)
    manager.close()


if __name__ == "__main__":
    main()
