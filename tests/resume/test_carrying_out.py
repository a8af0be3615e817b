"""A resume that is carried out: a run of its own, a plan that is whole, an old run as it was. Or nothing at all."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import AlreadyRunning, BadState, LavenderError, Refused, ResumedAlready
from lavender_tui.launch import KILL, stop
from lavender_tui.launch.living import is_alive
from lavender_tui.launch.locks import resume_lock
from lavender_tui.model.plan import ResumePlan, Verdict
from lavender_tui.resume import Launched, Options, Target, carry_out, propose, warm_child
from lavender_tui.resume.child import Child
from lavender_tui.resume.examining import examined, is_examined_by_default
from tests.resume.real_states import read_on, repeated_and_lost
from tests.resume.saves import check, model, proposed, refusals, row, save, save_beside

QUIET = (sys.executable, "-c", "pass")
LIVES = (sys.executable, "-c", "import time; time.sleep(120)")


@pytest.fixture
def run(tmp_path: Path, nothing_survives: Any) -> str:
    return str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")


@pytest.fixture(scope="module")
def child() -> Any:
    with warm_child() as made:
        yield made


def runs(run: str) -> list[str]:
    return sorted(name for name in os.listdir(os.path.dirname(run)) if not name.startswith("."))


def fingerprint(directory: str) -> dict[str, tuple[int, int, int, str]]:
    """Everything about the directory and what lies in it, but the times of reading."""
    found = {}
    for path in [directory, *(os.path.join(directory, name) for name in sorted(os.listdir(directory)))]:
        info = os.stat(path)
        with open(path, "rb") if os.path.isfile(path) else open(os.devnull, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        found[path] = (info.st_mode, info.st_size, info.st_mtime_ns, digest)
    return found


def plan_of(launched: Launched) -> ResumePlan:
    with open(launched.plan_path) as file:
        return ResumePlan.from_json(json.load(file))


def test_the_plan_is_whole_and_the_process_finds_it(run: str, child: Child, tmp_path: Path, until: Any) -> None:
    path = save(run, 4, [row(), row()], world_size=2)
    told = tmp_path / "told"
    script = (
        "import os, sys, json; e = os.environ; plan = json.load(open(e['LAVENDER_RESUME_PLAN'])); "
        "done = sys.argv[1] + '.tmp'; told = [plan['run_dir'], e['LAVENDER_RUN_DIR'], sys.argv[2:]]; "
        "json.dump(told, open(done, 'w')); "
        "os.rename(done, sys.argv[1])"
    )
    command = (sys.executable, "-c", script, str(told), "{checkpoint}", "{state}", "{world_size}")
    launched = carry_out(proposed(run, command, world_size=1), child=child)
    until(told.exists, what="the training to write what it was told")
    plan_dir, env_dir, words = json.loads(told.read_text())
    assert plan_dir == env_dir == launched.run_dir != run
    assert words == [path, os.path.join(launched.run_dir, "state.pt"), "1"]
    plan = plan_of(launched)
    assert plan.dataset == row() and plan.launch.argv == launched.argv and plan.source.checkpoint == path
    import torch

    assert torch.load(words[1], weights_only=True) == row()
    record = launched.record
    assert record.resumed_from is not None and record.resumed_from.run == run and record.world_size == 1


@pytest.mark.parametrize("generation", ["first", "second", "loaded"])
def test_what_is_launched_reads_on_exactly(
    run: str, table: Any, child: Child, generation: str, request: pytest.FixtureRequest
) -> None:
    states, before = request.getfixturevalue(generation)
    data = {"uri": os.path.dirname(table.uri), "table": "rows", "version": table.version, "num_rows": 1000}
    save(run, dataset=states, world_size=4, data=data)
    plan = plan_of(carry_out(proposed(run, QUIET, world_size=1), child=child))
    assert plan.dataset is not None
    assert repeated_and_lost(before, read_on(table, plan.dataset, 2)) == (0, 0)


def test_the_old_run_is_never_written_to(run: str, child: Child) -> None:
    save(run, dataset=[row(), row()], world_size=2)
    for name in os.listdir(run):
        os.chmod(os.path.join(run, name), 0o444)
    os.chmod(run, 0o555)
    before = fingerprint(run)
    try:
        carry_out(proposed(run, QUIET, world_size=1), child=child)
        assert fingerprint(run) == before
    finally:
        os.chmod(run, 0o755)


def test_a_refused_proposal_makes_nothing(run: str) -> None:
    save(run, dataset=[row(), row(epoch=1)])
    with pytest.raises(Refused) as caught:
        carry_out(proposed(run, QUIET))
    assert any(check.id == "states.agree" for check in caught.value.checks)
    assert runs(run) == [os.path.basename(run)]


def test_a_file_that_changed_since_it_was_checked_is_not_resumed(run: str, child: Child) -> None:
    path = save(run, dataset=[row(), row()], world_size=2)
    proposal = proposed(run, QUIET, world_size=1)
    save(run, dataset=[row(9), row(9)], world_size=2)
    with pytest.raises(BadState, match="changed"):
        carry_out(proposal, child=child)
    os.unlink(path)
    with pytest.raises(BadState, match="gone"):
        carry_out(proposal, child=child)
    assert runs(run) == [os.path.basename(run)]


def test_library_and_owners_must_agree(run: str, child: Child) -> None:
    save(run, dataset=[row(), row()], world_size=2)
    proposal = proposed(run, QUIET, world_size=1)
    assert proposal.plan is not None
    forged = replace(proposal, plan=replace(proposal.plan, dataset=row(7)))
    with pytest.raises(BadState, match="6 and 7"):
        carry_out(forged, child=child)
    assert runs(run) == [os.path.basename(run)]


def test_a_version_that_cannot_be_opened_is_found_before_the_launch(run: str, table: Any, child: Child) -> None:
    data = {"uri": os.path.dirname(table.uri), "table": "rows", "version": table.version}
    save(run, dataset=[row(24, 8), row(24, 8)], world_size=2, data=data)
    proposal = proposed(run, QUIET, world_size=1)
    assert proposal.plan is not None
    stale = replace(proposal, plan=replace(proposal.plan, data={**data, "version": 99}))
    with pytest.raises(BadState, match="version 99"):
        carry_out(stale, child=child)
    assert runs(run) == [os.path.basename(run)]


def test_a_program_that_cannot_start_leaves_nothing_behind(run: str, tmp_path: Path) -> None:
    save(run)
    program = tmp_path / "program"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    with pytest.raises(LavenderError):
        carry_out(proposed(run, (str(program),), world_size=1, backend="local"))
    assert runs(run) == [os.path.basename(run)]


def test_a_cancelled_merge_leaves_nothing_behind(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run, dataset=[row(), row()], world_size=2)
    proposal = proposed(run, QUIET, world_size=1)
    slow = warm_child()
    merge = slow.merge

    def asked(states: Any) -> Any:
        threading.Timer(0.1, slow.close).start()  # closed before it is asked it would be replaced by another one
        return merge(states)

    monkeypatch.setattr(slow, "merge", asked)
    with pytest.raises(LavenderError, match="cancelled"):
        carry_out(proposal, child=slow)
    assert runs(run) == [os.path.basename(run)]


def test_a_second_resume_is_kept_away_while_one_is_at_work_and_while_its_run_lives(run: str, until: Any) -> None:
    save(run)
    proposal = proposed(run, LIVES, world_size=1)
    with resume_lock(run), pytest.raises(AlreadyRunning):
        carry_out(proposal)
    first = carry_out(proposal)
    with pytest.raises(AlreadyRunning, match=os.path.basename(first.run_dir)):
        carry_out(proposal)
    assert len(runs(run)) == 2
    again = carry_out(proposal, again=True)
    assert again.run_dir != first.run_dir
    for one in (first, again):
        stop(one.run_dir, KILL)
    until(lambda: not any(os.path.exists(f"/proc/{one.record.leader.pid}") for one in (first, again)), what="the end")
    carry_out(proposed(run, QUIET, world_size=1))  # nothing lives any more: no question is asked


def test_who_was_overtaken_is_told_though_that_training_is_over(run: str, until: Any) -> None:
    save(run)
    plan, same = (proposed(run, QUIET, world_size=1) for _ in range(2))
    first = carry_out(plan)
    until(lambda: not is_alive(first.run_dir), what="the end")
    with pytest.raises(ResumedAlready, match=f"since it was checked, as {os.path.basename(first.run_dir)}"):
        carry_out(same)
    assert len(runs(run)) == 2
    carry_out(proposed(run, QUIET, world_size=1))  # whoever plans now knows of it


def test_a_living_resume_is_found_in_another_root_and_by_another_name(run: str, tmp_path: Path) -> None:
    save(run)
    other = tmp_path / "other"
    other.mkdir()
    link = other / os.path.basename(run)
    link.symlink_to(run)
    early = proposed(run, LIVES, world_size=1), proposed(str(link), LIVES, world_size=1)
    far = carry_out(proposed(str(link), LIVES, world_size=1, root=str(tmp_path / "third")))
    name = os.path.basename(far.run_dir)
    for one in early:
        with pytest.raises(ResumedAlready, match=name):
            carry_out(one)
    for path in (run, str(link)):
        assert check(proposed(path, LIVES, world_size=1), "source.resumed").verdict is Verdict.WARN
    assert len(runs(run)) == len(runs(str(link))) == 1


def test_two_at_once_give_one_run(run: str, child: Child) -> None:
    save(run)
    proposal = proposed(run, LIVES, world_size=1)
    outcomes: list[object] = []

    def one() -> None:
        try:
            outcomes.append(carry_out(proposal).run_dir)
        except AlreadyRunning as error:
            outcomes.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([made for made in outcomes if isinstance(made, str)]) == 1
    assert len(runs(run)) == 2


def test_a_name_that_is_taken_is_never_written_into(run: str) -> None:
    from datetime import datetime, timedelta

    save(run)
    root = os.path.dirname(run)
    for second in range(-1, 20):
        taken = os.path.join(root, (datetime.now() + timedelta(seconds=second)).strftime("run-%Y-%m-%d_%H-%M-%S"))
        os.makedirs(taken, exist_ok=True)
        with open(os.path.join(taken, "owner.txt"), "w") as file:
            file.write("somebody else's")
    launched = carry_out(proposed(run, QUIET, world_size=1))
    assert not os.path.exists(os.path.join(launched.run_dir, "owner.txt"))
    for name in runs(run):
        inside = os.listdir(os.path.join(root, name))
        assert "owner.txt" not in inside or inside == ["owner.txt"]


def test_a_live_old_run_is_refused_unless_asked_for(run: str) -> None:
    save(run)
    first = carry_out(proposed(run, LIVES, world_size=1))
    save(first.run_dir, 1)
    proposal = propose(Target(paths=(first.run_dir,)), Options(command=QUIET, world_size=1))
    assert any(check.id == "source.alive" and check.verdict == "refuse" for check in proposal.checks)
    with pytest.raises(Refused):
        carry_out(proposal)
    asked = propose(Target(paths=(first.run_dir,)), Options(command=QUIET, world_size=1, though_alive=True))
    assert not asked.is_refused and carry_out(asked).run_dir != first.run_dir


@pytest.mark.long
@pytest.mark.parametrize("delay", [0.0, 0.3, 0.6, 1.0, 2.0, 3.0, 4.0])
def test_killed_at_any_moment_a_plan_is_whole_or_absent(run: str, delay: float, until: Any) -> None:
    save(run, dataset=[row(), row()], world_size=2)
    script = (
        "import sys; from lavender_tui.resume import *\n"
        f"p = propose(Target(paths=({run!r},)), Options(command={QUIET!r}, world_size=1))\n"
        "print('ready', flush=True); carry_out(p)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    try:
        process.wait(timeout=delay)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    made = [os.path.join(os.path.dirname(run), name) for name in runs(run) if name != os.path.basename(run)]
    assert len(made) <= 1
    for directory in made:
        plan = os.path.join(directory, "resume.json")
        if os.path.exists(plan):
            with open(plan) as file:
                assert ResumePlan.from_json(json.load(file)).dataset == row()
    carry_out(proposed(run, QUIET, world_size=1), again=True)


def test_what_nobody_examined_is_examined_before_anything_is_made(run: str) -> None:
    weights, _ = model()
    weights["weight"][0, 0] = float("nan")
    save(run, 9, model_state_dict=weights)
    before = os.listdir(os.path.dirname(run))
    proposal = proposed(run)
    assert not proposal.is_refused and is_examined_by_default(proposal)
    with pytest.raises(Refused, match=r"weight \(1 NaN of 8\)"):
        carry_out(proposal)
    assert os.listdir(os.path.dirname(run)) == before
    looked = examined(proposed(run, verify=False))
    assert looked.is_refused and not is_examined_by_default(looked), "once is enough"


@pytest.mark.parametrize("harm", ["a bit", "its end"])
def test_a_rank_file_that_went_bad_is_seen(run: str, harm: str) -> None:
    states = [row(24) for _ in range(2)]
    paths = save_beside(save(run, 1, world_size=2), states)
    good = examined(proposed(run))
    assert not good.is_refused and "every checksum of 2 rank files agrees" in check(good, "states.sums").what
    proposal = proposed(run)
    raw = bytearray(Path(paths[1]).read_bytes())
    at = raw.index(b"samples_consumed_per_split")
    facts = os.stat(paths[1])
    if harm == "a bit":
        raw[raw.index(b"K\x18", at) + 1] ^= 1  # a count of 24 becomes 25
    else:
        del raw[-100:]
    Path(paths[1]).write_bytes(raw)
    os.utime(paths[1], ns=(facts.st_atime_ns, facts.st_mtime_ns))
    bad = examined(proposal)
    assert refusals(bad) == ["states.sums"] and os.path.basename(paths[1]) in check(bad, "states.sums").evidence
    expected, words = (Refused, "a rank's file is damaged") if harm == "a bit" else (BadState, "has changed since")
    with pytest.raises(expected, match=words):
        carry_out(proposal)
