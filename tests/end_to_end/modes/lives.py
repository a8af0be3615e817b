"""The lives of one training in this process: each rank a thread, everything else as it is in a real run.

Tables, datasets, loaders with their workers, saves, plans and merges are the real ones. Only what ranks say to each
other goes through a barrier instead of gloo, and a kill is a life that is left where it stands: nothing is closed,
nothing is said at the end.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver, resource_tracker
from typing import Any

import pytest

from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.plan import PLAN_NAME, Policy
from lavender_tui.model.state_rules import difference
from lavender_tui.resume import Child, Options, Prepared, Target, propose, verified
from lavender_tui.resume.proposing import with_launch
from lavender_tui.training import CheckpointManager, beginning, manager, resuming, source
from lavender_tui.training.ranks import Ranks
from tests.end_to_end.modes.kinds import CHEAP, SEED, SPLITS, TABLE, Kind, uninterrupted

COMMAND = ("python", __file__)  # planned, and never started: the threads are the training
PATIENCE = 120.0


class Table:
    """Where the ranks of one life exchange what they have to say."""

    def __init__(self, world_size: int) -> None:
        self.seats: list[Any] = [None] * world_size
        self.barrier = threading.Barrier(world_size, timeout=PATIENCE)


class SeatedRank(Ranks):
    def __init__(self, table: Table, rank: int) -> None:
        self._table, self.rank, self.world_size = table, rank, len(table.seats)

    def _exchange(self, value: Any) -> list[Any]:
        self._table.seats[self.rank] = value
        self._table.barrier.wait()
        values = list(self._table.seats)
        self._table.barrier.wait()
        return values

    def vote(self, wishes: Sequence[bool]) -> list[bool]:
        return [any(votes) for votes in zip(*self._exchange(list(wishes)), strict=True)]

    def share(self, value: Any) -> Any:
        return self._exchange(value)[0]

    def gather(self, value: Any) -> list[Any] | None:
        values = self._exchange(value)
        return values if self.is_first else None


@dataclass(frozen=True, kw_only=True)
class Topology:
    """`step_rows` rows (packed: blocks) make a global step, over all ranks, workers and accumulated batches."""

    world_size: int
    num_workers: int = 0
    step_rows: int = 16

    @property
    def accumulate(self) -> int:
        """Every batch comes from one worker's splits: so many make the step that it is without workers."""
        return max(1, self.num_workers)


@dataclass(frozen=True, kw_only=True)
class Life:
    """What one life read, by global step, and where its saves are."""

    run_dir: str
    steps: dict[int, list[str]]
    saved: tuple[int, ...]


class Training:
    """One training over all its lives, in a directory of its own, of a table that lies there."""

    def __init__(self, directory: str, kind: Kind, child: Child, *, splits: int = SPLITS) -> None:
        self.uri, self.root = os.path.join(directory, "data"), os.path.join(directory, "checkpoints")
        self.kind, self.child, self.splits = kind, child, splits
        self.lives: list[Life] = []

    def live(self, topology: Topology, *, saves: Sequence[int] = (), until: int | None = None) -> Life:
        """Begin, or resume the life before from its newest save; save after the steps `saves`; die after `until`."""
        environment = self._plan(topology) if self.lives else {"LAVENDER_RUN_DIR": new_run_dir(self.root)}
        environment["LAVENDER_RUN_ID"] = "the test's"  # a launcher's: no record of its own, no hooks
        steps: dict[int, list[str]] = {}
        with _ranks_of(topology.world_size, environment, with_workers=topology.num_workers > 0) as run:
            run(lambda: self._train(topology, saves, until, steps))
        self.lives.append(Life(run_dir=environment["LAVENDER_RUN_DIR"], steps=steps, saved=tuple(saves)))
        return self.lives[-1]

    def trained(self) -> dict[int, list[str]]:
        """What counts: of each life the steps up to the save from which the next one went on."""
        found: dict[int, list[str]] = {}
        for number, life in enumerate(self.lives):
            last = life.saved[-1] if number + 1 < len(self.lives) else max(life.steps, default=0)
            for step, names in life.steps.items():
                if step <= last:
                    assert step not in found, f"step {step} was trained twice"
                    found[step] = names
        return found

    def assert_exact(self, topology: Topology) -> None:
        """Every row of the epoch once; and each step the rows that it has without an interruption."""
        ranks = topology.world_size * topology.accumulate if self.kind.ends_with_its_ranks else 1
        expected = uninterrupted(self.uri, self.kind, topology.step_rows, ranks, splits=self.splits)
        trained = self.trained()
        read, wanted = (Counter(one for names in steps for one in names) for steps in (trained.values(), expected))
        assert not read - wanted, f"repeated, or never to be read: {sorted((read - wanted).elements())}"
        assert not wanted - read, f"lost: {sorted((wanted - read).elements())}"
        # Steps hold the same rows where they hold whole cycles over all splits, and no worker ends before the others.
        if topology.step_rows % self.splits == 0 and not (self.kind.ends_with_its_ranks and topology.num_workers > 1):
            assert {step: sorted(names) for step, names in trained.items()} == {
                step: sorted(names) for step, names in enumerate(expected, 1)
            }

    # How

    def _plan(self, topology: Topology) -> dict[str, str]:
        """What a launcher does before it launches; the variables that it gives to the training."""
        options = Options(command=COMMAND, world_size=topology.world_size, num_workers=topology.num_workers)
        ready = verified(propose(Target(paths=(self.lives[-1].run_dir,)), options), self.child)
        assert not ready.is_refused, [check for check in ready.checks if check.verdict == "refuse"]
        assert isinstance(ready, Prepared) and ready.command is not None
        plan = ready.plan
        assert plan is not None and plan.dataset is not None and plan.start.policy is Policy.EXACT
        merged = self.child.merge(ready.states)
        assert merged == plan.dataset, difference(merged, plan.dataset)
        run_dir = new_run_dir(self.root)
        path = os.path.join(run_dir, PLAN_NAME)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.written(with_launch(plan, ready.command, ready.options, run_dir).to_json()), file)
        return {"LAVENDER_RUN_DIR": run_dir, "LAVENDER_RESUME_PLAN": path}

    def written(self, plan: dict[str, Any]) -> dict[str, Any]:
        """The plan as the training finds it; for tests of the judgement itself to spoil."""
        return plan

    def _train(self, topology: Topology, saves: Sequence[int], until: int | None, steps: dict[int, list[str]]) -> None:
        """What every rank does; an ordinary script."""
        import torch

        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        begin = beginning()
        begin.restore(model, optimizer)
        managed = CheckpointManager(self.root, model=model, begin=begin)
        managed.set_optimizer(optimizer)
        table = begin.open_table(self.uri, TABLE)
        step = begin.global_step
        for epoch in begin.epochs(1):
            options = {**CHEAP, **self.kind.reading}
            dataset = begin.streaming_dataset(table, epoch, num_splits=self.splits, shuffle_seed=SEED, **options)
            size, many = topology.step_rows // topology.accumulate, topology.accumulate
            loader = managed.loader(dataset, size, num_workers=topology.num_workers, accumulate=many, collate_fn=list)
            batches = 0
            with _closed(iter(loader)) as iterator:
                for rows in iterator:
                    names = [self.kind.name(row) for row in rows]
                    steps.setdefault(step + 1, []).extend(names)
                    batches += 1
                    if batches % many:
                        continue
                    step += 1
                    managed.log(step=step)
                    if step in saves:
                        managed.save("pretrain", epoch=epoch, epochs=1)
                    if step == until:
                        return


@contextmanager
def _closed(iterator: Any) -> Iterator[Any]:
    """Its workers end with it."""
    try:
        yield iterator
    finally:
        shut_down = getattr(iterator, "_shutdown_workers", None)
        if shut_down is not None:
            shut_down()


@contextmanager
def _ranks_of(
    world_size: int, environment: dict[str, str], *, with_workers: bool
) -> Iterator[Callable[[Callable[[], None]], None]]:
    """`run(work)` does the work as every rank at once, and raises what the first of them raised."""
    seat = threading.local()
    if with_workers:
        # Before the variables are set: these outlive a life, and with its name on them would count as its processes.
        forkserver.set_forkserver_preload(["torch"])
        resource_tracker.ensure_running()
        forkserver.ensure_running()
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's and lancedb's deprecations
        for module in (manager, resuming, source):
            patch.setattr(module, "current_ranks", lambda: seat.ranks)
        patch.delenv("LAVENDER_RESUME_PLAN", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield lambda work: _all_at_once(world_size, work, seat)


def _all_at_once(world_size: int, work: Callable[[], None], seat: threading.local) -> None:
    table = Table(world_size)
    failures: list[BaseException] = []

    def be(rank: int) -> None:
        seat.ranks = SeatedRank(table, rank)
        try:
            work()
        except BaseException as error:
            if not isinstance(error, threading.BrokenBarrierError):
                failures.insert(0, error)
            failures.append(error)
            table.barrier.abort()

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
