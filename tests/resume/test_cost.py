"""Seconds, threads and memory before the first row, said before the launch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lavender_tui.model.plan import Proposal, Verdict
from lavender_tui.resume import cost
from lavender_tui.resume.cost import Reading
from tests.resume.saves import check, proposed, row, save

TORCHRUN = ("torchrun", "-m", "train")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """`plan(splits, world_size, rows, **data)`: a checkpoint of 4 ranks that read a table of so many rows."""
    monkeypatch.delenv(cost.SORT_VARIABLE, raising=False)
    run = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")

    def make(splits: int, world_size: int, rows: int, **data: Any) -> Proposal:
        states = [row(24, splits) for _ in range(4)]
        save(run, 1, states, world_size=4, data={"uri": "s3://b", "table": "t", "version": 1, "num_rows": rows, **data})
        return proposed(run, TORCHRUN, world_size=world_size)

    return make


def ids(proposal: Proposal) -> list[str]:
    return [one.id for one in proposal.checks if one.id.startswith("cost.")]


@pytest.mark.parametrize(
    ("rows", "owned", "copies", "measured"),
    [
        (1_000_000, 64, 1, 30),
        (1_000_000, 64, 2, 49),
        (1_000_000, 512, 1, 227),
        (1_000_000, 8, 1, 5.5),
        (10_000, 8, 1, 0.12),
    ],
)
def test_the_span_holds_what_was_measured(rows: int, owned: int, copies: int, measured: float) -> None:
    least, most = Reading(rows=rows, owned=owned, copies=copies).seconds(1, 0, 2)
    assert least * 0.7 <= measured <= most * 2.5


def test_workers_share_the_splits_and_ranks_the_cores() -> None:
    one = Reading(rows=1_000_000, owned=64, copies=1)
    assert one.seconds(1, 4, 4)[1] == pytest.approx(one.seconds(1, 0, 4)[1] / 4)
    assert one.seconds(8, 0, 4)[1] == pytest.approx(one.seconds(4, 0, 4)[1] * 2)


def test_a_small_table_costs_nothing_worth_a_warning(plan: Any) -> None:
    small = plan(8, 2, 1000)
    assert ids(small) == ["cost.first-row"] and check(small, "cost.first-row").verdict is Verdict.PASS


def test_a_silence_near_the_timeout_of_the_process_group_is_said(plan: Any) -> None:
    long = check(plan(1024, 2, 2_500_000), "cost.first-row")
    assert long.verdict is Verdict.WARN and "min" in long.what and "process group gives up" in long.what
    assert "init_process_group(timeout=" in long.remedy
    alone = check(plan(1024, 1, 2_500_000), "cost.first-row")  # one rank waits for nobody
    assert alone.verdict is Verdict.PASS and "no hang" in alone.what


@pytest.mark.parametrize(
    ("splits", "size", "depth"), [(64, 1, None), (64, 2, None), (128, 1, 2), (1024, 1, 1), (1024, 8, 2)]
)
def test_many_splits_a_rank_are_read_with_fewer_threads(plan: Any, splits: int, size: int, depth: int | None) -> None:
    made = plan(splits, size, 100_000)
    assert ("cost.threads" in ids(made)) is (depth is not None)
    assert made.plan.data.get("io_queue_depth") == depth
    assert made.plan.data["num_rows"] == 100_000


def test_a_table_too_large_to_sort_by_default_gets_the_room(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cost.SORT_VARIABLE not in plan(8, 2, 2_700_000).plan.launch.env
    large = plan(8, 2, 5_000_000)
    limit = int(large.plan.launch.env[cost.SORT_VARIABLE])
    assert 200_000_000 <= limit < 600_000_000  # 200 MB were enough
    assert f"{cost.SORT_VARIABLE}={limit}" in check(large, "cost.sort-memory").evidence
    assert int(plan(8, 2, 20_000_000).plan.launch.env[cost.SORT_VARIABLE]) >= 1_000_000_000
    assert cost.SORT_VARIABLE not in plan(8, 2, 5_000_000, shuffle=False).plan.launch.env
    monkeypatch.setenv(cost.SORT_VARIABLE, str(limit * 2))
    assert cost.SORT_VARIABLE not in plan(8, 2, 5_000_000).plan.launch.env
    monkeypatch.setenv(cost.SORT_VARIABLE, "lots")
    assert plan(8, 2, 5_000_000).plan.launch.env[cost.SORT_VARIABLE] == str(limit)


def test_more_memory_than_there_is_is_said(plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cost, "memory_bytes", lambda: 1 << 30)
    tight = check(plan(8, 4, 20_000_000), "cost.sort-memory")
    assert tight.verdict is Verdict.WARN and "1.1 GB may be used here" in tight.evidence


def test_without_a_row_count_nothing_is_guessed(tmp_path: Path) -> None:
    run = str(tmp_path / "run-2026-04-24_18-53-41")
    save(run, 1, [row(24, 8)] * 4, world_size=4)
    assert ids(proposed(run, TORCHRUN, world_size=2)) == []
