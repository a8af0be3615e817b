"""What is said of a checkpoint's inside before a resume, on real files."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import lavender_tui.demo
from lavender_tui.checkpoints.findings import Cancelled
from lavender_tui.launch.code_version import code_version
from lavender_tui.model.plan import Verdict
from lavender_tui.resume import Options, examine, examined, is_examined_by_default, version_checks
from lavender_tui.resume.version_checks import installed
from tests.resume.full_files import full, net, parts
from tests.resume.saves import TRAIN, check, proposed, refusals, row, save, warnings

Net = Callable[[], tuple[dict[str, Any], dict[str, Any]]]


pytestmark = pytest.mark.usefixtures("nothing_remembered")


# ---- names


@pytest.mark.parametrize(
    ("prefix", "wrapper"),
    [
        ("module.", "DistributedDataParallel or DataParallel"),
        ("_orig_mod.", "torch.compile"),
        ("_orig_mod.module.", "torch.compile around DistributedDataParallel or DataParallel"),
        ("module._orig_mod.", "DistributedDataParallel or DataParallel around torch.compile"),
    ],
)
def test_a_wrappers_prefix_is_named(run: str, prefix: str, wrapper: str) -> None:
    both = parts()
    both["model_state_dict"] = {prefix + name: one for name, one in both["model_state_dict"].items()}
    save(run, **both)
    said = check(proposed(run), "checkpoint.prefixes")
    assert said.verdict is Verdict.WARN
    assert f"carry {prefix} " in said.what and f"inside {wrapper})" in said.what and "4 of 4" in said.evidence


def test_a_prefix_further_inside_is_named_and_plain_names_are_not_spoken_of(run: str) -> None:
    save(run, 1, **parts())
    proposal = proposed(run)
    assert "checkpoint.prefixes" not in [one.id for one in proposal.checks]
    both = parts()
    both["model_state_dict"]["2._fsdp_wrapped_module.weight"] = torch.ones(2)
    save(run, 2, **both)
    assert "inside FSDP" in check(proposed(run), "checkpoint.prefixes").what


def test_mixed_names_are_said_with_the_weight_that_stands_twice(run: str) -> None:
    both = parts()
    weights = both["model_state_dict"]
    mixed = {f"module.{name}": one for name, one in weights.items()}
    save(run, **{**both, "model_state_dict": {**mixed, "0.weight": weights["0.weight"]}})
    said = check(proposed(run), "checkpoint.prefixes")
    assert said.verdict is Verdict.WARN and "0.weight and module.0.weight" in said.what


# ---- the optimizer


def test_an_optimizer_of_other_parameters_is_said_with_both_counts(run: str) -> None:
    model, _ = net()
    small = torch.optim.AdamW(model[1].parameters())  # type: ignore[index]
    save(run, **{**parts(), "optimizer_state_dict": small.state_dict()})
    said = check(proposed(run), "checkpoint.fits")
    assert said.verdict is Verdict.WARN and "covers 2 of the model's 4 parameters" in said.what


def test_an_optimizer_of_another_model_is_seen_by_its_shapes(run: str) -> None:
    other = torch.nn.Linear(7, 5)
    optimizer = torch.optim.AdamW(other.parameters())
    other(torch.ones(1, 7)).sum().backward()
    optimizer.step()
    save(run, **{**parts(), "optimizer_state_dict": optimizer.state_dict()})
    said = check(proposed(run), "checkpoint.fits")
    assert said.verdict is Verdict.WARN and "[5, 7]" in said.what
    many = torch.optim.SGD([torch.ones(1, requires_grad=True) for _ in range(6)])
    save(run, 2, **{**parts(), "optimizer_state_dict": many.state_dict()})
    assert "is of 6 parameters, the model has 4" in check(proposed(run), "checkpoint.fits").what


def test_state_without_a_group_is_said(run: str) -> None:
    both = parts()
    both["optimizer_state_dict"]["param_groups"][0]["params"] = [0, 1, 2]
    save(run, **both)
    assert "1 parameter that no group" in check(proposed(run), "checkpoint.fits").what


def test_tied_weights_and_buffers_are_no_parameters_of_their_own(run: str) -> None:
    class Tied(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.norm = torch.nn.Embedding(10, 4), torch.nn.BatchNorm1d(4)
            self.head = torch.nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("inv_freq", torch.ones(3))
            self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))

    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters())
    save(run, model_state_dict=model.state_dict(), optimizer_state_dict=optimizer.state_dict())
    said = check(proposed(run), "checkpoint.fits")
    assert said.verdict is Verdict.PASS and said.what.endswith("3 parameters")


def test_an_optimizer_by_name_is_compared_by_name(run: str) -> None:
    both = parts()
    names = list(both["model_state_dict"])
    state = {name: {"exp_avg": torch.ones(1)} for name in names}
    by_name = {"state": state, "param_groups": [{"lr": 0.1, "params": names}]}
    save(run, 1, **{**both, "optimizer_state_dict": by_name})
    assert check(proposed(run), "checkpoint.fits").verdict is Verdict.PASS
    by_name["param_groups"][0]["params"] = [*names, "2.weight"]  # type: ignore[index]
    save(run, 2, **{**both, "optimizer_state_dict": by_name})
    assert "2.weight, which the model doesn't have" in check(proposed(run), "checkpoint.fits").what


def test_other_groups_than_in_the_save_before_are_mentioned(run: str) -> None:
    both = parts()
    save(run, 1, **both)
    save(run, 2, **both)
    assert "checkpoint.groups" not in [one.id for one in proposed(run).checks]
    group = both["optimizer_state_dict"]["param_groups"][0]
    both["optimizer_state_dict"]["param_groups"] = [{**group, "params": [0, 1]}, {**group, "params": [2, 3]}]
    save(run, 3, **both)
    said = check(proposed(run), "checkpoint.groups")
    assert said.verdict is Verdict.WARN and "2 groups (2 + 2)" in said.what and "1 group (4)" in said.what
    assert said.evidence == "pretrain-10-00-00-0002.pt"
    new = save(run, 4, stage="sft", **parts())
    assert check(proposed(new), "checkpoint.groups").verdict is Verdict.PASS


# ---- what it gives back


def test_what_a_bare_file_does_not_restore_is_listed(run: str) -> None:
    save(run, **parts())
    said = check(proposed(run), "checkpoint.restores")
    restores, lacks = said.what.split(". Does not restore: ")
    assert restores == "restores: model, optimizer" and said.verdict is Verdict.WARN
    assert lacks == "schedule, random state, position in the data", "a loss scaler was never seen"
    assert "starts anew" in said.evidence and "dropout" in said.evidence
    assert "from 0.0003" in said.evidence


def test_a_full_file_restores_everything(run: str) -> None:
    save(run, dataset=row(), scaler={"scale": 2.0}, **full())
    proposal = proposed(run)
    said = check(proposal, "checkpoint.restores")
    assert said.verdict is Verdict.PASS and "Does not" not in said.what
    assert said.what.endswith("schedule, random state, loss scaler, position in the data")
    said = check(proposal, "checkpoint.schedule")
    assert "stands at 300 of 1,000 (T_max)" in said.what and said.evidence.startswith("learning rate 0.000")


@pytest.mark.parametrize("has_rng", [True, False])
def test_a_loss_is_named_only_where_it_is_one(run: str, has_rng: bool) -> None:
    """Neither a loss scaler nor a schedule was ever seen; and a check with a tick names no loss."""
    content = {**parts(), "rng": [{"torch": torch.get_rng_state()}]}
    if not has_rng:
        del content["rng"]
    save(run, dataset=row(), versions={"lavender_tui": "0.1.0"}, **content)
    said = check(proposed(run), "checkpoint.restores")
    lost = "" if has_rng else ". Does not restore: random state"
    assert said.verdict is (Verdict.PASS if has_rng else Verdict.WARN)
    given = "model, optimizer, random state" if has_rng else "model, optimizer"
    assert said.what == f"restores: {given}, position in the data{lost}"


# ---- versions


def test_versions_then_and_here(run: str) -> None:
    here = {name: installed(name) for name in ("torch", "lancedb", "python")}
    save(run, 1, versions=here)
    assert check(proposed(run), "checkpoint.versions").verdict is Verdict.PASS
    save(run, 2, versions={**here, "torch": "1.13.1+cu117", "python": "3.7.1"})
    said = check(proposed(run), "checkpoint.versions")
    assert said.verdict is Verdict.WARN
    assert f"torch 1.13.1+cu117 then, {here['torch']} (newer) here" in said.what and "python 3.7.1" in said.what
    save(run, 3, versions={**here, "lancedb": "99.0.0"})
    said = check(proposed(run), "checkpoint.versions")
    assert "(older) here" in said.what and "order of rows" in said.evidence
    save(run, 4, versions={**here, "torch": "\x1b[31mnew", "lancedb": ["a"], "python": None})
    assert "\x1b" not in check(proposed(run), "checkpoint.versions").what


def git(directory: Path, *words: str) -> str:
    name = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    out = subprocess.run(["git", *name, *words], cwd=directory, capture_output=True, text=True, check=True)
    return out.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(version_checks, "_TIMEOUT_SECONDS", 60.0)
    place = tmp_path / "code"
    place.mkdir()
    git(place, "init", "-q")
    (place / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place


def test_the_code_then_and_now(run: str, repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    command = (sys.executable, str(repository / "train.py"))

    def said() -> tuple[str, str]:
        found = check(proposed(run, command=command), "checkpoint.code")
        return found.verdict.value, found.what

    save(run, versions={"git_commit": commit, "git_changed": 0})
    assert said() == ("pass", f"the same code: commit {commit[:12]}")
    (repository / "train.py").write_text("print(2)\n")
    (repository / "notes.txt").write_text("git doesn't know of it")
    verdict, what = said()
    assert verdict == "warn" and "0 files then, 1 file now" in what
    git(repository, "commit", "-qam", "second")
    verdict, what = said()
    assert verdict == "warn" and f"commit {commit[:12]} then" in what
    command = TRAIN
    assert "no repository" in check(proposed(run, command=TRAIN, project_dir="/"), "checkpoint.code").what


@pytest.mark.parametrize("module", ["train", "pack.train", "pack"])
def test_the_code_of_a_module_is_where_the_module_lies(run: str, repository: Path, tmp_path: Path, module: str) -> None:
    """It runs somewhere else, where no repository is."""
    (repository / "pack").mkdir()
    for name in ("__main__.py", "train.py"):
        (repository / "pack" / name).write_text("print(1)\n")
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "a package")
    commit = git(repository, "rev-parse", "HEAD")
    project = tmp_path / "elsewhere"
    project.mkdir()
    (project / "lavender.toml").write_text(
        f"command = ['{sys.executable}', '-m', '{module}']\nenv = {{PYTHONPATH = '{repository}'}}\n"
    )
    save(run, versions={"git_commit": commit, "git_changed": 0})
    found = check(proposed(run, command=(), project_dir=str(project)), "checkpoint.code")
    assert (found.verdict, found.what) == (Verdict.PASS, f"the same code: commit {commit[:12]}")


def test_the_code_of_an_installed_module_is_found_from_anywhere(run: str, tmp_path: Path) -> None:
    """As the demo's training, which runs in a directory of its own."""
    here = code_version(os.path.dirname(lavender_tui.demo.__file__))
    save(run, versions={"git_commit": here.commit if here else "1" * 40, "git_changed": 0})
    command = (sys.executable, "-m", "lavender_tui.demo.train")
    found = check(proposed(run, command=command, project_dir=str(tmp_path)), "checkpoint.code")
    assert found.evidence == os.path.realpath(os.path.dirname(lavender_tui.demo.__file__))
    assert ("no repository" in found.what) == (here is None)


# ---- the deep look


def poison(run: str, count: int, *, part: str = "model") -> str:
    both = parts()
    if part == "model":
        both["model_state_dict"]["0.weight"][3, 5] = float("nan")
    else:
        both["optimizer_state_dict"]["state"][1]["exp_avg"][0] = float("inf")
    return save(run, count, **both)


def flip(path: str) -> None:
    with open(path, "rb") as file:
        raw = file.read()
    at = raw.index(net()[0].state_dict()["0.weight"].numpy().tobytes())
    with open(path, "r+b") as file:
        file.seek(at + 40)
        file.write(bytes([raw[at + 40] ^ 1]))


def test_it_is_only_said_that_nothing_was_looked_at_yet(run: str) -> None:
    poison(run, 1)
    proposal = proposed(run)
    assert not proposal.is_refused
    said = check(proposal, "checkpoint.sums")
    assert said.verdict is Verdict.PASS and "before it is resumed" in said.what
    assert "--verify" in check(proposed(run, verify_bytes=10), "checkpoint.sums").what
    assert "--no-verify" in check(proposed(run, verify=False), "checkpoint.sums").what


def test_a_sound_checkpoint_passes(run: str) -> None:
    save(run, **parts())
    proposal = examined(proposed(run))
    assert not proposal.is_refused
    assert "every checksum agrees" in check(proposal, "checkpoint.sums").what
    assert "no NaN" in check(proposal, "checkpoint.finite").what
    ids = [one.id for one in proposal.checks]
    assert [id for id in ids if id != "checkpoint.finite"] == [one.id for one in proposed(run).checks]
    assert ids.index("checkpoint.finite") == ids.index("checkpoint.sums") + 1


@pytest.mark.parametrize(("part", "name"), [("model", "0.weight"), ("optimizer", "state.1.exp_avg")])
def test_numbers_that_are_none_refuse_and_name_where_to_go_back_to(run: str, part: str, name: str) -> None:
    save(run, 1, **parts())
    good = save(run, 2, **parts())
    save(run, 3, stage="sft", **parts())
    open(os.path.join(run, "pretrain-10-00-00-0004.pt"), "wb").close()
    bad = poison(run, 5, part=part)
    proposal = examined(proposed(bad))
    said = check(proposal, "checkpoint.finite")
    assert refusals(proposal) == ["checkpoint.finite"] and name in said.what
    assert f"go back to {os.path.basename(good)}" in said.remedy
    assert check(proposal, "checkpoint.sums").verdict is Verdict.PASS


def test_a_new_stage_takes_only_the_weights(run: str) -> None:
    bad = poison(run, 4, part="optimizer")
    assert refusals(examined(proposed(bad, next_stage="sft"))) == []
    assert refusals(examined(proposed(poison(run, 5), next_stage="sft"))) == ["checkpoint.finite"]


def test_a_flipped_bit_refuses_with_its_tensor(run: str) -> None:
    first = save(run, 1, **parts())
    path = save(run, 2, **parts())
    flip(path)
    proposal = examined(proposed(path))
    said = check(proposal, "checkpoint.sums")
    assert refusals(proposal) == ["checkpoint.sums"]
    assert "0.weight" in said.what and "checksum" in said.evidence and os.path.basename(first) in said.remedy


def test_infinities_in_a_mask_are_meant(run: str) -> None:
    both = parts()
    both["model_state_dict"]["attn.mask"] = torch.full((4, 4), float("-inf")).triu(1)
    save(run, 1, **both)
    proposal = examined(proposed(run))
    assert not proposal.is_refused and "attn.mask" in check(proposal, "checkpoint.finite").what
    both["ema"] = {"0.weight": torch.tensor(float("nan"))}
    save(run, 2, **both)
    proposal = examined(proposed(run))
    assert not proposal.is_refused and "checkpoint.finite" in warnings(proposal)


def test_a_file_that_went_bad_since_it_was_proposed_refuses(run: str) -> None:
    path = save(run, **parts())
    proposal = proposed(run)
    os.truncate(path, 1000)
    assert refusals(examined(proposal)) == ["checkpoint.sums"]
    os.unlink(path)
    assert refusals(examined(proposal)) == ["checkpoint.sums"]


def test_by_default_only_up_to_a_size_and_otherwise_as_asked(run: str) -> None:
    size = os.path.getsize(save(run, **parts()))
    asked = [(None, size, True), (None, size - 1, False), (True, 0, True), (False, size, False)]
    for verify, limit, is_examined in asked:
        assert is_examined_by_default(proposed(run, verify=verify, verify_bytes=limit)) is is_examined
    assert Options().verify_bytes == 2_000_000_000


def test_cancelling_and_nothing_to_examine(run: str) -> None:
    path = save(run, **parts())
    with pytest.raises(Cancelled):
        examine(proposed(run), is_cancelled=lambda: True)
    os.truncate(path, 100)
    proposal = proposed(path)
    assert examine(proposal) == () and examined(proposal).checks == proposal.checks


SPREAD = """
import sys, torch, torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
dist.init_process_group("gloo", init_method="file://" + sys.argv[1] + ".store", rank=0, world_size=1)
weight = distribute_tensor(torch.ones(8, 4), init_device_mesh("cpu", (1,)), [Shard(0)])
moments = {"step": torch.tensor(1.0), "exp_avg": weight, "exp_avg_sq": weight}
torch.save({
    "model_state_dict": {"weight": weight}, "model_cfg": {}, "stage": "pretrain", "save_count": 1, "epoch": 1,
    "optimizer_state_dict": {"state": {"weight": moments}, "param_groups": [{"lr": 1e-3, "params": ["weight"]}]},
    "epochs": 3, "epoch_complete": False, "pretrain_loss": 2.0, "world_size": int(sys.argv[2]),
}, sys.argv[1])
"""


@pytest.mark.parametrize(("saved_by", "verdict"), [(2, Verdict.REFUSE), (1, Verdict.WARN)])
def test_one_ranks_shards_are_no_whole_weights(tmp_path: Path, saved_by: int, verdict: Verdict) -> None:
    run = tmp_path / "run-2026-01-02_03-04-05"
    run.mkdir()
    path = str(run / "pretrain-10-00-00-0001.pt")
    subprocess.run([sys.executable, "-c", SPREAD, path, str(saved_by)], check=True)
    found = check(proposed(path, world_size=1), "checkpoint.shards")
    assert found.verdict is verdict and "one rank's shards: of 1 tensor" in found.what
    assert (saved_by > 1) == ("take world_size 2" in found.remedy)
    same = proposed(path, world_size=saved_by)
    assert check(same, "checkpoint.shards").verdict is Verdict.WARN
    assert not [one for one in same.checks if one.id == "checkpoint.fits"], "nothing is said of what isn't there whole"
