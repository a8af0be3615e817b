"""Numbers in a checkpoint that count nothing: each is said in a sentence, and nothing is ever as long as they say."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lavender_tui import checkpoints
from lavender_tui.model.plan import Policy
from lavender_tui.resume import proposing as module
from lavender_tui.resume.schedules import Schedule, saved_schedules
from tests.resume.full_files import full
from tests.resume.saves import TRAIN, check, proposed, refusals, row, save, warnings

DATA = {"uri": "/nowhere", "table": "t", "version": 1, "num_rows": 4096, "filter": None, "shuffle": True}
FAR = 10**5000  # Python refuses to print it
GIB = 1 << 30


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(module, "devices", lambda: 0)
    return str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")


@pytest.mark.parametrize("size", [0, -1, 1_000_001, 2**31, 2**63, FAR], ids=["0", "-1", "1 M", "2^31", "2^63", "far"])
def test_what_is_no_number_of_ranks_starts_none(run: str, size: int) -> None:
    one = checkpoints.read_checkpoint(save(run, 1, world_size=size, batch={"global": 7, "num_workers": 0}))
    assert one.world_size is None and one.warnings[0].startswith("world_size is ")
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.world_size == 1 and proposal.plan.world_size_previous is None
    assert "checkpoint.warnings" in warnings(proposal)


def test_a_plan_for_ranks_without_end_fits_in_memory(run: str) -> None:
    """In a process of its own, so that the limit is its own: the list of them would take tens of GiB."""
    save(run, 1, world_size=2**31)
    command = [sys.executable, "-m", "lavender_tui", "plan", run, "--json", "--", *TRAIN]
    found = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (4 * GIB, 4 * GIB)),
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert found.returncode == 0, found.stderr
    said = [one["what"] for one in json.loads(found.stdout)["checks"]]
    assert "world_size is 2,147,483,648, which can't be: it is from 1 to 1,000,000" in said


@pytest.mark.parametrize("workers", [-1, 2**31, -FAR], ids=["-1", "2^31", "far"])
def test_what_is_no_number_of_workers_starts_none(run: str, workers: int) -> None:
    save(run, 1, [row(24)], world_size=1, batch={"global": 4, "num_workers": workers}, global_step=24, data=DATA)
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.batch.num_workers == 0
    assert "checkpoint.warnings" in warnings(proposal) and "topology.workers" not in refusals(proposal)


@pytest.mark.parametrize("number", [10**400, FAR, -FAR, 2**64], ids=["400", "5000", "-5000", "2^64"])
@pytest.mark.parametrize("key", [*DATA, "tag", "columns", "shuffle_clump_size", "on_transform_error"])
def test_any_number_in_the_datas_record_leaves_a_plan_that_is_json(run: str, key: str, number: int) -> None:
    save(run, 1, [row(24)], world_size=1, global_step=24, batch={"global": 4}, data={**DATA, key: number})
    proposal = proposed(run)
    assert proposal.plan is not None and proposal.plan.start.policy is Policy.EXACT
    document = json.loads(json.dumps(proposal.plan.to_json(), allow_nan=False))
    assert document["data"].keys() == {**DATA, key: number}.keys()
    if key == "num_rows":
        assert "no number of rows" in check(proposal, "checkpoint.warnings").what


@pytest.mark.parametrize("key", ["last_epoch", "T_max", "total_iters", "eta_min", "_last_lr"])
@pytest.mark.parametrize("number", [FAR, -FAR, 10**400], ids=["5000", "-5000", "400"])
def test_any_number_in_a_schedule_leaves_a_plan(run: str, key: str, number: int) -> None:
    save(run, **{**full(), "scheduler_state_dict": {"last_epoch": 3, "T_max": 10, key: number}})
    assert proposed(run).plan is not None


# ---- schedules that refer to each other


def test_a_shared_object_is_looked_at_once() -> None:
    inner: Any = {"last_epoch": 1, "T_max": 5}
    for _ in range(3):
        inner = {str(index): inner for index in range(300)}  # 27 million paths
    saved = saved_schedules({"scheduler": inner})
    assert saved.schedules == (Schedule(counter=1, length=("T_max", 5), end=None),) and not saved.is_too_large
    parts: Any = [{}] * 200
    for _ in range(3):
        parts = [{"_schedulers": parts}] * 200
    assert not saved_schedules({"scheduler": parts}).schedules
    loop: dict[str, Any] = {}
    loop["again"] = loop
    assert not saved_schedules({"scheduler": loop}).schedules


def test_what_is_too_large_for_a_schedule_is_said(run: str) -> None:
    large = {str(at): {str(one): {"last_epoch": 1} for one in range(150)} for at in range(150)}
    saved = saved_schedules({"scheduler": large})
    assert saved.is_too_large and not saved.schedules
    save(run, **{**full(), "scheduler_state_dict": large})
    said = check(proposed(run), "checkpoint.schedule")
    assert "saved as scheduler_state_dict is too large for a schedule" in said.what
