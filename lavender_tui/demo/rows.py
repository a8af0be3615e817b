"""Was each row of an epoch trained exactly once, through all resumes? For any training that notes the rows it trains.

    python -m lavender_tui.demo.rows RUN [--epoch 1]

RUN is the last run of the chain. Each of its runs has a file `rows.rank<k>.jsonl` for every rank, with a line for each
step: {"epoch": 1, "step": 12, "ids": [4, 17]}. Which run goes on from which checkpoint, and how many rows the epoch
has, is in what CheckpointManager records. Exit code: 0 each exactly once, 1 not so, 2 wrong usage, 102 nothing to read.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from dataclasses import dataclass

from lavender_tui.checkpoints import is_checkpoint_name, read_checkpoint
from lavender_tui.demo.coverage import ROWS_PREFIX, Generation, logged_steps, trained_steps
from lavender_tui.errors import LavenderError, NotFound
from lavender_tui.launch.record import read_launch
from lavender_tui.model.data_rows import epoch_rows
from lavender_tui.model.text import one_line, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What became of an epoch's rows in the final weights. `expected` is None where no checkpoint says how many."""

    epoch: int
    runs: int
    expected: int | None
    counts: Counter[object]
    forgotten: int

    @property
    def repeated(self) -> int:
        return sum(times > 1 for times in self.counts.values())

    @property
    def never(self) -> int:
        return 0 if self.expected is None else max(0, self.expected - len(self.counts))

    @property
    def is_exact(self) -> bool:
        return len(self.counts) == self.expected and not self.repeated

    def __str__(self) -> str:
        of = "?" if self.expected is None else f"{self.expected:,}"
        told = f"epoch {self.epoch}, {plural(self.runs, 'run')}: {len(self.counts):,} of {of} rows trained"
        thrown = f"; {plural(self.forgotten, 'row')} after a last save, forgotten and trained again"
        return f"{told}, {self.never:,} never, {self.repeated:,} more than once{thrown if self.forgotten else ''}"


def chain_of(run_dir: str) -> list[Generation]:
    """The runs from the first start of this stage on, each up to the step that the next one went on from.

    Raises NotFound where a run or its checkpoint is gone.
    """
    found: list[Generation] = []
    here, last_step = os.path.abspath(run_dir), None
    while here not in (one.run_dir for one in found):
        if not os.path.isdir(here) or not any(name.startswith(ROWS_PREFIX) for name in os.listdir(here)):
            raise NotFound(f"there is no {ROWS_PREFIX}<k>.jsonl", where=here, hint="Note the rows in the training loop")
        found.insert(0, Generation(run_dir=here, last_step=last_step))
        record = read_launch(here)
        origin = record.resumed_from if record else None
        if origin is None or origin.checkpoint is None:
            break
        source = read_checkpoint(origin.checkpoint)
        if not source.is_usable or source.step is None:
            raise NotFound("nothing says which step the run goes on from", where=origin.checkpoint)
        if source.stage != _stage_of(here, source.stage):
            break  # another stage reads other rows
        here, last_step = os.path.dirname(source.path), source.step
    return found


def tally(run_dir: str, epoch: int = 1) -> Tally:
    """Count the rows of an epoch (1-based) over the chain that ends in this run. Raises NotFound."""
    generations = chain_of(run_dir)
    steps, forgotten = trained_steps(generations, epoch)
    counts = Counter(row for ids in steps.values() for row in ids)
    runs = sum(any(logged == epoch for _, logged, _, _ in logged_steps(one.run_dir)) for one in generations)
    expected = next((size for one in reversed(generations) if (size := _epoch_size(one.run_dir))), None)
    return Tally(epoch=epoch, runs=runs, expected=expected, counts=Counter(counts), forgotten=forgotten)


def _stage_of(run_dir: str, default: str | None) -> str | None:
    return next((one.stage for path in _saves(run_dir) if (one := read_checkpoint(path)).is_usable), default)


def _epoch_size(run_dir: str) -> int | None:
    """Rows of an epoch by the run's saves."""
    for path in _saves(run_dir):
        save = read_checkpoint(path)
        if (rows := epoch_rows(save.data, save.rank_states.num_splits)) is not None:
            return rows
    return None


def _saves(run_dir: str) -> list[str]:
    return [os.path.join(run_dir, name) for name in sorted(os.listdir(run_dir)) if is_checkpoint_name(name)]


def main() -> int:
    parser = argparse.ArgumentParser(description="Was each row of an epoch trained exactly once, through all resumes?")
    parser.add_argument("run", help="the directory of the last run of the chain")
    parser.add_argument("--epoch", type=int, default=1, help="1-based (default: 1)")
    options = parser.parse_args()
    try:
        found = tally(options.run, options.epoch)
    except LavenderError as error:
        print(one_line(str(error)), file=sys.stderr)
        return error.exit_code
    print(found)
    return 0 if found.is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
