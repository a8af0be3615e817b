"""What is said of the learning rate's schedule in a checkpoint before a resume, as torch's own really behave."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lavender_tui.model.plan import Verdict
from lavender_tui.resume.epochs_asked import epochs_in
from tests.resume.full_files import full
from tests.resume.saves import TRAIN, check, proposed, save

pytestmark = pytest.mark.usefixtures("nothing_remembered")


def test_a_schedule_that_was_not_saved_shows_in_the_optimizer(run: str) -> None:
    content = full()
    del content["scheduler_state_dict"]
    save(run, versions={"lavender_tui": "0.1.0"}, **content)
    assert "followed a schedule, which was not saved" in check(proposed(run), "checkpoint.restores").evidence


@pytest.mark.parametrize(
    ("counter", "length", "more", "verdict"),
    [
        (3, 3000, {"global_step": 900}, "warn"),
        (2, 3000, {"global_step": 900}, "warn"),
        (3, 2700, {"global_step": 900}, "warn"),  # a warm-up comes before it
        (3, 10, {"global_step": 900}, "pass"),
        (300, 1000, {"global_step": 300}, "pass"),
        (3, 1000, {"global_step": 3}, "pass"),
        (3, 50, {"global_step": 900}, "pass"),  # stepped once per epoch, and longer on purpose
        (3, 1000, {}, "warn"),  # how many steps there are isn't known, but no schedule is that long in epochs
        (3, 50, {}, "pass"),
        (1, 1000, {"global_step": 8, "epoch": 1}, "pass"),  # gradients of 8 batches for each step
        (1, 1000, {"global_step": 100, "epoch": 1, "epoch_complete": True}, "warn"),
    ],
)
def test_an_epoch_in_the_place_of_a_step(
    run: str, counter: int, length: int, more: dict[str, Any], verdict: str
) -> None:
    schedule = {"last_epoch": counter, "base_lrs": [3e-4], "T_max": length}
    save(run, **{**full(), "scheduler_state_dict": schedule, "epoch": 3, **more})
    said = check(proposed(run), "checkpoint.schedule")
    assert said.verdict == verdict and f"stands at {counter} of" in said.what


@pytest.mark.parametrize(
    ("schedule", "steps", "said"),
    [
        (lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, T_max=10), 9, ""),
        (lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, T_max=10), 10, "climbs again"),
        (lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, T_max=10), 13, "goes up and down"),
        (lambda one: torch.optim.lr_scheduler.OneCycleLR(one, max_lr=1.0, total_steps=10), 7, ""),
        (lambda one: torch.optim.lr_scheduler.OneCycleLR(one, max_lr=1.0, total_steps=10), 10, "raises a ValueError"),
        (lambda one: torch.optim.lr_scheduler.PolynomialLR(one, total_iters=10), 10, "stays at 0"),
        (lambda one: torch.optim.lr_scheduler.LinearLR(one, total_iters=10), 12, ""),
        (lambda one: torch.optim.lr_scheduler.LinearLR(one, 1.0, 0.0, total_iters=10), 12, "stays at 0"),
        (lambda one: torch.optim.lr_scheduler.CosineAnnealingLR(one, T_max=100 / 10), 10, "climbs again"),
        (lambda one: warm(one), 9, ""),
        (lambda one: warm(one), 10, "7 of 7 (T_max), part 2 of 2: its learning rate climbs again"),
        (lambda one: warm(one), 13, "goes up and down"),
        (lambda one: warm(one, 20), 12, ""),
        (lambda one: together(one), 9, ""),
        (lambda one: together(one), 10, "10 of 10 (T_max), part 2 of 2: its learning rate climbs again"),
        (lambda one: Clamped(one, T_max=10), 12, ""),
        (lambda one: Clamped(one, total_steps=10), 12, ""),
        (lambda one: Clamped(one, total_iters=10, power=1.0, end_lr=0.1), 12, ""),
    ],
)
def test_a_schedule_that_is_over(run: str, schedule, steps: int, said: str) -> None:
    """What is said is what torch then does: the rate climbs, the step raises, the rate is 0."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    one = schedule(optimizer)
    for _ in range(steps):
        optimizer.step()
        one.step()
    rate = optimizer.param_groups[0]["lr"]
    save(run, **{**full(), "scheduler_state_dict": one.state_dict(), "global_step": steps})
    found = check(proposed(run), "checkpoint.schedule")
    assert found.verdict == ("warn" if said else "pass") and said in found.what
    if "raises" in said:
        with pytest.raises(ValueError, match="total"):
            one.step()
        return
    one.step()
    after = optimizer.param_groups[0]["lr"]
    assert (after > rate) == said.endswith(("climbs again", "goes up and down"))
    assert (rate == after == 0) == (said == "stays at 0")


def warm(optimizer: torch.optim.Optimizer, third: int | None = None) -> Any:
    of = torch.optim.lr_scheduler
    parts = [
        of.LinearLR(optimizer, 0.1, total_iters=3),
        of.CosineAnnealingLR(optimizer, T_max=7 if third is None else 9),
    ]
    if third is None:
        return of.SequentialLR(optimizer, parts, [3])
    return of.SequentialLR(optimizer, [*parts, of.ConstantLR(optimizer, total_iters=0)], [3, 12])


def together(optimizer: torch.optim.Optimizer) -> Any:
    of = torch.optim.lr_scheduler
    parts = [of.LinearLR(optimizer, 0.1, total_iters=3), of.CosineAnnealingLR(optimizer, T_max=10)]
    return of.ChainedScheduler(parts, optimizer)


class Clamped(torch.optim.lr_scheduler.LRScheduler):
    """One's own: it stays at a tenth."""

    def __init__(self, optimizer: torch.optim.Optimizer, **own: float) -> None:
        vars(self).update(own)
        self.length = next(iter(own.values()))
        super().__init__(optimizer)

    def get_lr(self) -> list[float | torch.Tensor]:
        return [one * max(0.1, 1 - self.last_epoch / self.length) for one in self.base_lrs]


@pytest.mark.parametrize(
    "around",
    [
        lambda one: {"step": 10, "scheduler": one},
        lambda one: [one],
        lambda one: [{"last_epoch": 4, "base_lrs": [0.1], "gamma": 0.1}, one],
        lambda one: {"cosine": one},
    ],
)
def test_a_schedule_within_something_else_is_found(run: str, around: Any) -> None:
    content = full()
    inner = {**content["scheduler_state_dict"], "T_max": 300}
    save(run, **{**content, "scheduler_state_dict": around(inner)})
    said = check(proposed(run), "checkpoint.schedule")
    assert said.verdict is Verdict.WARN and "300 of 300 (T_max)" in said.what and "climbs again" in said.what


@pytest.mark.parametrize("length", [0, -3])
def test_a_length_that_is_none(run: str, length: int) -> None:
    content = full()
    save(run, **{**content, "scheduler_state_dict": {**content["scheduler_state_dict"], "T_max": length}})
    said = check(proposed(run), "checkpoint.schedule")
    assert said.verdict is Verdict.PASS and said.what == "the schedule stands at 300"


def test_a_schedule_under_another_key_is_the_scripts_own(run: str) -> None:
    """It is in the file: that it isn't restored would contradict where it stands."""
    content = full()
    save(run, lr_schedulers=[content.pop("scheduler_state_dict")], **content)
    proposal = proposed(run)
    said = check(proposal, "checkpoint.restores")
    assert "schedule" in said.what.split(". Does not")[0] and "schedule" not in said.evidence
    said = check(proposal, "checkpoint.schedule")
    assert "saved as lr_schedulers, which only the training script itself restores" in said.what


def test_other_epochs_in_the_command_are_warned_of(run: str) -> None:
    save(run, **full())
    other = check(proposed(run, command=(*TRAIN, "--epochs", "12")), "checkpoint.epochs")
    assert other.verdict is Verdict.WARN and "12 epochs" in other.what and "over 10" in other.what
    assert "T_max 1,000" in other.evidence
    same = proposed(run, command=(*TRAIN, "--epochs=10"))
    assert "checkpoint.epochs" not in [one.id for one in same.checks]


@pytest.mark.parametrize(
    ("words", "epochs"),
    [
        (("train.py", "--epochs", "3"), 3), (("train.py", "--max-epochs=4"), 4), (("x.py", "trainer.max_epochs=5"), 5),
        (("train.py", "--epochs", "x"), None), (("train.py", "--epochs"), None), (("train.py", "epochs", "3"), None),
        (("train.py", "--save-epochs", "3"), None), ((), None),
        (("t.py", "--epochs", "6", "--epochs", "4"), 4), (("t.py", "epochs=6", "+epochs=4"), 4),
        (("t.py", "warmup.epochs=10", "epochs=4"), 4), (("t.py", "--swa.epochs", "10", "--epochs", "4"), 4),
        (("t.py", "epochs=4", "warmup.epochs=10"), 4), (("t.py", "--swa.epochs=10"), None),
        (("t.py", "training.epochs=5", "train.epochs=6"), 6), (("t.py", "epochs=4", "trainer.max_epochs=9"), 4),
        (("t.py", "--epochs", "4", "--epochs", "x"), None),
    ],
)  # fmt: skip
def test_epochs_in_a_command(words: tuple[str, ...], epochs: int | None) -> None:
    assert epochs_in(words) == epochs
