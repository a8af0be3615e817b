"""Checkpoints that failed before are not offered first again, and nothing good is ever passed over for nothing."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lavender_tui import checkpoints
from lavender_tui.launch.bad_files import MOST_REMEMBERED, memory_path, remember, remembered
from lavender_tui.launch.followers import followers_of
from lavender_tui.launch.identity import host_name
from lavender_tui.launch.living import members
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    StopRecord,
    read_exit,
    read_launch,
    send_signal,
    write_exit,
    write_launch,
    write_stop,
)
from lavender_tui.model.run import Lineage
from lavender_tui.model.suspects import failed_at_once
from lavender_tui.resume import carry_out
from lavender_tui.resume.examining import examine
from tests.resume.saves import check, proposed, save, warnings


def follower(checkpoint: str, second: int = 0, *, steps: int = 0, **ended: Any) -> str:
    """A run that was resumed from the checkpoint, and how it ended."""
    root = os.path.dirname(os.path.dirname(checkpoint))
    path = os.path.join(root, f"run-2026-04-25_10-00-{second:02d}")
    os.makedirs(path)
    began = 1_777_000_000.0
    record = LaunchRecord(
        run_id="x", run_dir=path, backend="local", argv=("python", "t.py"), cwd="/", host=host_name(), boot_id="b",
        pid_namespace="n", leader=ProcessId(pid=1, start_ticks=1), started_at=began, written_by="supervisor",
        resumed_from=Lineage(run=os.path.dirname(checkpoint), checkpoint=checkpoint),
    )  # fmt: skip
    write_launch(path, record)
    from lavender_tui.model.run import started_at_from_name

    named = started_at_from_name(os.path.basename(path)) or began
    values = {"code": 1, "signal": None, "ended_at": named + 5.0, **ended}
    write_exit(path, ExitRecord(**values))
    with open(os.path.join(path, "metrics.jsonl"), "w") as file:
        file.writelines(json.dumps({"step": step + 1, "loss": 2.0}) + "\n" for step in range(steps))
    return path


def chosen(run: str, **options: Any) -> int | None:
    plan = proposed(run, **options).plan
    return plan.source.save_count if plan is not None else None


# What runs say


def test_one_that_broke_the_run_that_went_on_from_it_is_passed_over(run: str) -> None:
    save(run, 1)
    bad = save(run, 2)
    follower(bad, steps=3, error="RuntimeError: loss is nan")
    for target in (run, os.path.dirname(run)):
        proposal = proposed(target)
        assert proposal.plan is not None and proposal.plan.source.save_count == 1
        [(path, why)] = proposal.passed_over
        assert path == bad and "failed after 3 steps (RuntimeError: loss is nan)" in why
    named = proposed(bad)
    assert not named.is_refused and "checkpoint.known-bad" in warnings(named)
    assert "run-2026-04-25_10-00-00" in check(named, "checkpoint.known-bad").what


def test_the_only_one_is_still_offered_with_a_warning_and_no_older_run_is_taken(run: str) -> None:
    save(os.path.join(os.path.dirname(run), "run-2026-01-01_00-00-00"), 9)
    bad = save(run, 2)
    follower(bad, steps=3)
    proposal = proposed(os.path.dirname(run))
    assert proposal.plan is not None and proposal.plan.source.checkpoint == bad
    assert "checkpoint.known-bad" in warnings(proposal)


@pytest.mark.parametrize(
    ("steps", "ended"),
    [
        (0, {"code": 1}),  # once, before a step: the command may be to blame
        (0, {"code": 2}),
        (0, {"code": 127}),
        (5, {"code": 0}),
        (500, {"code": 1}),  # it went on for long
        (5, {"code": 1, "stop": {"who": "ann"}}),
        (5, {"code": None, "signal": "SIGKILL"}),
        (5, {"code": 1, "error": "torch.OutOfMemoryError: CUDA out of memory"}),
        (0, {"code": 1, "ended_at": 4e9, "error": "PytorchStreamReader failed"}),  # hours later
    ],
)
def test_what_the_checkpoint_had_no_part_in_is_not_held_against_it(run: str, steps: int, ended: dict[str, Any]) -> None:
    save(run, 1)
    follower(save(run, 2), steps=steps, **ended)
    assert chosen(run) == 2


def test_a_stopped_run_says_nothing(run: str) -> None:
    save(run, 1)
    path = follower(save(run, 2), steps=3, stop={"who": "ann"})
    write_stop(path, StopRecord(who="ann", how="graceful", asked_at=1.0))
    assert chosen(run) == 2


def test_twice_before_a_step_or_an_error_that_names_it_is_enough(run: str) -> None:
    save(run, 1)
    bad = save(run, 2)
    follower(bad, 0)
    assert chosen(run) == 2
    follower(bad, 1)
    assert chosen(run) == 1
    other = os.path.join(os.path.dirname(run), "run-2026-04-23_00-00-00")
    save(other, 1)
    follower(save(other, 2), 2, error="RuntimeError: PytorchStreamReader failed reading zip archive")
    assert chosen(other) == 1


def test_where_two_checkpoints_fail_alike_the_command_is_to_blame(run: str) -> None:
    save(run, 1)
    for count in (2, 3):
        bad = save(run, count)
        for turn in (0, 1):
            follower(bad, 2 * count + turn)
    assert chosen(run) == 3


def test_a_run_that_went_on_well_clears_it(run: str) -> None:
    save(run, 1)
    good = save(run, 2)
    follower(good, 0, steps=3)
    save(follower(good, 1, steps=400), 1)
    assert chosen(run) == 2


def test_a_real_run_that_breaks_after_a_step(run: str, until: Any, nothing_survives: Any) -> None:
    save(run, 1)
    bad = save(run, 2)
    script = "import os; open(os.environ['LAVENDER_RUN_DIR'] + '/metrics.jsonl', 'w').write('{\"step\": 1}\\n'); 1/0"
    launched = carry_out(proposed(run, (sys.executable, "-c", script), world_size=1))
    until(lambda: read_exit(launched.run_dir), what="the end")
    before = sorted(os.listdir(run))
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.source.save_count == 1
    assert proposal.passed_over[0][0] == bad and "ZeroDivisionError" in proposal.passed_over[0][1]
    assert sorted(os.listdir(run)) == before


LEFT_ALONE = """
import os, signal, sys, time
run = os.environ["LAVENDER_RUN_DIR"]
while not os.path.exists(run + "/go"):
    time.sleep(0.02)
if "steps" in sys.argv:
    open(run + "/metrics.jsonl", "w").write('{"step": 1, "loss": 2.0}\\n{"step": 2, "loss": 2.1}\\n')
if "killed" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
if "interrupted" in sys.argv:
    raise KeyboardInterrupt
raise RuntimeError("the loss is nan")
"""


def end_unseen(run: str, until: Any, *words: str) -> None:
    """Resume the run's second save, kill the supervisor, then let the training end."""
    bad = os.path.join(run, "pretrain-10-00-00-0002.pt")
    launched = carry_out(proposed(bad, (sys.executable, "-c", LEFT_ALONE, *words), world_size=1), again=True)
    record = read_launch(launched.run_dir)
    assert record is not None and record.supervisor is not None
    send_signal(record.supervisor.pid, record.supervisor.start_ticks, signal.SIGKILL)
    until(lambda: not record.supervisor.is_alive, what="the supervisor's end")
    Path(launched.run_dir, "go").touch()
    until(lambda: not members(launched.run_dir, record), what="the training's end")
    assert read_exit(launched.run_dir) is None


@pytest.mark.parametrize("words", [("steps",), ()], ids=["after steps", "before a step"])
def test_an_end_that_nobody_saw_counts_by_the_error_that_it_left(
    run: str, until: Any, nothing_survives: Any, words: tuple[str, ...]
) -> None:
    save(run, 1)
    bad = save(run, 2)
    end_unseen(run, until, *words)
    if not words:
        assert chosen(run) == 2, "once, before a step: the command may be to blame"
        end_unseen(run, until)
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.source.save_count == 1
    assert proposal.passed_over[0][0] == bad and "RuntimeError: the loss is nan" in proposal.passed_over[0][1]
    assert all(failed_at_once(one) for one in followers_of(run))


@pytest.mark.parametrize("how", ["killed", "interrupted"])
def test_an_end_that_nobody_saw_and_somebody_made_counts_for_nothing(
    run: str, until: Any, nothing_survives: Any, how: str
) -> None:
    save(run, 1)
    save(run, 2)
    end_unseen(run, until, "steps", how)
    assert chosen(run) == 2 and not any(failed_at_once(one) for one in followers_of(run))


# What a deep check found


def test_a_failed_deep_check_is_remembered_by_what_the_file_was(run: str) -> None:
    save(run, 1)
    bad = save(run, 2)
    assert remember(bad, checkpoints.file_facts(bad), "layer 3 is not what its checksum says")
    assert chosen(run) == 1
    assert "checksum" in proposed(run).passed_over[0][1]
    assert "checkpoint.known-bad" in warnings(proposed(bad))
    save(run, 2)  # written anew: another file
    assert chosen(run) == 2


def test_what_the_deep_look_refuses_is_kept_in_mind_until_a_look_finds_nothing(run: str) -> None:
    import torch

    save(run, 1)
    odd = save(run, 2, model_state_dict={"w": torch.tensor([1.0, float("nan")])})
    meant = save(run, 3, model_state_dict={"mask": torch.tensor([1.0, float("-inf")])})
    for path in (odd, meant):
        examine(proposed(path))
    assert chosen(run) == 3
    os.unlink(meant)
    assert chosen(run) == 1 and "numbers that are none" in proposed(run).passed_over[0][1]
    kept = save(run, 4)
    remember(kept, checkpoints.file_facts(kept), "a disk that lied once")
    examine(proposed(kept))
    assert chosen(run) == 4


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": "lavender-known-bad", "files": [3, {"key": 4}]}'])
def test_a_damaged_memory_counts_as_empty_and_is_mended(run: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(memory_path()))
    Path(memory_path()).write_bytes(content)
    path = save(run, 1)
    assert remembered() == {} and chosen(run) == 1
    assert remember(path, checkpoints.file_facts(path), "x")
    assert list(remembered().values()) == ["x"]


def test_two_that_remember_at_once_lose_nothing_and_old_entries_go(run: str) -> None:
    facts = [checkpoints.file_facts(save(run, count)) for count in range(1, 9)]
    threads = [threading.Thread(target=remember, args=("p", one, f"{at}")) for at, one in enumerate(facts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(remembered().values()) == [str(at) for at in range(8)]
    document = json.loads(Path(memory_path()).read_text())
    document["files"] = [{"key": f"{at}", "reason": "old"} for at in range(MOST_REMEMBERED)]
    Path(memory_path()).write_text(json.dumps(document))
    remember("p", facts[0], "new")
    assert len(remembered()) == MOST_REMEMBERED and "0" not in remembered()


def test_where_nothing_can_be_written_it_is_only_forgotten(monkeypatch: pytest.MonkeyPatch, run: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    path = save(run, 1)
    assert remember(path, checkpoints.file_facts(path), "x") is False
    assert chosen(run) == 1
