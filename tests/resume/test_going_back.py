"""Back before the loss jumped, over all the runs that led to it."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from lavender_tui.errors import UsageError
from lavender_tui.launch.files import encode, write_atomically
from lavender_tui.model.plan import Verdict
from lavender_tui.resume import Options, Target, propose
from tests.resume.saves import TRAIN, check, proposed, refusals, save


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoints")


def run_of(root: str, day: int) -> str:
    return os.path.join(root, f"run-2026-04-{day:02d}_10-00-00")


def log(run: str, losses: dict[int, float | None]) -> None:
    with open(os.path.join(run, "metrics.jsonl"), "w") as file:
        for step, loss in losses.items():
            file.write(json.dumps({"step": step, "loss": loss}) + "\n")


def noise(first: int, last: int, level: float = 2.4) -> dict[int, float]:
    draw = random.Random(first)
    return {step: level * (1 + draw.gauss(0, 0.03)) for step in range(first, last)}


def came_from(run: str, checkpoint: str) -> None:
    source = {"run": os.path.dirname(checkpoint), "checkpoint": checkpoint}
    write_atomically(os.path.join(run, "resume.json"), encode({"source": source, "world_size": {"next": 1}}))


def test_the_newest_checkpoint_from_before_the_jump(root: str) -> None:
    run = run_of(root, 24)
    for count, step in enumerate((100, 200, 299, 350), 1):
        save(run, count, global_step=step)
    log(run, {**noise(1, 300), **noise(300, 360, level=9.0)})
    proposal = proposed(root, before_spike=True)
    assert proposal.plan is not None and proposal.plan.source.save_count == 2
    told = check(proposal, "spike.before")
    assert "at step 300" in told.what and "(2.415 → 8.797)" in told.what
    # The loss of step 300 is what the weights after step 299 make.
    assert [reason[:20] for _, reason in proposal.passed_over] == ["not from before the "] * 2
    plain = proposed(root).plan
    assert plan_count(plain) == 4


def plan_count(plan: object) -> int | None:
    return None if plan is None else plan.source.save_count  # type: ignore[attr-defined]


def test_noise_gives_nothing_to_go_back_to(root: str) -> None:
    run = run_of(root, 24)
    save(run, 1, global_step=100)
    log(run, noise(1, 400))
    proposal = proposed(run, before_spike=True)
    assert refusals(proposal) == ["spike.before"] and "no jump" in check(proposal, "spike.before").what


def test_a_loss_that_is_no_number_is_a_jump_and_older_saves_are_judged_by_their_own_loss(root: str) -> None:
    run = run_of(root, 24)
    for count, loss in enumerate((3.0, 2.9, 2.8, 2.7, float("nan"), float("nan")), 1):
        save(run, count, pretrain_loss=loss)
    proposal = proposed(root, before_spike=True)
    assert plan_count(proposal.plan) == 4
    assert "no number" in check(proposal, "spike.before").what


def test_the_way_back_leads_over_resumes(root: str) -> None:
    old, new = run_of(root, 24), run_of(root, 25)
    kept = save(old, 1, global_step=100)
    left = save(old, 2, global_step=199)
    save(old, 3, global_step=260)
    log(old, noise(1, 270))
    os.makedirs(new)
    came_from(new, left)
    log(new, dict.fromkeys(range(200, 210)))
    for target in (root, new):  # the jump came before the younger run's first save
        proposal = proposed(target, before_spike=True)
        assert proposal.plan is not None and proposal.plan.source.checkpoint == kept
    save(new, 1, global_step=205)
    assert plan_count(proposed(root).plan) == 1  # the newest run's newest, without a word of the jump


def test_the_way_back_ends_where_the_stage_began(root: str) -> None:
    old, new = run_of(root, 24), run_of(root, 25)
    left = save(old, 1, global_step=199)
    log(old, noise(1, 200))
    save(new, 1, stage="sft", global_step=50)
    came_from(new, left)
    log(new, noise(1, 60, level=7.0))  # higher than the stage before, and no jump
    assert refusals(proposed(root, before_spike=True)) == ["spike.before"]


def test_nothing_usable_from_before_the_jump_is_said(root: str) -> None:
    run = run_of(root, 24)
    save(run, 1, global_step=350)
    log(run, {**noise(1, 300), **noise(300, 360, level=9.0)})
    proposal = proposed(run, before_spike=True)
    assert refusals(proposal) == ["spike.before"] and len(proposal.passed_over) == 1


def test_a_named_file_is_a_choice_already(root: str) -> None:
    path = save(run_of(root, 24))
    with pytest.raises(UsageError, match="Name its run"):
        propose(Target(paths=(path,)), Options(command=TRAIN, before_spike=True))


def test_a_plain_resume_from_after_a_jump_says_so_and_where_to_go_back_to(root: str) -> None:
    run = run_of(root, 24)
    saves = [save(run, count, global_step=step) for count, step in enumerate((100, 200, 299, 350), 1)]
    log(run, {**noise(1, 300), **noise(300, 360, level=9.0)})
    proposal = proposed(root)
    told = check(proposal, "spike.after")
    assert not proposal.is_refused and told.verdict is Verdict.WARN
    assert "before this checkpoint was saved, at step 300 (2.415 → 8.797)" in told.what
    assert os.path.basename(saves[1]) in told.remedy and "--before-spike" in told.remedy
    assert proposal.before_spike is not None and proposal.before_spike.path == saves[1]
    assert proposal.checkpoint is not None and proposal.checkpoint.path == saves[3]
    named = proposed(saves[1])
    assert named.spike is None and not [one for one in named.checks if one.id == "spike.after"]


def test_a_jump_that_came_down_again_before_the_save_is_no_reason(root: str) -> None:
    run = run_of(root, 24)
    for count, step in enumerate((100, 200, 299, 500), 1):
        save(run, count, global_step=step)
    log(run, {**noise(1, 300), **noise(300, 360, level=9.0), **noise(360, 520)})
    assert proposed(root).spike is None
    assert plan_count(proposed(root, before_spike=True).plan) == 2, "asked for, it is gone back before it"


def test_behind_a_jump_the_way_back_may_lead_into_the_run_before(root: str) -> None:
    old, new = run_of(root, 24), run_of(root, 25)
    first = save(old, 1, global_step=100)
    log(old, noise(1, 101))
    save(new, 1, global_step=180)
    came_from(new, first)
    log(new, {**noise(101, 150), **noise(150, 190, level=9.0)})
    proposal = proposed(new)
    assert proposal.before_spike is not None and proposal.before_spike.path == first
