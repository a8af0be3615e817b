"""What is proposed for which checkpoint, and what is refused before anything is made."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import NotFound
from lavender_tui.model.plan import Policy, Verdict
from lavender_tui.resume import Options, Target, propose
from tests.resume.saves import TRAIN, check, proposed, refusals, row, save, save_beside, warnings


def root_of(run: str) -> str:
    return os.path.dirname(run)


def test_all_states_mid_epoch_start_exactly_where_it_stopped(run: str) -> None:
    save(run, 3, [row(), row()], world_size=2, global_step=4, batch={"global": 6, "num_workers": 0})
    proposal = proposed(root_of(run), world_size=1)
    plan = proposal.plan
    assert not proposal.is_refused and plan is not None
    assert (plan.start.policy, plan.start.epoch, plan.start.samples_replayed) == (Policy.EXACT, 1, 0)
    assert plan.dataset == row() and (plan.world_size_previous, plan.world_size) == (2, 1)
    assert check(proposal, "states.progress").verdict is Verdict.PASS
    assert (plan.batch.global_size, plan.batch.per_rank) == (6, 6)
    assert not os.path.exists(plan.run_dir) and os.listdir(root_of(run)) == [os.path.basename(run)]


@pytest.mark.parametrize(
    ("fields", "policy", "epoch"),
    [
        ({"epoch": 2, "epoch_complete": True}, Policy.NEXT_EPOCH, 3),
        ({"epoch": 2}, Policy.REPLAY_EPOCH, 2),
        ({"epoch": 0}, Policy.REPLAY_EPOCH, 1),
        ({"epoch": 2, "drop": ("epoch_complete",)}, Policy.REPLAY_EPOCH, 2),
    ],
)
def test_without_states_the_epoch_rule_decides(run: str, fields: dict[str, Any], policy: Policy, epoch: int) -> None:
    save(run, **fields)
    plan = proposed(run).plan
    assert plan is not None
    assert (plan.start.policy, plan.start.epoch, plan.dataset) == (policy, epoch, None)
    assert plan.start.samples_replayed == (0 if policy is Policy.NEXT_EPOCH else None)
    assert plan.start.scheduler_steps == epoch - 1


@pytest.mark.parametrize("epoch", [None, "3", True])
def test_an_epoch_that_is_no_whole_number_is_refused_not_guessed(run: str, epoch: Any) -> None:
    save(run, epoch=epoch)
    proposal = proposed(run)
    assert refusals(proposal) == ["epoch.rule"]
    assert proposal.plan is None


def test_a_complete_epoch_gives_the_next_one_with_nothing_read(run: str) -> None:
    save(run, dataset=[row(25), row(25)], epoch_complete=True, world_size=2)
    plan = proposed(run).plan
    assert plan is not None and plan.dataset == row(0, epoch=1)
    assert (plan.start.policy, plan.start.epoch) == (Policy.NEXT_EPOCH, 2)


def test_states_at_the_end_of_the_epoch_are_never_resumed(run: str) -> None:
    save(run, dataset=[row(25), row(25)], world_size=2, data={"num_rows": 100, "filter": None})
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.start.policy is Policy.NEXT_EPOCH
    assert proposal.plan.dataset == row(0, epoch=1)
    assert "states.end" in refusals(proposed(run, policy=Policy.EXACT))


def test_replay_and_skip_on_request(run: str) -> None:
    save(run, dataset=[row(), row()], world_size=2)
    again = proposed(run, policy=Policy.REPLAY_EPOCH).plan
    assert again is not None and (again.start.epoch, again.start.samples_replayed, again.dataset) == (1, 24, None)
    on = proposed(run, policy=Policy.SKIP_EPOCH).plan
    assert on is not None and (on.start.epoch, on.start.samples_replayed) == (2, 0)
    assert on.dataset == row(0, epoch=1)
    save(run, 2)
    assert "epoch.rule" in refusals(proposed(run, policy=Policy.EXACT))


@pytest.mark.parametrize("fields", [{"stage": "final"}, {"epoch": 3, "epoch_complete": True}])
def test_a_finished_training_is_refused_in_words(run: str, fields: dict[str, Any]) -> None:
    save(run, **fields)
    proposal = proposed(run)
    assert refusals(proposal) == ["epoch.over"]
    said = check(proposal, "epoch.over")
    assert "nothing is left to train" in said.what
    assert ("-- python train.py --epochs 6" in said.remedy) == ("stage" not in fields)
    same = proposed(run, command=(*TRAIN, "--epochs", "3"))
    assert refusals(same) == ["epoch.over"]
    if "stage" in fields:
        assert refusals(proposed(run, command=(*TRAIN, "--epochs", "30"))) == ["epoch.over"]


@pytest.mark.parametrize("policy", [None, Policy.NEXT_EPOCH])
def test_a_finished_training_goes_on_where_the_command_asks_for_more_epochs(run: str, policy: Policy | None) -> None:
    save(run, epoch=3, epoch_complete=True)
    proposal = proposed(run, command=(*TRAIN, "--epochs", "5"), policy=policy)
    assert not proposal.is_refused and proposal.plan is not None
    assert (proposal.plan.start.policy, proposal.plan.start.epoch) == (Policy.NEXT_EPOCH, 4)
    said = check(proposal, "epoch.rule")
    assert said.verdict is Verdict.WARN and "asks for 5 epochs" in said.what and "made for 3 epochs" in said.remedy
    assert any("5 epochs" in warning for warning in proposal.plan.warnings)


def test_the_last_epoch_can_be_left_where_the_command_asks_for_more(run: str) -> None:
    save(run, epoch=3)
    over = check(proposed(run, policy=Policy.SKIP_EPOCH), "epoch.over")
    assert over.verdict is Verdict.REFUSE and "--epochs 6" in over.remedy
    more = proposed(run, policy=Policy.SKIP_EPOCH, command=(*TRAIN, "--epochs", "4"))
    assert more.plan is not None and not more.is_refused and more.plan.start.epoch == 4


def test_bad_states_refuse_by_default_and_only_warn_where_they_are_not_used(run: str) -> None:
    save(run, dataset=[row(), row(shuffle_seed=8)], world_size=2)
    assert refusals(proposed(run)) == ["states.agree"]
    again = proposed(run, policy=Policy.REPLAY_EPOCH)
    assert not again.is_refused and "states.agree" in warnings(again)
    empty = save(run, 2, [])
    assert refusals(proposed(empty)) == ["states.shape"]


def test_files_of_another_save_are_never_mixed_in(run: str) -> None:
    old, new = save(run, 1), save(run, 2)
    save_beside(old, [row(3), row(3), row(3), row(3)])
    save_beside(new, [row(6), row(6)])
    plan = proposed(run).plan
    assert plan is not None and plan.source.checkpoint == new
    assert plan.dataset == row(6) and plan.world_size_previous == 2


@pytest.mark.parametrize("pattern", ["{stem}.rank{rank}.pt", "{stem}.rank{rank}-of-{of}.pt", "{stem}_rank{rank}.pt"])
def test_rank_files_beside_the_checkpoint(run: str, pattern: str) -> None:
    path = save(run)
    files = save_beside(path, [{"dataset": row()} for _ in range(4)], pattern)
    assert not proposed(run).is_refused
    os.unlink(files[2])
    proposal = proposed(run)
    assert refusals(proposal) == ["states.complete"] and "rank 2" in check(proposal, "states.complete").what
    with open(files[2], "wb") as file:
        file.write(b"PK\x03\x04 torn")
    assert refusals(proposed(run)) == ["states.shape"]


# Topology


@pytest.mark.parametrize("splits", [8, 12, 7])
def test_only_sizes_that_share_the_splits_are_allowed(run: str, splits: int) -> None:
    save(run, dataset=row(20, splits))
    for size in (-1, 0, *range(1, 25)):
        proposal = proposed(run, world_size=size, command=("torchrun", "-m", "x"))
        if size > 0 and splits % size == 0:
            assert not proposal.is_refused
            continue
        assert refusals(proposal) == ["topology.world-size"]
        told = check(proposal, "topology.world-size")
        allowed = ", ".join(str(one) for one in range(1, splits + 1) if splits % one == 0)
        assert allowed in told.evidence + told.remedy
    default = proposed(run).plan
    assert default is not None and splits % default.world_size == 0


def test_workers_and_batch_must_be_shareable(run: str) -> None:
    batch = {"global": 12, "num_workers": 2}
    save(run, dataset=[row(splits=8), row(splits=8)], world_size=2, batch=batch)
    assert refusals(proposed(run, world_size=2, num_workers=3, command=("torchrun", "-m", "x"))) == ["topology.workers"]
    assert "topology.batch" in warnings(proposed(run, world_size=2, command=("torchrun", "-m", "x")))
    uneven = proposed(run, world_size=8, command=("torchrun", "-m", "x"))
    assert refusals(uneven) == ["topology.batch"] and "1, 2, 4" in check(uneven, "topology.batch").remedy
    fewer = proposed(run, world_size=8, global_batch=16, command=("torchrun", "-m", "x")).plan
    assert fewer is not None and fewer.batch.num_workers == 1 and fewer.batch.per_rank == 2


# The table


def test_the_recorded_version_must_still_be_there(run: str, table: Any) -> None:
    uri = os.path.dirname(table.uri)
    data = {
        "uri": uri, "table": "rows", "version": table.version, "num_rows": 1000, "filter": None, "shuffle": True,
        "shuffle_clump_size": None, "columns": None,
    }  # fmt: skip
    states = [row(24, 8), row(24, 8)]
    save(run, dataset=states, data=data, world_size=2)
    good = proposed(run)
    assert check(good, "data.version").verdict is Verdict.PASS
    assert check(good, "data.params").verdict is Verdict.PASS
    save(run, 2, states, data={**data, "version": 99}, world_size=2)
    gone = proposed(run)
    assert refusals(gone) == ["data.version"] and "99" in check(gone, "data.version").what
    save(run, 3, states, data={**data, "uri": uri + "-not-here"}, world_size=2)
    assert refusals(proposed(run)) == ["data.version"] and not os.path.exists(uri + "-not-here")
    save(run, 4, states, world_size=2)
    assert "data.recorded" in warnings(proposed(run))


# Which checkpoint


def test_newer_files_that_cannot_be_used_are_named(run: str) -> None:
    save(run, 1)
    cut = save(run, 2)
    with open(cut, "r+b") as file:
        file.truncate(os.path.getsize(cut) * 6 // 10)
    os.utime(cut, (1, 1))
    proposal = proposed(root_of(run))
    assert proposal.plan is not None and proposal.plan.source.save_count == 1
    assert [path for path, _ in proposal.passed_over] == [cut]
    assert "checkpoint.newer" in warnings(proposal)
    named = proposed(cut)
    assert [one.id for one in named.checks] == ["checkpoint.whole"] and named.plan is None


def test_missing_parts_are_named_before_the_launch(run: str) -> None:
    save(run, 1, drop=("optimizer_state_dict",))
    assert "checkpoint.optimizer" in warnings(proposed(run))
    weightless = save(run, 2, drop=("model_state_dict",))
    assert "checkpoint.model" in refusals(proposed(weightless)) + refusals(proposed(weightless))


def test_a_model_without_a_single_weight_is_a_part_of_something_else(run: str) -> None:
    shard = save(run, 1, model_state_dict={"frozen": None})
    assert refusals(proposed(shard)) == ["checkpoint.model"]


def test_exactly_where_it_stopped_is_never_said_of_states_that_are_refused(run: str) -> None:
    save(run, dataset=[row(), row(splits=8)], world_size=2)
    proposal = proposed(run)
    assert proposal.is_refused and "epoch.rule" not in [one.id for one in proposal.checks]
    assert proposal.plan is not None and proposal.plan.start.samples_replayed is None


def test_a_root_without_anything_usable_and_a_path_that_is_not_there(tmp_path: Path) -> None:
    proposal = proposed(str(tmp_path))
    assert proposal.plan is None and refusals(proposal) == ["checkpoint.found"]
    with pytest.raises(NotFound):
        proposed(str(tmp_path / "nowhere"))


def test_the_stage_is_what_the_content_says(run: str) -> None:
    save(run, 1, stage="pretrain")
    save(run, 2, stage="sft")
    plan = proposed(run, stage="pretrain").plan
    assert plan is not None and plan.source.stage == "pretrain"
    assert proposed(run, stage="dpo").plan is None


# Place and command


def test_without_a_command_it_says_how_to_give_one(run: str, tmp_path: Path) -> None:
    save(run)
    proposal = propose(Target(paths=(run,)), Options(project_dir=str(tmp_path)))
    assert refusals(proposal) == ["command.found"] and "--" in check(proposal, "command.found").remedy
    assert refusals(proposed(run, command=("no-such-program", "x"))) == ["command.found"]


def test_a_script_that_is_not_there_is_known_before_the_launch(run: str, tmp_path: Path) -> None:
    save(run)
    options = Options(project_dir=str(tmp_path), command=(sys.executable, "nosuch.py"))
    told = check(propose(Target(paths=(run,)), options), "command.found")
    assert "nosuch.py" in told.what and str(tmp_path) in told.what and told.verdict == "refuse"
    (tmp_path / "nosuch.py").write_text("")
    assert check(propose(Target(paths=(run,)), options), "command.found").verdict == "pass"


@pytest.mark.parametrize(
    ("policy", "replayed", "skipped", "left"),
    [(None, 0, 0, 76), ("replay-epoch", 24, 0, 100), ("skip-epoch", 0, 76, 100), ("next-epoch", 0, 76, 100)],
)
def test_the_plan_counts_rows(run: str, policy: str | None, replayed: int, skipped: int, left: int) -> None:
    """103 rows in 4 splits: 100 can be read, 24 of them have been."""
    save(run, dataset=[row(), row()], world_size=2, data={"num_rows": 103})
    plan = proposed(run, policy=Policy(policy) if policy else None).plan
    assert plan is not None
    start = plan.start
    assert (start.samples_trained, start.samples_replayed) == (24, replayed)
    assert (start.samples_skipped, start.samples_left) == (skipped, left)


def test_the_command_is_filled_in(run: str) -> None:
    path = save(run, dataset=[row(), row()], world_size=2)
    words = ("{checkpoint}", "{plan}", "{state}", "{run_dir}", "{world_size}", "{stage}", "{start_epoch}")
    plan = proposed(run, command=(sys.executable, "-m", "t", *words), world_size=1).plan
    assert plan is not None
    filled = plan.launch.argv[-7:]
    assert filled[0] == path and filled[1] == os.path.join(plan.run_dir, "resume.json")
    assert filled[2].endswith(".pt") and filled[3:] == (plan.run_dir, "1", "pretrain", "1")
    stateless = save(run, 2)
    assert refusals(proposed(stateless, command=(sys.executable, "-m", "t", "{state}"))) == ["command.fits"]


def test_a_place_where_nothing_can_be_made_is_refused(run: str) -> None:
    save(run)
    proposal = proposed(run, root="/proc/nowhere")
    assert "place.writable" in refusals(proposal) or "place.space" in refusals(proposal)


def test_a_proposal_is_quick_and_needs_neither_torch_nor_lancedb(run: str) -> None:
    import subprocess

    save(run, dataset=[row(splits=64) for _ in range(64)], world_size=64)
    script = (
        "import sys, time; from lavender_tui.resume import propose, Target, Options\n"
        f"t = Target(paths=({run!r},)); propose(t, Options(command=('torchrun', 'x.py')))\n"
        "begun = time.process_time(); propose(t, Options(command=('torchrun', 'x.py')))\n"
        "taken = time.process_time() - begun\n"
        "assert not {'torch', 'lancedb', 'pyarrow'} & set(sys.modules), sorted(sys.modules)\n"
        "assert taken < 1.5, taken"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize(("sample", "program"), [("deepspeed", "DeepSpeed"), ("hf-trainer", "Hugging Face Trainer")])
def test_a_directory_of_another_programs_parts_says_what_it_is(tmp_path: Path, sample: str, program: str) -> None:
    place = Path(__file__).parents[1] / "data" / "samples" / sample
    shutil.copytree(place, tmp_path / "root" / "run-2026-04-24_18-53-41")
    for target in ("root", "root/run-2026-04-24_18-53-41"):
        proposal = proposed(str(tmp_path / target))
        found = check(proposal, "checkpoint.found")
        assert proposal.plan is None and f"parts of a {program} directory checkpoint" in found.what


def test_a_run_without_a_save_says_so(tmp_path: Path) -> None:
    (tmp_path / "run-2026-04-24_18-53-41").mkdir()
    assert "nothing is saved there" in check(proposed(str(tmp_path)), "checkpoint.found").what
