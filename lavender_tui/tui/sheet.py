"""The resume sheet without a screen: what can be chosen, what is chosen, and which row a refusal belongs to. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import in_run
from lavender_tui.model.plan import Check, Policy, Proposal, Verdict
from lavender_tui.model.run import Run
from lavender_tui.model.start import default_policy, is_training_over, stages_after
from lavender_tui.model.topology import allowed_num_workers, allowed_world_sizes, nearest_allowed
from lavender_tui.tui.consequences import remedy_of
from lavender_tui.tui.mends import CHECKPOINT, LAUNCHER, POLICY, STAGE, WORKERS, WORLD, Mend, mend_of, row_of

KEEP = "keep_alive"  # nothing of the plan: what becomes of the run later
ROWS = (CHECKPOINT, STAGE, WORLD, WORKERS, POLICY, LAUNCHER, KEEP)
_USUAL_SIZES = (1, 2, 4, 8)
_BACKENDS = ("torchrun", "local")


@dataclass(slots=True)
class Sheet:
    """Choices of one resume. What the person didn't touch follows the proposal's defaults.

    `is_before_spike`: the checkpoint is the newest from before the loss jumped. `mend` is the nearest choice that
    works, where something refuses; `proposal` the answer to what is chosen, None until it is there.
    """

    run: Run
    world_size: int | None = None
    checkpoint: Checkpoint | None = None
    is_before_spike: bool = False
    mend: Mend | None = None
    proposal: Proposal | None = None
    touched: dict[str, Any] = field(default_factory=dict)
    plan_values: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checkpoint = self._newest()
        if self.world_size is not None:
            self.touched[WORLD] = self.world_size

    def _newest(self) -> Checkpoint | None:
        return in_run(self.run.checkpoints, bad=dict(self.run.known_bad)).checkpoint

    # What is asked

    @property
    def paths(self) -> tuple[str, ...]:
        """The checkpoint that was chosen, or the run: then the newest usable is taken and the others explained."""
        chosen = self.touched.get(CHECKPOINT)
        return (chosen.path if chosen is not None else self.run.path,)

    def options(self) -> dict[str, Any]:
        """The options of a resume that differ from its defaults."""
        return {
            "before_spike": self.is_before_spike,
            "next_stage": self.touched.get(STAGE),
            "world_size": self.touched.get(WORLD),
            "num_workers": self.touched.get(WORKERS),
            "policy": self.touched.get(POLICY),
            "backend": self.touched.get(LAUNCHER),
        }

    # What is answered

    def follow(self, run: Run) -> None:
        """Take over the run as it is now: its saves are the choices. One that was chosen stays, else the newest is."""
        before, self.run = self._newest(), run
        newest, chosen = self._newest(), self.touched.get(CHECKPOINT)
        if chosen is not None:
            self.touched[CHECKPOINT] = self.checkpoint = self._own(chosen)
        elif self.is_before_spike or _path(before) == _path(newest):
            self.checkpoint = self._own(self.checkpoint) if self.checkpoint is not None else None
        else:
            self.checkpoint, self.plan_values = newest, {}
            if self.touched.get(POLICY) not in (None, *self.choices(POLICY)):
                self.touched.pop(POLICY)

    def adopt(self, proposal: Proposal | None) -> None:
        """Take over what the proposal decided, and which rows it refuses."""
        self.refusals, self.proposal, self.mend = {}, proposal, None
        if proposal is None:
            return
        if proposal.checkpoint is not None:
            self.checkpoint = self._own(proposal.checkpoint)
        for check in proposal.checks:
            if check.verdict is Verdict.REFUSE:
                self.refusals.setdefault(self._row_of(check), _sentence(check))
        if (plan := proposal.plan) is not None:
            self.plan_values = {
                WORLD: plan.world_size, WORKERS: plan.batch.num_workers, POLICY: plan.start.policy,
                LAUNCHER: plan.launch.backend,
            }  # fmt: skip
        found = mend_of(proposal, self)
        if found is not None:
            mended, self.mend = found
            self.refusals[self._row_of(mended)] = text.clean(f"{mended.what} → m {self.mend.words}", 400)

    def _own(self, checkpoint: Checkpoint) -> Checkpoint:
        """As the run has it; one of a run before this is none of its own."""
        return next((one for one in self.run.checkpoints if one.path == checkpoint.path), checkpoint)

    def _row_of(self, check: Check) -> str:
        """The end of a training is mended by the stage, not by another epoch."""
        is_end = check.id == "epoch.over" and self.checkpoint is not None and is_training_over(self.checkpoint)
        return STAGE if is_end else row_of(check)

    # Values

    def value(self, row: str) -> Any:
        """Chosen, else decided by the proposal, else guessed from the checkpoint until the proposal is there."""
        if row in self.touched:
            return self.touched[row]
        return self.plan_values.get(row, self._guess(row))

    def _guess(self, row: str) -> Any:
        checkpoint = self.checkpoint
        if row in (CHECKPOINT, STAGE):
            return checkpoint if row == CHECKPOINT else None
        if row == WORLD:
            before = (checkpoint.world_size if checkpoint else None) or self.run.world_size or 1
            return nearest_allowed(before, self.num_splits)
        if row == WORKERS:
            return (checkpoint.num_workers if checkpoint else None) or 0
        if row == POLICY:
            return default_policy(checkpoint) if checkpoint else Policy.REPLAY_EPOCH
        return False if row == KEEP else _BACKENDS[0]

    @property
    def num_splits(self) -> int | None:
        """A new stage takes over no position, so that nothing has to be shared."""
        return self.checkpoint.rank_states.num_splits if self.checkpoint and not self.begins_stage else None

    @property
    def begins_stage(self) -> bool:
        return self.touched.get(STAGE) is not None

    def choices(self, row: str) -> list[Any]:
        """What ← and → walk through, the chosen value among them."""
        return getattr(self, f"_{row}_choices")()

    def _checkpoint_choices(self) -> list[Any]:
        """Newest first. The chosen one may be of a run before this one, or so young that the list lacks it still."""
        usable = [one for one in self.run.checkpoints if one.is_usable]
        chosen = self.checkpoint
        is_lacking = chosen is not None and chosen.is_usable and all(one.path != chosen.path for one in usable)
        if is_lacking and chosen is not None and os.path.dirname(chosen.path) == self.run.path:
            usable.append(chosen)
        newest_first: list[Any] = sorted(usable, key=lambda one: one.order, reverse=True)
        return [*newest_first, chosen] if is_lacking and chosen not in newest_first else newest_first

    def _stage_choices(self) -> list[Any]:
        """None goes on with the saved one."""
        return [None, *(stages_after(self.checkpoint.stage) if self.checkpoint is not None else ())]

    def _world_size_choices(self) -> list[Any]:
        if self.num_splits is not None:
            return list(allowed_world_sizes(self.num_splits))
        known = {*_USUAL_SIZES, self.value(WORLD)}
        return sorted(size for size in known if size is not None)

    def _workers_choices(self) -> list[Any]:
        world = self.value(WORLD)
        allowed = allowed_num_workers(self.num_splits, world) if self.num_splits and world else (0, 1, 2, 4, 8)
        return list(allowed) or [0]

    def _policy_choices(self) -> list[Any]:
        checkpoint = self.checkpoint
        if checkpoint is None:
            return [Policy.REPLAY_EPOCH]
        if self.begins_stage:
            return [Policy.NEXT_EPOCH]
        if checkpoint.epoch_complete:
            return [Policy.NEXT_EPOCH, Policy.REPLAY_EPOCH]
        exact = [Policy.EXACT] if checkpoint.rank_states.complete else []
        return [*exact, Policy.REPLAY_EPOCH, Policy.SKIP_EPOCH]

    def _launcher_choices(self) -> list[Any]:
        backend = self.value(LAUNCHER)
        known = self.proposal.backends if self.proposal is not None else _BACKENDS
        return list(known) if backend in known else [*known, backend]

    def _keep_alive_choices(self) -> list[Any]:
        return [False, True]

    @property
    def is_to_be_kept(self) -> bool:
        return bool(self.value(KEEP))

    # What the person does

    def step(self, row: str, by: int) -> bool:
        """Another value of the row; False at the ends. From a typed value: the nearest allowed one."""
        choices, value = self.choices(row), self.value(row)
        if not choices:
            return False
        if value in choices:
            index = choices.index(value) + by
        elif isinstance(value, int):
            above = [place for place, one in enumerate(choices) if one > value]
            index = (above[0] if by > 0 else above[0] - 1) if above else len(choices) - 1
        else:
            index = 0
        if not 0 <= index < len(choices) or choices[index] == value:
            return False
        self.choose(row, choices[index])
        return True

    def choose(self, row: str, value: Any) -> None:
        """Choose a value (None: the default again); what a checkpoint or a stage decides follows it again."""
        if value is None:
            self.touched.pop(row, None)
        else:
            self.touched[row] = value
        if row == CHECKPOINT:
            self.is_before_spike = False
            self.checkpoint = value if value is not None else self._newest()
        if row in (CHECKPOINT, STAGE):
            self.plan_values = {}
            self.touched.pop(POLICY, None)

    def hold(self) -> None:
        """What was found to be bad stays chosen: the save before it is taken by a key, and never by itself."""
        if CHECKPOINT not in self.touched and self.checkpoint is not None:
            self.touched[CHECKPOINT], self.is_before_spike = self.checkpoint, False

    def let_go(self) -> bool:
        """A chosen save of this run that was deleted since gives way to the newest. False where nothing changes."""
        chosen = self.touched.get(CHECKPOINT)
        if chosen is None or self.proposal is not None or os.path.dirname(chosen.path) != self.run.path:
            return False
        if any(one.path == chosen.path for one in self.run.checkpoints):
            return False
        self.choose(CHECKPOINT, None)
        return True

    @property
    def can_go_back(self) -> bool:
        """Is there a checkpoint from before a jump of the loss, or has it been chosen?"""
        return self.is_before_spike or (self.proposal is not None and self.proposal.before_spike is not None)

    @property
    def why_not_back(self) -> str:
        """Why there is no checkpoint to go back to, where there is none."""
        if self.proposal is not None and self.proposal.spike is not None:
            return f"no usable save is from before the jump of the loss {text.clean(self.proposal.spike, 80)}"
        return f"the loss of {text.clean(self.run.title, 60)} has no jump that lasts up to this save"

    def go_back(self) -> None:
        """To the newest checkpoint from before the jump; once more: to the newest of all."""
        back = not self.is_before_spike
        before = self.proposal.before_spike if self.proposal is not None else None
        self.choose(CHECKPOINT, None)
        if back:
            self.is_before_spike = True
            self.checkpoint = self._own(before) if before is not None else self.checkpoint


def _path(checkpoint: Checkpoint | None) -> str | None:
    return checkpoint.path if checkpoint is not None else None


def _sentence(check: Check) -> str:
    """What is wrong and what to do; the evidence stands with the checks."""
    more = f" → {remedy_of(check)}" if check.remedy else (f": {check.evidence}" if check.evidence else "")
    return text.clean(check.what + more, 400)
