"""A worker dies, torchrun starts all of them again in the same run: from its own newest save, each row once."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from lavender_tui.demo.chain import EXAMPLE, Chain
from lavender_tui.demo.coverage import logged_steps
from lavender_tui.launch.identity import process_stat
from lavender_tui.launch.living import members
from lavender_tui.launch.record import read_launch, send_signal
from lavender_tui.model.proof import Outcome
from lavender_tui.resume import Options, Target, carry_out, propose
from lavender_tui.watch.scan import scan
from tests.training.harm import flip_a_weight


def resume_with_restarts(chain: Chain, ranks: int) -> None:
    words = (
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
        "--max-restarts", "1", "-m", EXAMPLE, "--data", chain.data, "--root", chain.root, *chain.options,
    )  # fmt: skip
    options = Options(world_size=ranks, command=words, project_dir=chain.directory)
    chain.runs.append(carry_out(propose(Target(paths=(chain.run_dir,)), options)).run_dir)


def begins(run_dir: str) -> list[dict[str, Any]]:
    with open(os.path.join(run_dir, "metrics.jsonl")) as file:
        return [record for line in file if (record := json.loads(line)).get("event") == "begin"]


def killed_and_resumed(chain: Chain) -> Any:
    """Two ranks die after a save and are resumed with restarts; returns the save that the plan is from."""
    chain.start(2)
    chain.wait_for_work_after_a_save(1, not_before=4)
    chain.kill()
    chain.wait_for_end()
    planned = chain.newest_save()
    resume_with_restarts(chain, 2)
    return planned


@pytest.mark.long
def test_workers_started_again_go_on_from_their_own_newest_save(
    make_chain: Callable[..., Chain], expected: Callable[[int], list[list[int]]]
) -> None:
    chain = make_chain(save_seconds=1.0)  # several steps from one save to the next, slow as they may be
    planned = killed_and_resumed(chain)
    chain.wait_for_work_after_a_save(1)
    record = read_launch(chain.run_dir)
    assert record is not None and record.leader is not None
    workers = [one for one in members(chain.run_dir, record) if one.pid != record.leader.pid]
    assert send_signal(workers[0].pid, workers[0].start_ticks, signal.SIGKILL)
    assert chain.wait_for_end() == 0

    first, second = begins(chain.run_dir)
    assert planned is not None and first["at_step"] == planned.step and first["checkpoint"] == planned.path
    own = second["at_step"]
    assert own > planned.step and os.path.dirname(second["checkpoint"]) == chain.run_dir
    assert_each_row_once(chain, planned.step, own, expected(1))
    [run] = [one for one in scan([chain.root]) if one.path == chain.run_dir]
    counts = [one.save_count for one in run.checkpoints]
    assert counts == list(range(1, len(counts) + 1)), "counts go on over the restart"
    steps = [point.step for point in run.losses]
    assert steps == sorted(set(steps))
    assert run.proof is not None and run.proof.verdict is Outcome.CARRIES_ON, run.proof


@pytest.mark.long
def test_a_newest_save_that_is_damaged_is_passed_over_by_all_ranks(
    make_chain: Callable[..., Chain], expected: Callable[[int], list[list[int]]], until: Callable[..., object]
) -> None:
    chain = make_chain(save_seconds=0.4)
    planned = killed_and_resumed(chain)
    chain.wait_for_work_after_a_save(1)
    until(lambda: len([one for one in os.listdir(chain.run_dir) if one.endswith(".pt")]) > 2, 60, "saves of its own")
    record = read_launch(chain.run_dir)
    assert planned is not None and record is not None and record.leader is not None
    workers = [one for one in members(chain.run_dir, record) if one.pid != record.leader.pid]
    for one in workers:
        send_signal(one.pid, one.start_ticks, signal.SIGSTOP)
    until(lambda: all((process_stat(one.pid) or "T")[0] in "TZ" for one in workers), what="no save to come between")
    newest = chain.newest_save()
    assert newest is not None and newest.step > planned.step
    flip_a_weight(newest.path)
    for one in workers:
        send_signal(one.pid, one.start_ticks, signal.SIGKILL)
    assert chain.wait_for_end() == 0

    _, second = begins(chain.run_dir)
    assert os.path.dirname(second["checkpoint"]) == chain.run_dir and planned.step < second["at_step"] < newest.step
    assert list(second["passed_over"]) == [newest.path] and "damaged" in second["passed_over"][newest.path]
    assert_each_row_once(chain, planned.step, second["at_step"], expected(1))
    with open(os.path.join(chain.run_dir, "train.log"), errors="replace") as file:
        assert f"{newest.path}: passed over: it is damaged" in file.read()


def assert_each_row_once(chain: Chain, planned: int, own: int, batches: list[list[int]]) -> None:
    """What the weights of the end have seen: the old run up to the plan, the new one up to its save, then the rest."""
    trained: dict[int, list[int]] = {}
    for _, _, step, ids in logged_steps(chain.runs[0]):
        if step <= planned:
            trained.setdefault(step, []).extend(ids)
    lines: dict[tuple[str, int], list[list[int]]] = {}
    for rank, _, step, ids in logged_steps(chain.run_dir):
        lines.setdefault((rank, step), []).append(ids)
    twice = {step for (_, step), logged in lines.items() if len(logged) > 1}
    assert twice and min(twice) > own, "what came after the save is trained again, and nothing before it"
    for (_, step), logged in lines.items():
        trained.setdefault(step, []).extend(logged[-1])
    assert {step: sorted(ids) for step, ids in trained.items()} == {
        step: sorted(ids) for step, ids in enumerate(batches, 1)
    }
