"""Real trainings of the demo's model, one after the other in one process: a first one, and some resumed from it.

    python -m tests.watch.resumed_trainings DIRECTORY

Each is resumed by the same true plan, which lies in its run directory; what it was really started from is another
thing. `right` is started from the plan itself, `weights` from a model of another seed, `rows` at the beginning of the
epoch, `epoch` at the next epoch.
"""

from __future__ import annotations

import argparse
import glob
import json
import os
import shutil
import sys
from dataclasses import replace

import torch
import torch.distributed as dist

from lavender_tui.demo.corpus import make_corpus
from lavender_tui.demo.model import MoELanguageModel
from lavender_tui.demo.train import join_the_ranks, train
from lavender_tui.model.plan import Batch, Launch, Policy, ResumePlan, Source, Start

ROWS = 1536  # 48 steps of an epoch
FROM_STEP = 36
SHAPE = {"width": 16, "layers": 1, "experts": 2}


def train_once(directory: str, **more: object) -> None:
    defaults = {
        "data": f"{directory}/data", "root": f"{directory}/checkpoints", "resume": None, "epochs": 2,
        "global_batch": 32, "save_seconds": 1e9, "pause": 0.0, "schedule_steps": 1000, "seed": 0, **SHAPE,
    }  # fmt: skip
    join_the_ranks()
    try:
        train(argparse.Namespace(**{**defaults, **more}))
    finally:
        dist.destroy_process_group()


def checkpoint_at(directory: str, step: int) -> tuple[str, dict[str, object]]:
    for path in glob.glob(f"{directory}/checkpoints/run-*/*.pt"):
        content = torch.load(path, weights_only=True)
        if content["global_step"] == step:
            return path, content
    raise SystemExit(f"no checkpoint of step {step}")


def plan_from(path: str, content: dict[str, object], run_dir: str) -> ResumePlan:
    facts = os.stat(path)
    states = content["dataset"]
    assert isinstance(states, list)
    source = Source(
        run=os.path.dirname(path), checkpoint=path, size=facts.st_size, mtime_ns=facts.st_mtime_ns, stage="pretrain",
        save_count=int(str(content["save_count"])), epoch=1, epochs=2, epoch_complete=False, loss=None,
    )  # fmt: skip
    return ResumePlan(
        source=source,
        world_size_previous=1,
        world_size=1,
        start=Start(policy=Policy.EXACT, epoch=1, scheduler_steps=None, samples_replayed=0),
        dataset=states[0],
        data=dict(content["data"]),  # type: ignore[call-overload]
        batch=Batch(global_size=32, per_rank=32, num_workers=0),
        run_dir=run_dir,
        launch=Launch(backend="local", argv=("train",), cwd="/"),
    )


def with_other_weights(plan: ResumePlan, content: dict[str, object], place: str) -> ResumePlan:
    """The same checkpoint, but for its weights: those of another seed, as nobody trained them."""
    torch.manual_seed(99)
    os.makedirs(place)
    path = os.path.join(place, os.path.basename(plan.source.checkpoint))
    torch.save({**content, "model_state_dict": MoELanguageModel(**SHAPE, top=2, dropout=0.1).state_dict()}, path)
    facts = os.stat(path)
    return replace(plan, source=replace(plan.source, checkpoint=path, size=facts.st_size, mtime_ns=facts.st_mtime_ns))


def resume(directory: str, name: str, true: ResumePlan, used: ResumePlan) -> None:
    """Started from `used`, while what was planned is `true`."""
    run_dir = f"{directory}/checkpoints/{name}"
    os.makedirs(run_dir)
    for path, plan in ((f"{run_dir}/resume.json", true), (f"{directory}/{name}.json", used)):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(replace(plan, run_dir=run_dir).to_json(), file)
    os.environ.update(LAVENDER_RESUME_PLAN=f"{directory}/{name}.json", LAVENDER_RUN_DIR=run_dir, LAVENDER_RUN_ID=name)
    train_once(directory, epochs=1 if used.start.epoch == 1 else 2)


def main(directory: str) -> None:
    torch.set_num_threads(1)
    make_corpus(f"{directory}/data", ROWS)
    train_once(directory, epochs=1, save_seconds=0.0)
    path, content = checkpoint_at(directory, FROM_STEP)
    true = plan_from(path, content, "")
    state = true.dataset
    assert state is not None
    nothing = [0] * state["num_splits"]
    unread = {**state, "samples_consumed_per_split": nothing, "positions_consumed_per_split": nothing}
    resume(directory, "run-2030-01-01_00-00-00", true, true)
    resume(directory, "run-2030-01-01_00-00-01", true, with_other_weights(true, content, f"{directory}/other"))
    resume(directory, "run-2030-01-01_00-00-02", true, replace(true, dataset=unread))
    skipped = replace(true, dataset=None, start=replace(true.start, policy=Policy.SKIP_EPOCH, epoch=2))
    resume(directory, "run-2030-01-01_00-00-03", true, skipped)
    shutil.rmtree(f"{directory}/other")


if __name__ == "__main__":
    main(sys.argv[1])
