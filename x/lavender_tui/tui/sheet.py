"""The resume sheet without a screen: what can be chosen, what is chosen, and which row a refusal belongs to. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.choosing import in_run, why_passed_over
from lavender_tui.model.plan import Check, Policy, Proposal, Verdict
from lavender_tui.model.run import Run
from lavender_tui.model.start import default_policy
from lavender_tui.model.topology import allowed_num_workers, allowed_world_sizes, nearest_allowed
from lavender_tui.tui import ages
from lavender_tui.tui.outlook import checkpoint_words

CHECKPOINT, WORLD, WORKERS, POLICY, LAUNCHER = "checkpoint", "world_size", "workers", "policy", "launcher"
ROWS = (CHECKPOINT, WORLD, WORKERS, POLICY, LAUNCHER)
_USUAL_SIZES = (1, 2, 4, 8)
_BACKENDS = ("torchrun", "local")
# Which row a check is shown at: the first row one of whose words is in the check's id.
_ROW_WORDS = (
    (WORKERS, ("worker",)),
    (WORLD, ("topology", "world", "batch", "devices")),
    (POLICY, ("policy", "epoch", "start")),
    (LAUNCHER, ("command", "launch", "backend", "place", "port")),
)


@dataclass(frozen=True, slots=True)
class RowView:
    """A row to draw: its options, the selected one, a quiet note beside it and a remark below it."""

    options: tuple[str, ...]
    selected: int
    note: str = ""
    remark: str = ""
    is_wrong: bool = False
    is_typed: bool = False


@dataclass(slots=True)
class Sheet:
    """Choices of one resume. What the person didn't touch follows the proposal's defaults."""

    run: Run
    world_size: int | None = None
    checkpoint: Checkpoint | None = None
    touched: dict[str, Any] = field(default_factory=dict)
    plan_values: dict[str, Any] = field(default_factory=dict)
    refusals: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.checkpoint = in_run(self.run.checkpoints).checkpoint
        if self.world_size is not None:
            self.touched[WORLD] = self.world_size

    # What is asked

    @property
    def paths(self) -> tuple[str, ...]:
        """The checkpoint that was chosen, or the run: then the newest usable is taken and the others explained."""
        chosen = self.touched.get(CHECKPOINT)
        return (chosen.path if chosen is not None else self.run.path,)

    def options(self) -> dict[str, Any]:
        """The options of a resume that differ from its defaults."""
        return {
            "world_size": self.touched.get(WORLD),
            "num_workers": self.touched.get(WORKERS),
            "policy": self.touched.get(POLICY),
            "backend": self.touched.get(LAUNCHER),
        }

    # What is answered

    def adopt(self, proposal: Proposal | None) -> None:
        """Take over what the proposal decided, and which rows it refuses."""
        self.refusals = {}
        if proposal is None:
            return
        for check in proposal.checks:
            if check.verdict is Verdict.REFUSE:
                self.refusals.setdefault(row_of(check), _sentence(check))
        plan = proposal.plan
        if plan is None:
            return
        self.plan_values = {
            WORLD: plan.world_size, WORKERS: plan.batch.num_workers, POLICY: plan.start.policy,
            LAUNCHER: plan.launch.backend,
        }  # fmt: skip
        chosen = [one for one in self.run.checkpoints if one.path == plan.source.checkpoint]
        if chosen:
            self.checkpoint = chosen[0]

    # Values

    def value(self, row: str) -> Any:
        """Chosen, else decided by the proposal, else guessed from the checkpoint until the proposal is there."""
        if row in self.touched:
            return self.touched[row]
        return self.plan_values.get(row, self._guess(row))

    def _guess(self, row: str) -> Any:
        checkpoint = self.checkpoint
        if row == CHECKPOINT:
            return checkpoint
        if row == WORLD:
            before = (checkpoint.world_size if checkpoint else None) or self.run.world_size or 1
            return nearest_allowed(before, self.num_splits)
        if row == WORKERS:
            return (checkpoint.num_workers if checkpoint else None) or 0
        if row == POLICY:
            return default_policy(checkpoint) if checkpoint else Policy.REPLAY_EPOCH
        return _BACKENDS[0]

    @property
    def num_splits(self) -> int | None:
        return self.checkpoint.rank_states.num_splits if self.checkpoint else None

    def choices(self, row: str) -> list[Any]:
        """What ← and → walk through, the chosen value among them."""
        return getattr(self, f"_{row}_choices")()

    def _checkpoint_choices(self) -> list[Any]:
        usable = [one for one in self.run.checkpoints if one.is_usable]
        return sorted(usable, key=lambda one: one.order, reverse=True)

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
        if checkpoint.epoch_complete:
            return [Policy.NEXT_EPOCH, Policy.REPLAY_EPOCH]
        exact = [Policy.EXACT] if checkpoint.rank_states.complete else []
        return [*exact, Policy.REPLAY_EPOCH, Policy.SKIP_EPOCH]

    def _launcher_choices(self) -> list[Any]:
        backend = self.value(LAUNCHER)
        return list(_BACKENDS) if backend in _BACKENDS else [*_BACKENDS, backend]

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
        """Choose a value; another checkpoint makes the values that it decides follow it again."""
        self.touched[row] = value
        if row == CHECKPOINT:
            self.checkpoint = value
            self.plan_values = {}
            self.touched.pop(POLICY, None)

    # What is shown

    def view(self, row: str, now: float) -> RowView:
        """The row as it is drawn at `now` (unix seconds)."""
        choices, value = self.choices(row), self.value(row)
        labels = [self._label(row, one, now) for one in choices]
        is_typed = value not in choices
        if is_typed:
            labels.append(self._label(row, value, now))
        remark = self._remark(row, value, is_typed)
        return RowView(
            options=tuple(labels),
            selected=len(labels) - 1 if is_typed else choices.index(value),
            note=self._note(row),
            remark=remark or "",
            is_wrong=row in self.refusals or (row in (WORLD, WORKERS) and is_typed and self.num_splits is not None),
            is_typed=is_typed,
        )

    def _label(self, row: str, value: Any, now: float) -> str:
        if row == CHECKPOINT:
            if value is None:
                return "none usable"
            return f"{checkpoint_words(value)}  {ages.since(ages.saved_at(value), now)}"
        if row == POLICY:
            return str(getattr(value, "value", value)).replace("-", " ")
        return text.clean(value, 30)

    def _note(self, row: str) -> str:
        if row == CHECKPOINT:
            choices = self._checkpoint_choices()
            if len(choices) < 2 or self.checkpoint not in choices:
                return ""
            place = choices.index(self.checkpoint)
            return "newest whole" if place == 0 else f"{place} before newest"
        if row == WORLD:
            return f"num_splits {self.num_splits}" if self.num_splits else "no splits known: any"
        return "per rank" if row == WORKERS else ""

    def _remark(self, row: str, value: Any, is_typed: bool) -> str:
        if row in self.refusals:
            return f"✗ {self.refusals[row]}"
        if row in (WORLD, WORKERS) and is_typed and self.num_splits:
            return f"✗ {self._why_not(row, value)}"
        return self._passed_over() if row == CHECKPOINT else ""

    def _why_not(self, row: str, value: Any) -> str:
        allowed = " ".join(map(str, self.choices(row)))
        if row == WORLD:
            return f"{self.num_splits} splits can't be shared by {value}: {allowed}"
        return f"a rank's splits can't be shared by {value} workers: {allowed}"

    def _passed_over(self) -> str:
        """Why newer files than the chosen one aren't the default."""
        if CHECKPOINT in self.touched:
            return ""
        passed = in_run(self.run.checkpoints).passed_over
        if not passed:
            return ""
        path, why = passed[0]
        more = f" (and {len(passed) - 1} more)" if len(passed) > 1 else ""
        return f"{text.clean(path.rsplit('/', 1)[-1], 48)} passed over: {text.clean(why, 200)}{more}"


def row_of(check: Check) -> str:
    """The row at which a check is shown: what the person would change to mend it."""
    for row, words in _ROW_WORDS:
        if any(word in check.id.lower() for word in words):
            return row
    return CHECKPOINT


def _sentence(check: Check) -> str:
    """What is wrong and what to do; the evidence stands with the checks."""
    more = f" → {check.remedy}" if check.remedy else (f": {check.evidence}" if check.evidence else "")
    return text.clean(check.what + more, 400)


def unusable(checkpoints: Sequence[Checkpoint]) -> list[tuple[Checkpoint, str]]:
    """Those that can't be resumed from by default, newest first, with why."""
    newest_first = sorted(checkpoints, key=lambda one: one.order, reverse=True)
    return [(one, why) for one in newest_first if (why := why_passed_over(one)) is not None]
