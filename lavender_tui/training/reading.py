"""The dataset that is being read now: where it stands, how it is read, and whether its counts fit the steps."""

from __future__ import annotations

import logging
import signal
from typing import Any

from lavender_tui.errors import UsageError
from lavender_tui.model.rank_state import owned_splits
from lavender_tui.model.state_shapes import BLOCKS, SAMPLES
from lavender_tui.model.topology import allowed_num_workers, per_rank_batch
from lavender_tui.training import randomness
from lavender_tui.training.cadence import StepCount
from lavender_tui.training.data_state import DataStates, RankReport, collect, own_work, take_state
from lavender_tui.training.provenance import Pins, describe
from lavender_tui.training.ranks import Ranks
from lavender_tui.training.stop_signals import WATCHED

LOG = logging.getLogger("lavender_tui.training")


class Reading:
    """What the manager knows of the data. `dataset` is None until one is set."""

    def __init__(self, ranks: Ranks, pins: Pins | None) -> None:
        self.dataset: Any = None
        self.batch: dict[str, Any] = {}
        self._ranks, self._pins = ranks, pins
        self._data: dict[str, Any] | None = None
        self._start_samples = 0
        self._start_step = 0
        self._start_is_exact = True

    def set(self, dataset: Any, table: Any, told: dict[str, Any], steps: StepCount) -> None:
        """From now on this dataset is the one whose position is saved; it stands where its epoch begins for us."""
        self.dataset, self._data = dataset, None
        state, _ = take_state(dataset)
        self._start_samples = own_work(state, self._ranks.rank, self._ranks.world_size) if state else 0
        self._start_step, self._start_is_exact = steps.value, steps.is_exact or steps.is_untouched
        if dataset is not None and self._ranks.is_first:
            self._data = self._describe(dataset, table, told)

    def set_batch(self, global_size: int, num_workers: int, accumulate: int) -> None:
        """`batch.global` is what one global_step takes: `accumulate` batches of `global_size` rows."""
        self.batch = {"global": int(global_size) * int(accumulate), "num_workers": int(num_workers)}
        if accumulate != 1:
            self.batch["accumulate"] = int(accumulate)

    def report(self) -> RankReport:
        """This rank's part of a save."""
        state, problem = (None, None) if self.dataset is None else take_state(self.dataset)
        return RankReport(rng=randomness.take(), state=state, problem=problem, start_samples=self._start_samples)

    def stored(self, reports: list[RankReport], steps: StepCount, *, epoch_complete: bool) -> dict[str, Any]:
        """The checkpoint's keys about the data; `data_warnings` where something is not as it should be."""
        found = collect(reports)
        keys: dict[str, Any] = {"rng": [report.rng for report in reports]}
        if self.batch:
            keys["batch"] = dict(self.batch)
        if found.states:
            keys["dataset"] = found.states
        if self._data is not None:
            keys["data"] = dict(self._data)
        progress, complaint = self._progress(found, steps, epoch_complete)
        if progress:
            keys["progress"] = progress
        complaints = found.warnings + ([complaint] if complaint else [])
        for complaint in complaints:
            LOG.warning("%s", complaint)
        if complaints:
            keys["data_warnings"] = complaints
        return keys

    def _progress(
        self, found: DataStates, steps: StepCount, epoch_complete: bool
    ) -> tuple[dict[str, Any] | None, str | None]:
        """What lets a reader hold the counts against the steps, and what is wrong if they don't fit right now.

        sum(own counts) == start_samples + (global_step - start_step) x global batch, and never more than the epoch
        has. Where the step count is only our guess, the save itself is the start: true, and nothing is refused for it.
        """
        size = self.batch.get("global")
        if found.consumed is None or not size:
            return None, None
        steps_here = steps.value - self._start_step
        expected = found.start_samples + steps_here * size
        if found.states and "pack_buffers" not in found.states[0] and (self._data or {}).get("num_rows"):
            splits = int(found.states[0]["num_splits"])
            expected = min(expected, self._data["num_rows"] // splits * splits)  # type: ignore[index]
        if found.consumed != expected and (epoch_complete or not (steps.is_exact and self._start_is_exact)):
            return {"start_samples": found.consumed, "start_step": steps.value}, None
        complaint = None
        if found.consumed != expected:
            complaint = (
                f"the data stands {found.consumed - expected:+d} rows from where {steps_here} steps of {size} rows put "
                "it: save after the step of the batch just read, wrap no prefetcher around the loader, and tell "
                "loader(accumulate=) where several batches make a step"
            )
        return {"start_samples": found.start_samples, "start_step": self._start_step}, complaint

    def _describe(self, dataset: Any, table: Any, told: dict[str, Any]) -> dict[str, Any]:
        table = table if table is not None else getattr(dataset, "_table", None)
        data = describe(dataset, table, told)
        if self._pins is None or table is None:
            return data
        tag, problem = self._pins.pin(table, data.get("version"))
        data["tag"] = tag
        if problem:
            data["tag_problem"] = problem
            LOG.warning("%s", problem)
        if self._pins.inherited:
            data["earlier_tags"] = list(self._pins.inherited)
        return data


def make_loader(dataset: Any, *, ranks: Ranks, batch_size: int, num_workers: int, options: dict[str, Any]) -> Any:
    """A StreamingDataLoader for this rank's share of the global batch. Raises UsageError for what can't be shared.

    Workers are started by forkserver: lancedb's threads don't survive a fork. So the script needs its
    `if __name__ == "__main__":`, and collate and transforms must be functions of a module. A plain DataLoader with
    workers can't be checkpointed at all. The loader draws its workers' seeds from a generator of its own, so that
    making an iterator (again, after a resume) takes nothing from the generators that the model uses.
    """
    import torch
    from lancedb.streaming import StreamingDataLoader

    share = per_rank_batch(batch_size, ranks.world_size)
    if not share:
        raise UsageError(
            f"a global batch of {batch_size} can't be shared by {ranks.world_size} ranks",
            hint=f"Use a multiple of {ranks.world_size}",
        )
    state = dataset.state_dict()
    allowed = allowed_num_workers(state["num_splits"], ranks.world_size)
    if num_workers not in allowed:
        raise UsageError(
            f"{state['num_splits']} splits on {ranks.world_size} ranks can't be read by {num_workers} workers each",
            hint=f"Use one of {', '.join(map(str, allowed))}",
        )
    _check_workers(state, ranks, num_workers)
    if num_workers and _start_method(options.setdefault("multiprocessing_context", "forkserver")) == "forkserver":
        _start_forkserver()
    elif num_workers and _start_method(options["multiprocessing_context"]) == "fork":
        raise UsageError(
            "workers by fork crash or hang: lancedb's threads don't survive it",
            hint='Leave multiprocessing_context out, or use "forkserver" or "spawn"',
        )
    if "generator" not in options:
        seed = state["shuffle_seed"] * 1_000_003 + state["epoch"] * 1_009 + ranks.rank
        options["generator"] = torch.Generator().manual_seed(seed % (1 << 63))
    return StreamingDataLoader(dataset, batch_size=share, num_workers=num_workers, **options)


def _check_workers(state: dict[str, Any], ranks: Ranks, num_workers: int) -> None:
    """Two workers can't begin inside a cycle, where some splits are a row further than others."""
    own = owned_splits(ranks.rank, ranks.world_size, int(state["num_splits"]))
    counts = state[BLOCKS] if BLOCKS in state else state[SAMPLES]
    if num_workers > 1 and len({counts[split] for split in own}) > 1:
        raise UsageError(
            f"{num_workers} workers can't start here: the position lies inside a cycle over the splits",
            hint="Use num_workers=1 or 0 for the rest of this epoch",
        )


def _start_method(context: Any) -> str | None:
    """By name, of a context object, or of None: Python's own default."""
    import multiprocessing

    if context is None:
        return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return context if isinstance(context, str) else context.get_start_method()


def _start_forkserver() -> None:
    """Start the process that workers come from, so that neither it nor they hear SIGTERM and SIGUSR1.

    torchrun sends its signals to a rank's whole process group. A worker that ended by one would take the rank down
    in the middle of a step, before the save that the signal asks for. Workers end with their rank anyway.
    """
    from multiprocessing import forkserver, resource_tracker

    resource_tracker.ensure_running()  # started from within the next block, it would unblock SIGTERM again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, WATCHED)  # a child inherits what is blocked
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
