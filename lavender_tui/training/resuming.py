"""Where a training begins: from scratch, from the launcher's plan, or from a checkpoint. One object for all three."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

from lavender_tui.errors import BadState, NotFound, UsageError
from lavender_tui.model.plan import Policy, ResumePlan
from lavender_tui.model.run import Lineage
from lavender_tui.model.state_shapes import normalise
from lavender_tui.training import randomness, weights
from lavender_tui.training.loading import LOG, load_checkpoint, resume_from_checkpoint
from lavender_tui.training.ranks import current_ranks
from lavender_tui.training.run_record import has_ended
from lavender_tui.training.source import check_reading, open_table
from lavender_tui.training.started_again import from_own_saves, note_passed_over
from lavender_tui.training.starting import StartingPoint, dataset_epoch_offset, starting_point, whole_number

WEIGHTS = ("model_state_dict", "model_cfg", "stage")  # all that a new stage takes over from the stage before
PLAN_VARIABLE = "LAVENDER_RESUME_PLAN"


class Beginning:
    """Where this training begins. On a fresh start every method does what a training without us would do.

    `start.epoch` is the first epoch to train, 1-based; `dataset` the merged position in its data, or None;
    `checkpoint` the file that weights, moments, schedule and random generators come from, or None; `data` how the old
    run read its table; `plan` the launcher's, where it made one; `meta` all that the checkpoint holds but the states
    of model and optimizer. `passed_over`: newer saves of this very run that it could not go on from, path -> why.
    """

    def __init__(
        self,
        *,
        start: StartingPoint,
        model_state: dict[str, Any] | None = None,
        optimizer_state: dict[str, Any] | None = None,
        meta: dict[str, Any] | None = None,
        data: dict[str, Any] | None = None,
        plan: ResumePlan | None = None,
    ) -> None:
        self.start, self.plan = start, plan
        self.meta: dict[str, Any] = dict(meta or {})
        self.data: dict[str, Any] = dict(data or self.meta.get("data") or {})
        self.checkpoint: str | None = self.meta.get("checkpoint_path")
        self.dataset: dict[str, Any] | None = start.dataset_state
        self.passed_over: dict[str, str] = {}
        self._model_state, self._optimizer_state = model_state, optimizer_state

    @classmethod
    def fresh(cls) -> Beginning:
        return cls(start=StartingPoint(epoch=1))

    @classmethod
    def from_checkpoint(
        cls,
        model_state: dict[str, Any],
        optimizer_state: dict[str, Any] | None,
        meta: dict[str, Any],
        *,
        policy: str | Policy | None = None,
    ) -> Beginning:
        """From what `resume_from_checkpoint` returned; `policy` and errors as with `starting_point`."""
        start = starting_point(meta, policy=policy)
        return cls(start=start, model_state=model_state, optimizer_state=optimizer_state, meta=meta)

    @classmethod
    def from_plan(cls, plan: ResumePlan, *, where: str | None = None) -> Beginning:
        """From the launcher's plan and the checkpoint that it names. Raises NotFound, BadState or UnreadableFile."""
        _check_source(plan, where)
        content = load_checkpoint(plan.source.checkpoint)
        if plan.start.stage is not None:
            content = {key: content[key] for key in WEIGHTS if key in content}
        meta = {**content, "checkpoint_path": plan.source.checkpoint}
        model_state, optimizer_state = meta.pop("model_state_dict", None), meta.pop("optimizer_state_dict", None)
        state = None if plan.dataset is None else normalise(plan.dataset)
        start = StartingPoint(
            epoch=plan.start.epoch,
            policy=plan.start.policy,
            scheduler_steps=plan.start.scheduler_steps,
            dataset_state=state,
            dataset_epoch_offset=state["epoch"] - plan.start.epoch if state else dataset_epoch_offset(meta),
            scheduler_extra=plan.start.scheduler_extra,
        )
        return cls(
            start=start,
            model_state=model_state,
            optimizer_state=optimizer_state,
            meta=meta,
            data=plan.data,
            plan=plan,
        )

    # What it is

    @property
    def is_fresh(self) -> bool:
        return self.checkpoint is None

    @property
    def stage(self) -> str | None:
        """The stage that this training is of: the new one where the plan begins one, else the saved one's."""
        planned = self.plan.start.stage if self.plan is not None else None
        return planned or self.meta.get("stage")

    @property
    def begins_stage(self) -> bool:
        """A new stage: the weights come from the checkpoint, and nothing else does."""
        return self.plan is not None and self.plan.start.stage is not None

    @property
    def global_step(self) -> int:
        """Steps that the weights have already made in this stage: 0 on a fresh start."""
        return whole_number(self.meta.get("global_step")) or 0

    @property
    def lineage(self) -> Lineage | None:
        """The run and checkpoint that this goes on from."""
        return Lineage(run=os.path.dirname(self.checkpoint), checkpoint=self.checkpoint) if self.checkpoint else None

    @property
    def pins(self) -> list[dict[str, Any]]:
        """Tags that earlier runs left on tables, for the run that ends well to take off."""
        tag = self.data.get("tag")
        own = [{"table": self.data.get("table"), "tag": tag}] if tag else []
        return [*own, *(self.data.get("earlier_tags") or [])]

    def epochs(self, last: int) -> range:
        """The epochs left to train, 1-based, `last` included; empty where all of them are done."""
        return range(self.start.epoch, last + 1)

    # What it does

    def restore(self, model: Any, optimizer: Any = None, scheduler: Any = None) -> None:
        """Load weights, moments, schedule and random generators; nothing on a fresh start.

        Call it after model, optimizer and scheduler are built, and once: the loaded tensors are let go. A scheduler
        whose state was not saved is stepped once per finished epoch, which is right at epoch boundaries only.
        The random generators get this rank's own state on the topology that saved it; on another one, seeds derived
        from rank 0's state, the rank and the world_size: different for every rank, the same at every try. Where a new
        stage begins only the weights are loaded; the others stay as they were built.
        """
        if self.is_fresh:
            return
        if model is not None and self._model_state is None:
            raise UsageError("the checkpoint's weights are not here (any more)", hint="Call restore once")
        weights.put_back(model, optimizer, self._model_state, self._optimizer_state)
        self._model_state = self._optimizer_state = None
        if self.begins_stage:
            return
        if scheduler is not None:
            self._restore_scheduler(scheduler)
        self._restore_randomness()

    def open_table(self, uri: str | None = None, name: str | None = None) -> Any:
        """The LanceDB table, checked out at ONE version: the recorded one on a resume, else rank 0's newest.

        `uri` and `name` are needed where the checkpoint doesn't say them; a different place than the recorded one is
        taken as the moved table, and said. Where no position is used (an epoch read from its start) and the recorded
        version is gone, the newest is read, and said. Raises NotFound where the table, or the version that a position
        is of, is not there, BadState where it holds other rows; nothing is created in its place.
        """
        is_fresh = self.is_fresh or self.begins_stage
        return open_table(uri, name, recorded=self.data, is_fresh=is_fresh, exactly=self._has_position and not is_fresh)

    @property
    def _has_position(self) -> bool:
        """Will rows be left out because they were read before?"""
        state = self.dataset or {}
        counts = (*state.get("samples_consumed_per_split", ()), *state.get("blocks_emitted_per_split", ()))
        return any(counts)

    def dataset_epoch(self, epoch: int) -> int:
        """The dataset's own epoch, which shuffles its rows, for the trainer's 1-based epoch."""
        return epoch + self.start.dataset_epoch_offset

    def streaming_dataset(
        self, table: Any, epoch: int, *, num_splits: int | None = None, shuffle_seed: int | None = None, **options: Any
    ) -> Any:
        """The StreamingDataset of this epoch for this rank, at the saved position where it is the epoch of that state.

        Every other epoch gets a fresh dataset: a state of another epoch would silently skip its rows. Options that
        decide the order of rows (filter, shuffle, clumps, packing) default to those of the old run; other values
        are refused with BadState while its position is in use. `num_splits` should stay the same for the life of a
        training; every world_size that divides it can go on.
        """
        from lancedb.streaming import StreamingDataset

        ranks = current_ranks()
        state = self._state_of(epoch)
        options = check_reading(options, self.data, exactly=state is not None)
        if self.data.get("io_queue_depth") is not None:  # the launcher's: fewer ranks would start too many threads
            options.setdefault("io_queue_depth", self.data["io_queue_depth"])
        dataset = StreamingDataset(
            table,
            num_splits=self._as_before("num_splits", num_splits, state, None),
            shuffle_seed=self._as_before("shuffle_seed", shuffle_seed, state, 0),
            epoch=self.dataset_epoch(epoch),
            rank=ranks.rank,
            world_size=ranks.world_size,
            **options,
        )
        self.load_into(dataset, epoch)
        return dataset

    def load_into(self, dataset: Any, epoch: int) -> bool:
        """Put a dataset of your own making at the saved position; False, untouched, where `epoch` has none.

        Raises BadState where the dataset is of another epoch, or doesn't stand where it was told to afterwards.
        """
        state = self._state_of(epoch)
        if state is None:
            return False
        own = dataset.state_dict()
        if own["epoch"] != state["epoch"]:
            raise BadState(
                f"the position is of dataset epoch {state['epoch']}, the dataset of {own['epoch']}",
                where=self.checkpoint,
                hint=f"Build it with epoch={state['epoch']}",
            )
        dataset.load_state_dict(state)
        after = dataset.state_dict()
        wrong = [key for key in after if after[key] != state.get(key, after[key])]
        if wrong:
            raise BadState(f"the dataset did not take the position ({', '.join(wrong)} differ)", where=self.checkpoint)
        return True

    def _state_of(self, epoch: int) -> dict[str, Any] | None:
        return self.dataset if epoch == self.start.epoch else None

    def _as_before(self, key: str, told: int | None, state: dict[str, Any] | None, default: int | None) -> int | None:
        """What the script tells, which must be the position's own where one is used; else what the old run had."""
        if state is not None and told not in (None, state[key]):
            raise BadState(
                f"the script reads with {key} {told}, the position was saved with {state[key]}",
                where=self.checkpoint,
                hint=f"Use {key}={state[key]}, or start the epoch again",
            )
        states = self.dataset or self.meta.get("dataset")
        first = states[0] if isinstance(states, list) and states else states
        return told if told is not None else first.get(key, default) if isinstance(first, dict) else default

    def _restore_scheduler(self, scheduler: Any) -> None:
        if self.start.scheduler_steps is None:
            scheduler.load_state_dict(self.meta["scheduler_state_dict"])
            if self.start.scheduler_extra:
                LOG.warning("the scheduler is stepped once per epoch and was saved before that step: stepped now")
            self._step(scheduler, self.start.scheduler_extra)
            return
        LOG.warning(
            "the scheduler's state was not saved: stepped %d times, which is exact at epoch boundaries only",
            self.start.scheduler_steps,
        )
        self._step(scheduler, self.start.scheduler_steps)

    @staticmethod
    def _step(scheduler: Any, times: int) -> None:
        with warnings.catch_warnings():
            # The optimizer has stepped, in the run before: the order that torch warns of is right.
            warnings.filterwarnings("ignore", message=r"Detected call of `lr_scheduler\.step\(\)` before")
            for _ in range(times):
                scheduler.step()

    def _restore_randomness(self) -> None:
        states, ranks = self.meta.get("rng"), current_ranks()
        if not isinstance(states, list) or not states:
            return
        if len(states) == ranks.world_size:
            randomness.put_back(states[ranks.rank])
        else:
            randomness.derive(states[0], ranks.rank, ranks.world_size)


def resume_plan(stage: str | None = None) -> Beginning | None:
    """What the launcher planned (`LAVENDER_RESUME_PLAN`), ready to be used; None where nothing was planned.

    With `stage`, a plan for another stage is not this training's and counts as none. Raises NotFound where the plan
    or its checkpoint is gone, BadState where the checkpoint has changed since.
    """
    path = os.environ.get(PLAN_VARIABLE)
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise NotFound(f"the resume plan can't be read ({error.strerror})", where=path) from error
    except ValueError as error:
        raise BadState(f"the resume plan is no JSON ({error})", where=path) from error
    plan = ResumePlan.from_json(document, where=path)
    if stage is not None and (plan.start.stage or plan.source.stage) not in (None, stage):
        return None
    if has_ended(os.path.dirname(os.path.abspath(path))):
        LOG.warning("%s was carried out before, by a run that has ended: unset %s to start anew", path, PLAN_VARIABLE)
    ranks = current_ranks()
    if plan.start.policy is Policy.EXACT and plan.world_size != ranks.world_size:
        LOG.warning("planned for %d ranks, running on %d: the position fits both", plan.world_size, ranks.world_size)
    return Beginning.from_plan(plan, where=path)


def beginning(
    resume_from: str | os.PathLike[str] | None = None, *, stage: str | None = None, policy: str | Policy | None = None
) -> Beginning:
    """The launcher's plan if there is one; else from `resume_from` (a checkpoint, run or root); else from scratch.

    Where the workers of a run are started again (torchrun's --max-restarts, a requeued job) and it has saved since, it
    goes on from that: from the plan it would train again what its newest weights have seen. A save of its own that is
    damaged, or whose position can't be trusted, is passed over for the one before it, and said. `policy` ("exact",
    "replay-epoch", "skip-epoch") asks for another start than the checkpoint's own; a plan has one.
    """
    own, passed_over = from_own_saves(stage, _from_own)
    begin = own or _from_outside(resume_from, stage, policy, passed_over)
    begin.passed_over = passed_over
    note_passed_over(passed_over, begin.checkpoint)
    return begin


def _from_outside(
    resume_from: str | os.PathLike[str] | None,
    stage: str | None,
    policy: str | Policy | None,
    passed_over: Mapping[str, str],
) -> Beginning:
    """From the plan, or from what the script names. Not from scratch where this run has trained something already."""
    planned = resume_plan(stage)
    if planned is not None:
        return planned
    if resume_from is not None:
        return Beginning.from_checkpoint(*resume_from_checkpoint(resume_from, stage=stage), policy=policy)
    for path, why in passed_over.items():
        raise BadState(
            f"started again, it can go on from none of its own saves; the newest: {why}",
            where=path,
            hint="Resume it by hand, as another run: beginning anew would lose all that it has trained",
        )
    return Beginning.fresh()


def _from_own(path: str) -> Beginning:
    """From a save of this very run; how many threads may read is still what the plan says."""
    begin = Beginning.from_checkpoint(*resume_from_checkpoint(path))
    planned = _planned_depth()
    if planned is not None:
        begin.data.setdefault("io_queue_depth", planned)
    return begin


def _planned_depth() -> int | None:
    try:
        with open(os.environ.get(PLAN_VARIABLE) or os.devnull, encoding="utf-8") as file:
            depth = (json.load(file).get("data") or {}).get("io_queue_depth")
    except (OSError, ValueError, AttributeError):
        return None
    return depth if type(depth) is int and depth > 0 else None


def _check_source(plan: ResumePlan, where: str | None) -> None:
    path = plan.source.checkpoint
    try:
        facts = os.stat(path)
    except OSError as error:
        raise NotFound(f"the plan's checkpoint is not there ({error.strerror})", where=path) from error
    if (facts.st_size, facts.st_mtime_ns) != (plan.source.size, plan.source.mtime_ns):
        raise BadState("the checkpoint has changed since the resume was planned", where=path, hint="Plan it again")
