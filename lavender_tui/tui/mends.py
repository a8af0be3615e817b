"""The nearest choice that works, for what refuses a resume: one key takes it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lavender_tui.model import text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.plan import Check, Policy, Proposal, Verdict
from lavender_tui.model.start import is_training_over
from lavender_tui.tui.outlook import checkpoint_words

if TYPE_CHECKING:
    from lavender_tui.tui.sheet import Sheet

CHECKPOINT, STAGE, WORLD, WORKERS, POLICY, LAUNCHER = (
    "checkpoint", "stage", "world_size", "workers", "policy", "launcher"
)  # fmt: skip
# Which row a check is shown at: the first row one of whose words is in the check's id.
_ROW_WORDS = (
    (WORKERS, ("worker", "states.uniform")),
    (WORLD, ("topology", "world", "batch", "devices")),
    (STAGE, ("stage",)),
    (POLICY, ("policy", "epoch", "start")),
    (LAUNCHER, ("command", "launch", "backend", "place", "port")),
)


@dataclass(frozen=True, slots=True)
class Mend:
    """Choose `value` in `row`; `words` say it after the key: "takes world_size 2"."""

    row: str
    value: Any
    words: str


def row_of(check: Check) -> str:
    """The row at which a check is shown: what the person would change to mend it."""
    for row, words in _ROW_WORDS:
        if any(word in check.id.lower() for word in words):
            return row
    return CHECKPOINT


def mend_of(proposal: Proposal, sheet: Sheet) -> tuple[Check, Mend] | None:
    """The first refusal that something on the sheet can mend, and what mends it; None where nothing can."""
    refused = [check for check in proposal.checks if check.verdict is Verdict.REFUSE]
    for check in refused:
        for prefix, find in _MENDS:
            if check.id.startswith(prefix) and (found := find(proposal, sheet)) is not None:
                return check, found
    return None


def _world(proposal: Proposal, sheet: Sheet) -> Mend | None:
    batch = proposal.plan.batch.global_size if proposal.plan is not None else None
    sizes = [size for size in sheet.choices(WORLD) if size > 0 and (not batch or batch < 1 or batch % size == 0)]
    size = _nearest(sizes, sheet.value(WORLD))
    return None if size is None else Mend(WORLD, size, f"takes world_size {size}")


def _workers(proposal: Proposal, sheet: Sheet) -> Mend | None:
    wanted = sheet.value(WORKERS)
    is_uniform = all(one.id != "states.uniform" for one in proposal.checks if one.verdict is Verdict.REFUSE)
    allowed = [count for count in sheet.choices(WORKERS) if is_uniform or count < 2]
    count = _nearest(allowed, wanted)
    return None if count is None else Mend(WORKERS, count, f"takes {text.plural(count, 'worker')}")


def _nearest(allowed: Sequence[int], wanted: Any) -> int | None:
    """The nearest other number; of two the smaller."""
    others = [one for one in allowed if one != wanted]
    return min(others, key=lambda one: (abs(one - wanted), one), default=None) if isinstance(wanted, int) else None


def _over(proposal: Proposal, sheet: Sheet) -> Mend | None:
    """The next stage; where only the chosen policy leads beyond the end, the default one."""
    if sheet.checkpoint is not None and not is_training_over(sheet.checkpoint):
        return _own_policy(proposal, sheet)
    following = [stage for stage in sheet.choices(STAGE) if stage is not None]
    return Mend(STAGE, following[0], f"starts the next stage, {text.clean(following[0], 20)}") if following else None


def _own_policy(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    return Mend(POLICY, None, "takes the policy back") if POLICY in sheet.touched else None


def _replay(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    is_possible = Policy.REPLAY_EPOCH in sheet.choices(POLICY) and sheet.value(POLICY) is not Policy.REPLAY_EPOCH
    return Mend(POLICY, Policy.REPLAY_EPOCH, "reads the epoch again from its start") if is_possible else None


def _states(proposal: Proposal, sheet: Sheet) -> Mend | None:
    """An earlier save loses its steps and no rows; without one the epoch is read again."""
    earlier = _earlier(sheet, lambda one: bool(one.rank_states.complete or one.epoch_complete))
    return _choose(earlier) if earlier is not None else _replay(proposal, sheet)


def _another_file(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    earlier = _earlier(sheet, lambda one: True)
    return _choose(earlier) if earlier is not None else None


def _earlier(sheet: Sheet, is_good: Callable[[Checkpoint], bool]) -> Checkpoint | None:
    """The newest save before the chosen one that isn't known to be bad."""
    choices, bad = sheet.choices(CHECKPOINT), dict(sheet.run.known_bad)
    place = choices.index(sheet.checkpoint) + 1 if sheet.checkpoint in choices else 0
    return next((one for one in choices[place:] if one.path not in bad and is_good(one)), None)


def _choose(checkpoint: Checkpoint) -> Mend:
    return Mend(CHECKPOINT, checkpoint, f"goes back to {checkpoint_words(checkpoint)}")


def _newest(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    return Mend(CHECKPOINT, None, "takes the newest checkpoint") if sheet.is_before_spike else None


def _no_stage(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    return Mend(STAGE, None, "goes on with the stage that was saved") if STAGE in sheet.touched else None


def _launcher(proposal: Proposal, sheet: Sheet) -> Mend | None:
    del proposal
    backend = sheet.value(LAUNCHER)
    other = next((one for one in sheet.choices(LAUNCHER) if one != backend), None)
    return Mend(LAUNCHER, other, f"takes the launcher {text.clean(other, 20)}") if other is not None else None


_MENDS: tuple[tuple[str, Callable[[Proposal, Sheet], Mend | None]], ...] = (
    ("topology.workers", _workers),
    ("topology.", _world),
    ("states.uniform", _workers),
    ("states.end", _own_policy),
    ("states.", _states),
    ("epoch.over", _over),
    ("epoch.rule", _replay),
    ("data.", _replay),
    ("checkpoint.", _another_file),
    ("spike.", _newest),
    ("stage.", _no_stage),
    ("command.fits", _launcher),
)
