"""Was every row trained exactly once? Judged from the rows that the trainings logged, step by step, not from plans."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

ROWS_PREFIX = "rows.rank"


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One run of a chain of resumes.

    What it trained counts up to the step of the checkpoint that the next run was resumed from; the weights forgot the
    rest, and the next run trains it again. `last_step` is None for the last run of the chain: all of it counts.
    """

    run_dir: str
    last_step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What became of one epoch's rows. `wrong_steps` trained other rows than the uninterrupted run trains there."""

    rows: int
    steps: int
    lost: tuple[int, ...]
    repeated: tuple[int, ...]
    wrong_steps: tuple[int, ...]
    forgotten: int  # rows trained after a save that the kill threw away, and trained again by the next run

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.repeated or self.wrong_steps)

    def __str__(self) -> str:
        same = f"{self.steps - len(self.wrong_steps)} of {self.steps} global batches as without an interruption"
        return f"{self.rows:,} rows: {len(self.lost)} lost, {len(self.repeated)} repeated; {same}"


def logged_steps(run_dir: str) -> Iterator[tuple[str, int, int, list[int]]]:
    """(file, epoch, step, row ids) of every whole line that a rank of the run logged; a line cut by a kill is none."""
    for name in sorted(os.listdir(run_dir)):
        if not name.startswith(ROWS_PREFIX):
            continue
        with open(os.path.join(run_dir, name), encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):
                    record = json.loads(line)
                    yield name, record["epoch"], record["step"], record["ids"]


def trained_steps(generations: Iterable[Generation], epoch: int) -> tuple[dict[int, list[int]], int]:
    """The epoch's rows that count, by global step (ids of all ranks and runs together), and how many were forgotten."""
    steps: dict[int, list[int]] = defaultdict(list)
    forgotten = 0
    for generation in generations:
        kept, again = _last_attempt(generation.run_dir)
        forgotten += again[epoch]
        for (_, step), (logged_epoch, ids) in kept.items():
            if logged_epoch != epoch:
                continue
            if generation.last_step is not None and step > generation.last_step:
                forgotten += len(ids)
            else:
                steps[step] += ids
    return dict(steps), forgotten


def _last_attempt(run_dir: str) -> tuple[dict[tuple[str, int], tuple[int, list[int]]], Counter[int]]:
    """(file, step) -> (epoch, ids), and how many rows of each epoch were trained again: ranks that torchrun starts
    again within the run go on from its last save, and what was logged after that one is in no weights."""
    kept: dict[tuple[str, int], tuple[int, list[int]]] = {}
    newest: dict[str, int] = {}
    again: Counter[int] = Counter()
    for file, epoch, step, ids in logged_steps(run_dir):
        for stale in range(step, newest.get(file, step - 1) + 1):
            lost_in, lost = kept.pop((file, stale), (epoch, []))
            again[lost_in] += len(lost)
        kept[file, step], newest[file] = (epoch, ids), step
    return kept, again


def judge(generations: Iterable[Generation], expected: Sequence[Sequence[int]], *, epoch: int = 1) -> Coverage:
    """Compare what the chain trained in `epoch` with `expected`, the uninterrupted global batches of that epoch."""
    steps, forgotten = trained_steps(generations, epoch)
    trained = Counter(row for ids in steps.values() for row in ids)
    wanted = Counter(row for ids in expected for row in ids)
    first_step = (epoch - 1) * len(expected) + 1
    planned = {first_step + index: sorted(ids) for index, ids in enumerate(expected)}
    wrong = [step for step in sorted({*planned, *steps}) if sorted(steps.get(step, [])) != planned.get(step)]
    return Coverage(
        rows=sum(wanted.values()),
        steps=len(expected),
        lost=tuple(sorted((wanted - trained).elements())),
        repeated=tuple(sorted((trained - wanted).elements())),
        wrong_steps=tuple(wrong),
        forgotten=forgotten,
    )
