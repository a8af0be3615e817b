"""All that a resume is decided from, gathered once: the checks look only at this."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from lavender_tui.launch.command import CommandSource
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.plan import Policy, Verdict
from lavender_tui.model.rank_state import StateSet, owners_merge
from lavender_tui.model.run import Run
from lavender_tui.model.start import missed_scheduler_steps, policy_epoch
from lavender_tui.model.state_rules import SaveFacts, agreement, is_done, work_key
from lavender_tui.model.topology import allowed_num_workers, fitting_world_size
from lavender_tui.resume.going_back import Back
from lavender_tui.resume.request import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """`saved_by`: how many ranks saved the checkpoint, where anything says it. `root`: where the new run is made.
    `resumed_as`: the runs that were resumed from this one already.

    `command` is None where none was found, `command_problem` then says why.
    """

    run: Run | None
    run_path: str
    checkpoint: Checkpoint
    named: bool
    passed_over: tuple[tuple[str, str], ...]
    resumed_as: tuple[str, ...]
    set: StateSet
    facts: SaveFacts
    options: Options
    saved_by: int | None
    devices: int
    root: str
    command: CommandSource | None
    command_problem: str = ""
    scheduler_epoch: int | None = None  # last_epoch of the saved scheduler
    known_bad: str | None = None  # why the checkpoint is suspected
    spike: str | None = None  # the jump of the loss that is gone back before, in words
    behind: Back | None = None  # the jump that the checkpoint was saved after

    @property
    def num_splits(self) -> int | None:
        if self.set.states:
            return self.set.states[0].num_splits
        return self.checkpoint.rank_states.num_splits

    @property
    def merged(self) -> dict[str, Any] | None:
        """What the owners say, where the set may be merged at all."""
        if not self.set.is_complete:
            return None
        return owners_merge(self.set.states, self.set.world_size)

    @property
    def is_done(self) -> bool:
        """The states stand at the end of their epoch."""
        merged = self.merged
        return merged is not None and is_done(merged, self.facts.num_rows)

    @property
    def policy(self) -> Policy:
        """What was asked for, else the rule: states that can't be trusted are refused, never left aside in silence."""
        if self.options.next_stage is not None:
            return Policy.NEXT_EPOCH
        if self.options.policy is not None:
            return self.options.policy
        if self.checkpoint.epoch_complete or self.is_done:
            return Policy.NEXT_EPOCH
        return Policy.EXACT if self.set.found or self.set.checks else Policy.REPLAY_EPOCH

    @property
    def epoch(self) -> int | None:
        """The 1-based epoch to start in. Without one in the checkpoint, the states' (they count from 0)."""
        if self.options.next_stage is not None:
            return 1
        known = policy_epoch(self.policy, self.checkpoint)
        if known is not None or not self.set.is_complete or not self.epoch_may_be_absent:
            return known
        current = int(self.set.states[0].state["epoch"]) + 1
        return current + 1 if self.policy in (Policy.NEXT_EPOCH, Policy.SKIP_EPOCH) else current

    @property
    def scheduler_extra(self) -> int:
        """Steps that the saved scheduler lacks where this start is the end of its epoch."""
        one, start = self.checkpoint, self.epoch
        if start is None or not one.has_scheduler:
            return 0
        return missed_scheduler_steps(self.scheduler_epoch, one.epoch, one.epoch_complete, start)

    @property
    def epoch_may_be_absent(self) -> bool:
        """The format has no such number, other than a value that is there and can't be one."""
        return "epoch" not in self.checkpoint.keys

    @property
    def world_size(self) -> int:
        """As asked; else as before, as far as the devices here go, and one that splits and batch can be shared by."""
        if self.options.world_size is not None:
            return self.options.world_size
        wanted = self.saved_by or max(1, self.devices)
        if self.devices:
            wanted = min(wanted, self.devices)
        return fitting_world_size(wanted, self.num_splits, self.global_batch)

    @property
    def num_workers(self) -> int:
        """As asked; else as before, or the most below that the splits of a rank, and the states, allow."""
        if self.options.num_workers is not None:
            return self.options.num_workers
        wanted = max(0, self.checkpoint.num_workers or 0)
        if self.num_splits is None or self.world_size < 1 or self.num_splits % self.world_size:
            return wanted
        if self.is_within_a_cycle:
            wanted = min(wanted, 1)
        return max(count for count in allowed_num_workers(self.num_splits, self.world_size) if count <= wanted)

    @property
    def is_within_a_cycle(self) -> bool:
        """Some splits are a row further than others: two workers or more can't start from there."""
        merged = self.merged if self.policy is Policy.EXACT else None
        return merged is not None and len(set(merged[work_key(self.set.states[0])])) > 1

    @property
    def global_batch(self) -> int | None:
        if self.options.global_batch is not None:
            return self.options.global_batch
        return self.checkpoint.global_batch

    @property
    def dataset(self) -> dict[str, Any] | None:
        """The state that every rank loads: the merged one; of the next epoch with all counts 0; or none."""
        if self.policy is Policy.EXACT:
            return self.merged
        if self.policy is Policy.REPLAY_EPOCH:
            return None
        return _next_epoch(self.set)


def new_root(run_path: str, options: Options) -> str:
    """Beside the old run, unless another root is asked for."""
    return os.path.abspath(os.path.expanduser(options.root)) if options.root else os.path.dirname(run_path)


def _next_epoch(states: StateSet) -> dict[str, Any] | None:
    """Same seed and splits, the epoch after, nothing read. A packed epoch has its own number of blocks: none there."""
    agrees = states.states and not any(one.verdict is Verdict.REFUSE for one in agreement(states.states))
    if not agrees or states.states[0].mode == "packed":
        return None
    first = states.states[0].state
    splits = first["num_splits"]
    return {
        "shuffle_seed": first["shuffle_seed"],
        "num_splits": splits,
        "epoch": first["epoch"] + 1,
        "samples_consumed_per_split": [0] * splits,
        "positions_consumed_per_split": [0] * splits,
    }
