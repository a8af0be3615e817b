"""CheckpointManager: everything that a training run leaves on disk, written by rank 0 for all ranks."""

from __future__ import annotations

import os
from types import TracebackType
from typing import TYPE_CHECKING, Any

from lavender_tui.errors import LavenderError, UsageError
from lavender_tui.training import data_state, metrics_log, weights
from lavender_tui.training.begin_line import BeginLine
from lavender_tui.training.cadence import Cadence, StepCount
from lavender_tui.training.data_state import RankReport
from lavender_tui.training.estimate import Pace, remaining_hours
from lavender_tui.training.plain import as_plain
from lavender_tui.training.provenance import Pins, versions
from lavender_tui.training.ranks import current_ranks, first_does
from lavender_tui.training.reading import LOG, Reading, make_loader
from lavender_tui.training.requests import Requests
from lavender_tui.training.run_record import Ending, Hold, begin_record, claim_run_dir, how_it_ended
from lavender_tui.training.stop_signals import StopSignals, usr1_means_stop
from lavender_tui.training.writing import (
    check_names,
    check_stage,
    file_name,
    is_the_last,
    last_save_count,
    plain_fields,
    write_checkpoint,
)

if TYPE_CHECKING:
    from lavender_tui.training.resuming import Beginning

# A state can't be taken inside a logical step of a loader with several workers; a boundary is never this far away.
MOST_DELAYED_CALLS = 256


class CheckpointManager:
    """Saves checkpoints, metrics and the run's record into a new run directory.

    Make one on EVERY rank, after `init_process_group`; the constructor, `maybe_save` and `save` are called by every
    rank at the same points. The directory is new each time (`root/run-YYYY-MM-DD_HH-MM-SS`), except that the first
    manager of a process takes the one that the launcher prepared (`LAVENDER_RUN_DIR`).

    SIGTERM: at the next `maybe_save` all ranks save together, and SystemExit(0) ends the script (with
    `exit_on_stop=False` it goes on, and looks at `should_stop`). SIGUSR1: the same with `usr1="stop"`; saved and gone
    on with `usr1="go on"`. The default "auto" stops under torchrun, whose agent ends after it has passed that signal
    on, and under Slurm, whose warning before a time limit it is, and goes on elsewhere. A `request.json` in the run's
    directory asks for an end at the next save, or at the end of the epoch: the save that gets there ends the script in
    the same way.

    A save that fails never ends the training from `maybe_save`: it is a warning, and tried again. `save` raises
    LavenderError, the same on every rank.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = "checkpoints",
        *,
        model: Any = None,
        model_cfg: Any = None,
        every_seconds: float = 1800.0,
        table: Any = None,
        begin: Beginning | None = None,
        exit_on_stop: bool = True,
        usr1: str = "auto",
        pin: bool = True,
    ) -> None:
        """`table`: the LanceDB table that is read, where a dataset is set without one. `begin`: where this training
        begins, so that steps are counted on from there and the record names the run that it continues. `pin=False`
        leaves the table without a tag on the version that is read."""
        if usr1 not in ("auto", "stop", "go on"):
            raise UsageError(f"usr1={usr1!r} is unknown", hint='Use "auto", "stop" or "go on"')
        self._ranks = current_ranks()
        self.run_dir: str = first_does(self._ranks, lambda: claim_run_dir(os.fspath(root)))
        self.save_count: int = first_does(self._ranks, lambda: last_save_count(self.run_dir))
        self._versions = versions() if self._ranks.is_first else {}
        self._record = begin_record(self._ranks, self.run_dir, begin.lineage if begin else None)
        self._hold = Hold(self.run_dir)
        self._requests = Requests(self.run_dir) if self._ranks.is_first else None
        self._ending_by: str | None = None  # who asked for an end that the last save got to; the same on every rank
        self._model, self._model_cfg, self._table = model, model_cfg, table
        self._optimizer: Any = None
        self._scheduler: Any = None
        self._steps, self._pace = StepCount(begin.global_step if begin else 0), Pace()
        checkpoint = begin.checkpoint if begin else None
        passed_over = begin.passed_over if begin else {}
        self._begin_line = BeginLine(
            self._ranks, at_step=self._steps.value, checkpoint=checkpoint, passed_over=passed_over
        )
        pins = Pins(os.path.basename(self.run_dir), begin.pins if begin else None) if pin else None
        self._pins, self._reading = pins, Reading(self._ranks, pins)
        self._cadence = Cadence(every_seconds)
        self._delayed_calls = 0
        self._last_saved: dict[str, Any] = {}
        self._last_loss: Any = None
        self._is_closed = self._stop_agreed = False
        self._exit_on_stop = exit_on_stop
        self._usr1_stops = usr1 == "stop" or (usr1 == "auto" and usr1_means_stop())
        self._signals = StopSignals()
        self._signals.install()

    # What is saved

    def set_model(self, model: Any, model_cfg: Any = None) -> None:
        """The model whose weights are saved: as it is, or inside DistributedDataParallel, FSDP or torch.compile."""
        self._model = model
        if model_cfg is not None:
            self._model_cfg = model_cfg

    def set_optimizer(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    def set_scheduler(self, scheduler: Any) -> None:
        self._scheduler = scheduler

    def set_dataset(
        self,
        dataset: Any,
        *,
        table: Any = None,
        batch_size: int | None = None,
        num_workers: int = 0,
        accumulate: int = 1,
        **told: Any,
    ) -> None:
        """The StreamingDataset of this epoch, after its state was loaded. `loader` does this by itself.

        `batch_size` is the global one, over all ranks. What lancedb doesn't tell of the dataset can be told by its
        own names: `filter=`, `shuffle=`, `columns=`, `version=`, `uri=` and so on.
        """
        self._reading.set(dataset, table if table is not None else self._table, told, self._steps)
        self._begin_line.data_is_set(dataset, self._optimizer)
        if batch_size is not None:
            self._reading.set_batch(batch_size, num_workers, accumulate)

    def loader(
        self, dataset: Any, batch_size: int, *, num_workers: int = 0, accumulate: int = 1, **options: Any
    ) -> Any:
        """A loader whose position can be saved: lancedb's StreamingDataLoader, workers by forkserver.

        `batch_size` counts rows over ALL ranks, so that a step is the same on any world_size; a multiple of the
        dataset's num_splits gives the very same rows in each step. `accumulate`: how many batches make one
        global_step. Other options go to the loader. Raises UsageError where ranks or workers can't share evenly.
        """
        loader = make_loader(
            dataset, ranks=self._ranks, batch_size=batch_size, num_workers=num_workers, options=options
        )
        if self._reading.dataset is not dataset:
            self.set_dataset(dataset)
        self._reading.set_batch(batch_size, num_workers, accumulate)
        return loader

    # While it trains

    @property
    def global_step(self) -> int:
        return self._steps.value

    @property
    def should_stop(self) -> bool:
        """Was an end asked for? On several ranks only once they have agreed, so that all of them leave the loop."""
        return self._stop_agreed or (self._ranks.world_size == 1 and self._signals.terminate)

    def log(self, *, step: int | None = None, loss: Any = None, lr: Any = None, **more: Any) -> None:
        """Append one line to `metrics.jsonl` (rank 0; the others only count). Never raises for a full disk."""
        if step is not None:
            self._steps.logged(int(step))
        if loss is not None:
            self._last_loss = loss
        if not self._ranks.is_first:
            return
        self._begin_line.logged()
        values = {"step": self._steps.value, "loss": loss, "lr": lr, **more}
        metrics_log.try_append(self.run_dir, {key: value for key, value in values.items() if value is not None})

    def maybe_save(
        self, stage: str, *, epoch: int | None = None, epochs: int | None = None, **extra: Any
    ) -> str | None:
        """Save if it is time or a signal asks for it; call it after every step, on every rank. The path, or None.

        Rank 0's clock decides, and all ranks learn it in one tiny exchange, which also spreads signals: no rank saves
        alone. Where a loader with several workers stands inside a logical step, the save waits for the next boundary.
        Raises SystemExit(0) after the save that SIGTERM asked for (1 if that save failed).
        """
        self._check(stage, extra)
        self._tell_begin(epoch)
        self._steps.called()
        self._pace.stepped(self._steps.value)
        due = self._requests is not None and (self._cadence.is_due or self._requests.epoch_is_over(epoch))
        due, terminate, user = self._ranks.vote([due, self._signals.terminate, self._signals.user])
        if not (due or terminate or user):
            return None
        stopped_by = "SIGTERM" if terminate else "SIGUSR1" if user and self._usr1_stops else None
        path, failed = self._save_if_possible(stage, {"epoch": epoch, "epochs": epochs, **extra}, stopped_by)
        if path is None and not failed:
            return None  # at the next boundary
        if user or not self._usr1_stops:  # one that means an end, and came while this was written, is yet to be heard
            self._signals.user = False
        if stopped_by or self._ending_by:
            self._stop(stopped_by or self._ending_by or "", path)
        return path

    def save(
        self,
        stage: str,
        *,
        epoch: int | None = None,
        epochs: int | None = None,
        epoch_complete: bool = False,
        **extra: Any,
    ) -> str:
        """Save now, on every rank; returns the checkpoint's path. Raises LavenderError where it can't be written, and
        SystemExit(0) after a save at which somebody asked the training to end."""
        self._check(stage, extra)
        self._tell_begin(epoch)
        fields = {"epoch": epoch, "epochs": epochs, "epoch_complete": epoch_complete, **extra}
        path = self._save(stage, fields, may_wait=False)
        assert path is not None
        if self._ending_by:
            self._stop(self._ending_by, path)
        return path

    def close(self) -> None:
        """The training ends well: say so in the records, give the signals back, take the tag off the table."""
        self._end_with(Ending("finished" if is_the_last(self._last_saved) else "ended", 0))

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self._end_with(how_it_ended(error, self._ranks.world_size))

    # How

    def _check(self, stage: str, extra: dict[str, Any]) -> None:
        check_stage(stage)
        check_names(extra)
        if self._model is None:
            raise UsageError("the manager has no model to save", hint="Call set_model, or give model= to the manager")

    def _save_if_possible(self, stage: str, fields: dict[str, Any], stopped_by: str | None) -> tuple[str | None, bool]:
        if stopped_by:
            fields["stopped_by"] = stopped_by
        try:
            return self._save(stage, fields, may_wait=self._delayed_calls < MOST_DELAYED_CALLS), False
        except LavenderError as error:
            self._cadence.failed()
            if self._ranks.is_first:
                LOG.warning("%s", error)
                metrics_log.try_append(self.run_dir, {"event": "save failed", "error": str(error)})
            return None, True

    def _save(self, stage: str, fields: dict[str, Any], *, may_wait: bool) -> str | None:
        """None where the position can't be taken right now and `may_wait`. The same outcome on every rank."""
        if fields.get("global_step") is not None:
            self._steps.named(int(fields.pop("global_step")))
        reports = self._ranks.gather(self._reading.report())
        if may_wait and self._ranks.share(any(data_state.is_soon_possible(one.problem) for one in reports or ())):
            self._delayed_calls += 1
            return None
        whole = weights.take(self._model, self._optimizer) if weights.is_sharded(self._model) else None
        path: str
        path, self._ending_by = first_does(self._ranks, lambda: self._write(stage, fields, reports or [], whole))
        self.save_count += 1
        self._delayed_calls = 0
        self._cadence.saved()
        self._last_saved = {"stage": stage, **fields}
        return path

    def _write(
        self, stage: str, fields: dict[str, Any], reports: list[RankReport], whole: Any
    ) -> tuple[str, str | None]:
        """(the path, who asked for an end at this save). On rank 0 only."""
        assert self._requests is not None
        count = self.save_count + 1
        path = os.path.join(self.run_dir, file_name(stage, count))
        model_state, optimizer_state = whole or weights.take(self._model, self._optimizer)
        complete = bool(fields.get("epoch_complete", False))
        asked = None if "stopped_by" in fields else self._requests.at_save(count, fields.get("epoch"), complete)
        if asked is not None:
            fields = {**fields, "stopped_by": asked.what.value}
        content = {
            "model_state_dict": model_state,
            "optimizer_state_dict": optimizer_state,
            "model_cfg": as_plain(self._model_cfg) if self._model_cfg is not None else {},
            "stage": stage,
            "save_count": count,
            **plain_fields(stage, {**fields, "epoch_complete": complete}, self._last_loss),
            "global_step": self._steps.value,
            "world_size": self._ranks.world_size,
            **({"scheduler_state_dict": as_plain(self._scheduler.state_dict())} if self._scheduler else {}),
            **self._reading.stored(reports, self._steps, epoch_complete=complete),
            "versions": self._versions,
        }
        hours = remaining_hours(content, self._pace.seconds_a_step(self._steps.value))
        if hours is not None:
            content.setdefault("remaining_hours", hours)
        write_checkpoint(path, content)
        return path, asked.who if asked is not None else None

    def _tell_begin(self, epoch: int | None) -> None:
        """Once, on every rank: `metrics.jsonl` tells where this training began."""
        if not self._begin_line.is_told and (values := self._begin_line.tell(epoch, self._optimizer)) is not None:
            metrics_log.try_append(self.run_dir, values)

    def _stop(self, stopped_by: str, path: str | None) -> None:
        self._stop_agreed = True
        if self._requests and self._ending_by:
            self._requests.fulfil()
        if not self._exit_on_stop:
            return
        code = 0 if path is not None else 1
        self._end_with(Ending("stopped", code, by=stopped_by))
        raise SystemExit(code)

    def _end_with(self, ending: Ending) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self._signals.uninstall()
        if ending.status in ("finished", "ended"):  # else this process ends, and is the run's until it has
            self._hold.release()
        if not self._ranks.is_first:
            return
        metrics_log.try_append(
            self.run_dir, {"event": "end", **ending.in_words(), "at_step": self._steps.value, "saves": self.save_count}
        )
        if ending.status == "finished" and self._pins is not None:
            for complaint in self._pins.drop():
                LOG.warning("%s", complaint)
        if self._requests and ending.code == 0:
            self._requests.drop()
        if self._record is not None:
            self._record.end(ending)
            self._record.release()
