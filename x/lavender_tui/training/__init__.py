"""What a training script imports: save so that a run can go on elsewhere, and go on from what was saved.

A whole training, started fresh or resumed on any number of ranks by the same lines::

    begin = beginning()  # the launcher's plan if there is one, else from scratch
    begin.restore(model, optimizer, scheduler)
    table = begin.open_table("data", "corpus")  # at the version that the old run read
    manager = CheckpointManager("checkpoints", model=model, model_cfg=config, begin=begin)
    manager.set_optimizer(optimizer)
    manager.set_scheduler(scheduler)
    step = begin.global_step
    for epoch in begin.epochs(EPOCHS):  # 1-based, from where the old run stopped
        dataset = begin.streaming_dataset(table, epoch, num_splits=8, shuffle_seed=7)
        for batch in manager.loader(dataset, batch_size=48):  # 48 rows over all ranks together
            loss = train_step(batch)
            step += 1
            manager.log(step=step, loss=loss, lr=scheduler.get_last_lr()[0])
            manager.maybe_save("pretrain", epoch=epoch, epochs=EPOCHS, pretrain_loss=loss)
        scheduler.step()
        manager.save("pretrain", epoch=epoch, epochs=EPOCHS, epoch_complete=True, pretrain_loss=loss)
    manager.close()

Under torchrun every rank runs the same lines; call `torch.distributed.init_process_group` before them. Nothing here
imports torch or lancedb before it is used.

Where the state is taken: `maybe_save` and `save` belong AFTER the optimizer's step of the batch just read. The
dataset's state already counts that batch; saved before the step, the batch would be lost to the weights.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lavender_tui.training.loading import resume_from_checkpoint
    from lavender_tui.training.manager import CheckpointManager
    from lavender_tui.training.resuming import Beginning, beginning, resume_plan
    from lavender_tui.training.starting import StartingPoint, starting_point

__all__ = [
    "Beginning",
    "CheckpointManager",
    "StartingPoint",
    "beginning",
    "resume_from_checkpoint",
    "resume_plan",
    "starting_point",
]

_WHERE = {
    "Beginning": "resuming",
    "CheckpointManager": "manager",
    "StartingPoint": "starting",
    "beginning": "resuming",
    "resume_from_checkpoint": "loading",
    "resume_plan": "resuming",
    "starting_point": "starting",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
