"""Which topologies are allowed, what changes with them, and what this machine has."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.model.plan import Verdict
from lavender_tui.resume import Options, Target, propose
from lavender_tui.resume import proposing as module
from tests.resume.saves import check, proposed, refusals, row, save, warnings

TORCHRUN = ("torchrun", "-m", "train")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "devices", lambda: 0)
    return str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")


@pytest.mark.parametrize(
    ("splits", "allowed", "refused"),
    [(8, [1, 2, 4, 8], [3, 5, 6, 7, 16, 0, -1]), (12, [1, 2, 3, 4, 6, 12], [5, 8, 24]), (7, [1, 7], [2, 4])],
)
def test_a_number_of_ranks_that_does_not_fit_stops_before_anything_is_made(
    run: str, splits: int, allowed: list[int], refused: list[int]
) -> None:
    save(run, 1, row(20, splits))
    for size in refused:
        said = check(proposed(run, TORCHRUN, world_size=size), "topology.world-size")
        assert said.verdict is Verdict.REFUSE
        assert ", ".join(map(str, allowed)) in said.remedy and str(splits if size > 0 else size) in said.what
    for size in allowed:
        assert "topology.world-size" not in refusals(proposed(run, TORCHRUN, world_size=size))
    assert proposed(run, TORCHRUN).plan.world_size in allowed  # type: ignore[union-attr]
    assert os.listdir(os.path.dirname(run)) == [os.path.basename(run)]


@pytest.mark.parametrize(("devices", "default"), [(0, 4), (1, 1), (2, 2), (3, 2), (6, 4), (8, 4)])
def test_the_default_fits_the_devices(run: str, monkeypatch: pytest.MonkeyPatch, devices: int, default: int) -> None:
    monkeypatch.setattr(module, "devices", lambda: devices)
    save(run, 1, [row(20, 8) for _ in range(4)], world_size=4)
    plan = proposed(run, TORCHRUN).plan
    assert plan is not None and plan.world_size == default


def test_more_ranks_than_devices_are_said_with_both_numbers(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "devices", lambda: 2)
    save(run, 1, [row(20, 8) for _ in range(4)], world_size=4)
    said = check(proposed(run, TORCHRUN, world_size=8), "topology.devices")
    assert said.verdict is Verdict.WARN and "8" in said.what and "2 devices" in said.what
    assert "1, 2" in said.remedy and "4 would share one" in said.evidence


def test_fewer_ranks_hold_more_rows_each(run: str) -> None:
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4, batch={"global": 48, "num_workers": 0})
    half = check(proposed(run, TORCHRUN, world_size=2), "topology.memory")
    assert half.verdict is Verdict.WARN and "24 rows a rank and step instead of 12" in half.what
    assert "same global batch" in half.what and "over 2 batches of 12 rows" in half.remedy
    for size in (4, 8):
        assert "topology.memory" not in warnings(proposed(run, TORCHRUN, world_size=size))


def test_steps_left_and_the_learning_rate(run: str) -> None:
    data = {"uri": "s3://b", "table": "t", "version": 1, "num_rows": 1003}
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4, batch={"global": 32, "num_workers": 0}, data=data)
    said = check(proposed(run, TORCHRUN, world_size=2), "topology.steps")
    # 1,000 rows an epoch, 192 read: 26 steps of 32 for 808, and 32 in each of the two epochs after it
    assert "26 steps left in this epoch, 90 in all" in said.what and "learning rate 0.001" in said.what


def test_what_of_the_command_is_replaced_is_said(run: str) -> None:
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4)
    words = ("torchrun", "--nnodes", "2", "--rdzv-endpoint", "host:29500", "--master_port=29501", "-m", "train")
    proposal = propose(Target(paths=(run,)), Options(command=words, world_size=2))
    said = [one.what for one in proposal.checks if one.id == "topology.command"]
    assert any("--rdzv-endpoint and --master-port left out" in one for one in said)
    assert any("2 nodes" in one for one in said)
    assert proposal.plan is not None
    argv = " ".join(proposal.plan.launch.argv)
    assert "--standalone" in argv and "29500" not in argv and "29501" not in argv


def test_several_nodes_share_the_ranks_evenly_and_meet_where_nobody_listens(run: str) -> None:
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4)
    said = check(proposed(run, TORCHRUN, world_size=4, nodes=2), "topology.nodes")
    assert said.verdict is Verdict.PASS and "2 ranks on each of 2 nodes" in said.what
    odd = proposed(run, TORCHRUN, world_size=2, nodes=4)
    assert "world_size 2 can't be shared by 4 nodes" in check(odd, "command.fits").what
    assert "topology.nodes" not in refusals(odd)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        endpoint = f"127.0.0.1:{holder.getsockname()[1]}"
        taken = check(proposed(run, TORCHRUN, world_size=4, nodes=2, rdzv_endpoint=endpoint), "topology.nodes")
        assert taken.verdict is Verdict.REFUSE and f"by pid {os.getpid()}" in taken.what


def test_nodes_may_be_a_setting(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4)
    monkeypatch.setenv("LAVENDER_TUI_TORCHRUN_NODES", "2")
    monkeypatch.setenv("LAVENDER_TUI_TORCHRUN_RDZV_ENDPOINT", "gpu-01:20500")
    plan = proposed(run, TORCHRUN, world_size=4).plan
    assert plan is not None and "gpu-01:20500" in plan.launch.argv
    alone = proposed(run, TORCHRUN, world_size=4, nodes=1).plan
    assert alone is not None and "--standalone" in alone.launch.argv


def test_the_devices_are_those_of_one_node(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "devices", lambda: 2)
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4)
    assert "topology.devices" not in warnings(proposed(run, TORCHRUN, world_size=4, nodes=2))


def test_workers_that_do_not_fit_list_those_that_do(run: str) -> None:
    save(run, 1, [row(24, 8) for _ in range(4)], world_size=4)
    said = check(proposed(run, TORCHRUN, world_size=2, num_workers=3), "topology.workers")
    assert said.verdict is Verdict.REFUSE and "0, 1, 2, 4" in said.remedy


def test_two_workers_are_not_proposed_inside_a_cycle(run: str) -> None:
    partial: dict[str, Any] = row(24, 8)
    for key in ("samples_consumed_per_split", "positions_consumed_per_split"):
        partial[key] = [25, 24] * 4
    save(run, 1, [partial] * 4, world_size=4, batch={"global": 32, "num_workers": 2})
    plan = proposed(run, TORCHRUN, world_size=2).plan
    assert plan is not None and plan.batch.num_workers == 1
    assert "states.uniform" in refusals(proposed(run, TORCHRUN, world_size=2, num_workers=2))
