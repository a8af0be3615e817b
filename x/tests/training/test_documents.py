"""The documents that describe resuming, taken at their word: their code runs as it is written there.

Only the import is another one, and the variables that the documents take for granted are there.
"""

from __future__ import annotations

import os
import textwrap
from pathlib import Path
from typing import Any

import lancedb
import pytest
import torch
from lancedb.streaming import StreamingDataset

from lavender_tui.training import CheckpointManager, beginning, resume_from_checkpoint

GUIDE = """
from lavender_tui.training import resume_from_checkpoint

RESUME_FROM = "checkpoints/run-2026-04-24_18-53-41/pretrain-00-56-03-0060.pt"

# 1. Pull the saved weights + optimizer state + meta off disk.
model_state, opt_state, meta = resume_from_checkpoint(
    RESUME_FROM, device=str(device),
)
model.load_state_dict(model_state)

# 2. Build the optimizer the same way cell 13 does it, then patch in
#    the saved state. Order matters: optimizer construction must come
#    before load_state_dict because Adam allocates state on first
#    .step().
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01)
if opt_state is not None:
    optimizer.load_state_dict(opt_state)

# 3. Seed the cosine scheduler. Only completed epochs should advance
#    it; mid-epoch periodic checkpoints replay the current epoch from
#    batch 0 because DataLoader iterator state is not saved.
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=PRETRAIN_EPOCHS)
completed_epoch = int(meta.get("epoch") or 0)
start_epoch = completed_epoch + 1 if meta.get("epoch_complete") else max(1, completed_epoch)
for _ in range(max(0, start_epoch - 1)):
    scheduler.step()

# 4. Wire the optimizer into the new ckpt_mgr so subsequent
#    saves carry the right state.
ckpt_mgr.set_optimizer(optimizer)

print(f"resumed from {meta['checkpoint_path']}")
print(f"  stage      : {meta.get('stage')}")
print(f"  epoch      : {meta.get('epoch')} / {meta.get('epochs')}")
print(f"  ce_loss    : {meta.get('ce_loss')}")
print(f"  complete   : {meta.get('epoch_complete')}")
print(f"  save_count : {meta.get('save_count')}")
"""

GUIDE_NEWEST = """
model_state, opt_state, meta = resume_from_checkpoint(stage="pretrain")
"""

GUIDE_SKIP = """
RESUMED_EPOCH = resume_meta.get("epoch", 0)
for epoch in range(RESUMED_EPOCH + 1, PRETRAIN_EPOCHS + 1):
    ce, aux = pretrain_epoch(...)
    ...
"""

SAME_TOPOLOGY = """
import torch
from lancedb.streaming import StreamingDataset

checkpoint = torch.load("checkpoint_100.pt")
model.load_state_dict(checkpoint["model"])

dataset_state = checkpoint["dataset"]
dataset = StreamingDataset(
    table,
    num_splits=dataset_state["num_splits"],
    shuffle_seed=dataset_state["shuffle_seed"],
    epoch=dataset_state["epoch"],
    rank=rank,
    world_size=world_size,  # same as the run that saved the checkpoint
)
dataset.load_state_dict(dataset_state)

# The combined batch size across every rank, the same value used when the
# checkpoint was saved; each rank's DataLoader gets its world_size share of it.
global_batch_size = 48
dataloader = torch.utils.data.DataLoader(
    dataset,
    batch_size=global_batch_size // world_size,
    num_workers=0,
)

for batch in dataloader:
    train_step(batch)
"""

EACH_RANK = """
# On each rank of the previous run:
state = dataset.state_dict()
# ...gather `state` from every rank into a single list `states` (for example
# via torch.distributed all-gather or by saving one file per rank).
"""

OTHER_TOPOLOGY = """
merged = StreamingDataset.merge_state_dicts(states)

# On each rank of the resumed run (world_size may differ):
dataset = StreamingDataset(
    table,
    num_splits=merged["num_splits"],
    shuffle_seed=merged["shuffle_seed"],
    epoch=merged["epoch"],
    rank=rank,
    world_size=new_world_size,
)
dataset.load_state_dict(merged)
"""


def ten_lines() -> str:
    """The example in the package's own docstring, as it is printed there."""
    import lavender_tui.training

    text = lavender_tui.training.__doc__ or ""
    return textwrap.dedent(text.partition("::\n\n")[2].partition("\n\n")[0])


@pytest.mark.parametrize("again", [False, True])
def test_the_packages_own_example(uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[int] = []
    for first in (None, "checkpoints") if again else (None,):
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)

        def train_step(batch: Any) -> float:
            optimizer.step()  # noqa: B023
            seen.extend(batch["x"].tolist())
            return 1.0

        run(
            ten_lines(),
            beginning=lambda resume=first: beginning(resume),
            CheckpointManager=CheckpointManager,
            model=model,
            optimizer=optimizer,
            scheduler=scheduler,
            config={},
            EPOCHS=2 if first else 1,
            train_step=train_step,
        )
    # 192 of 200 rows fit into whole steps of 48; the last one takes the 8 that are left
    assert sorted(seen) == sorted(list(range(200)) * (2 if again else 1))


def run(code: str, **variables: Any) -> dict[str, Any]:
    names = dict(variables)
    exec(compile(textwrap.dedent(code), "document", "exec"), names)
    return names


class Trained:
    """A run as the guide has it: `run-2026-04-24_18-53-41`, saved for the 60th time in the middle of epoch 2."""

    def __init__(self, run_dir: Path) -> None:
        torch.manual_seed(1)
        self.model = torch.nn.Linear(3, 3)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, weight_decay=0.01)
        self.model(torch.ones(3)).sum().backward()
        self.optimizer.step()
        run_dir.mkdir(parents=True)
        self.path = run_dir / "pretrain-00-56-03-0060.pt"
        self._save(run_dir / "pretrain-00-26-01-0059.pt", 59)
        self._save(self.path, 60)
        (run_dir / "pretrain-01-26-05-0061.pt").write_bytes(self.path.read_bytes()[:-500])  # cut off
        (run_dir / "tokenizer.json").write_text("{}")

    def _save(self, path: Path, save_count: int) -> None:
        torch.save(
            {
                "model_state_dict": self.model.state_dict(),
                "optimizer_state_dict": self.optimizer.state_dict(),
                "model_cfg": {"dim": 3},
                "stage": "pretrain",
                "save_count": save_count,
                "epoch": 2,
                "epochs": 3,
                "ce_loss": 2.4127,
                "remaining_hours": 31.0,
            },
            path,
        )


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trained:
    monkeypatch.chdir(tmp_path)
    return Trained(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # the document's own order
def test_the_guide_step_by_step(trained: Trained, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in trained.path.parent.iterdir()}
    model = torch.nn.Linear(3, 3)
    manager = CheckpointManager(model=model)
    names = run(GUIDE, torch=torch, device=torch.device("cpu"), model=model, PRETRAIN_EPOCHS=3, ckpt_mgr=manager)
    assert all(torch.equal(model.state_dict()[key], value) for key, value in trained.model.state_dict().items())
    assert names["optimizer"].state_dict()["state"][0]["step"] == 1
    assert names["start_epoch"] == 2  # no epoch_complete: the epoch again
    assert names["scheduler"].last_epoch == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"resumed from {trained.path}"
    assert printed[2:] == ["  epoch      : 2 / 3", "  ce_loss    : 2.4127", "  complete   : None", "  save_count : 60"]
    saved = manager.maybe_save("pretrain", epoch=2, epochs=3, ce_loss=2.4)
    assert saved is None  # every 30 minutes
    path = manager.save("pretrain", epoch=2, epochs=3, ce_loss=2.4)
    manager.close()
    # The new run writes to its own folder; the old one is left untouched.
    assert os.path.dirname(path) != str(trained.path.parent)
    assert {path: path.read_bytes() for path in trained.path.parent.iterdir()} == before
    assert "optimizer_state_dict" in torch.load(path, weights_only=True)


def test_the_guides_newest_of_a_stage(trained: Trained, caplog: pytest.LogCaptureFixture) -> None:
    names = run(GUIDE_NEWEST, resume_from_checkpoint=resume_from_checkpoint)
    assert names["meta"]["checkpoint_path"] == str(trained.path)
    assert "0061.pt: passed over" in caplog.text


def test_the_guides_way_to_skip_ahead(trained: Trained) -> None:
    _, _, meta = resume_from_checkpoint(trained.path.parent)
    names = run(GUIDE_SKIP, resume_meta=meta, PRETRAIN_EPOCHS=3, pretrain_epoch=lambda _: (0.0, 0.0))
    assert names["epoch"] == 3


def read_some(table: Any, rank: int, world_size: int, rows: int) -> tuple[StreamingDataset, list[int]]:
    dataset = StreamingDataset(table, num_splits=4, shuffle_seed=5, epoch=2, rank=rank, world_size=world_size)
    return dataset, [row["x"] for _, row in zip(range(rows), iter(dataset), strict=False)]


def test_resuming_on_the_same_topology(table: Any, model: torch.nn.Module, tmp_path: Path, monkeypatch: Any) -> None:
    dataset, read = read_some(table, 0, 1, 80)
    monkeypatch.chdir(tmp_path)
    torch.save({"model": model.state_dict(), "dataset": dataset.state_dict()}, "checkpoint_100.pt")
    rest: list[int] = []
    run(
        SAME_TOPOLOGY, table=table, model=model, rank=0, world_size=1, train_step=lambda b: rest.extend(b["x"].tolist())
    )
    assert sorted(read + rest) == list(range(200))


def test_the_managers_file_fits_the_same_topology_example(
    table: Any, model: torch.nn.Module, root: str, tmp_path: Path, monkeypatch: Any
) -> None:
    dataset, read = read_some(table, 0, 1, 80)
    manager = CheckpointManager(root, model=model)
    manager.set_dataset(dataset, batch_size=8)
    model_state, _, meta = resume_from_checkpoint(manager.save("pretrain", epoch=3, epochs=3, global_step=10))
    manager.close()
    monkeypatch.chdir(tmp_path)
    torch.save({"model": model_state, "dataset": meta["dataset"][0]}, "checkpoint_100.pt")
    rest: list[int] = []
    run(
        SAME_TOPOLOGY, table=table, model=model, rank=0, world_size=1, train_step=lambda b: rest.extend(b["x"].tolist())
    )
    assert sorted(read + rest) == list(range(200))


@pytest.mark.parametrize("new_world_size", [1, 2, 4])
def test_resuming_across_topologies(uri: str, new_world_size: int) -> None:
    table = lancedb.connect(uri).open_table("corpus")
    states, read = [], []
    for rank in range(2):
        dataset, rows = read_some(table, rank, 2, 40)
        read += rows
        states.append(run(EACH_RANK, dataset=dataset)["state"])
    for rank in range(new_world_size):
        names = run(
            OTHER_TOPOLOGY,
            StreamingDataset=StreamingDataset,
            states=states,
            table=table,
            rank=rank,
            new_world_size=new_world_size,
        )
        assert names["dataset"].state_dict() == names["merged"]
        read += [row["x"] for row in names["dataset"]]
    assert sorted(read) == list(range(200))
