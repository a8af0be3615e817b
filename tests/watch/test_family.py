"""The youngest of a family of runs, by what their records say."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.launch.keepers import first_of, place_of
from lavender_tui.launch.record import describe_this_process, write_launch
from lavender_tui.model.run import Lineage
from lavender_tui.watch.family import youngest


@pytest.fixture
def runs(tmp_path: Path) -> dict[str, str]:
    """a ← b ← c, a ← d, the last two started last; and e, of another family. None lives."""
    made = {}
    for at, (name, parent) in enumerate([("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", None)]):
        made[name] = str(tmp_path / f"run-{name}")
        os.mkdir(made[name])
        write(made[name], made[parent] if parent else None, started_at=100.0 + at)
    return made


def write(run: str, parent: str | None, *, started_at: float) -> None:
    record = describe_this_process(run, resumed_from=Lineage(run=parent) if parent else None)
    gone = replace(record.leader, pid=1, start_ticks=1)  # type: ignore[type-var]
    write_launch(run, replace(record, leader=gone, started_at=started_at))


def test_what_was_resumed_from_it_is_younger(runs: dict[str, str]) -> None:
    assert youngest(runs["a"]) == runs["d"]
    assert youngest(runs["b"]) == runs["c"] and youngest(runs["c"]) == runs["c"]
    assert youngest(runs["e"]) == runs["e"]


def test_since_its_end_the_whole_family_counts(runs: dict[str, str]) -> None:
    assert youngest(runs["c"], since=102.5) == runs["d"]
    assert youngest(runs["c"], since=104.0) == runs["c"]


def test_a_family_has_one_place_for_its_keeper(runs: dict[str, str]) -> None:
    assert {first_of(runs[name]) for name in "abcd"} == {runs["a"]}
    assert len({place_of(runs[name]) for name in "abcd"}) == 1 and place_of(runs["e"]) != place_of(runs["a"])


def test_records_that_lead_in_a_circle_or_nowhere_do_no_harm(tmp_path: Path) -> None:
    one, two = str(tmp_path / "run-1"), str(tmp_path / "run-2")
    for run, parent, at in ((one, two, 1.0), (two, one, 2.0)):
        os.mkdir(run)
        write(run, parent, started_at=at)
    assert youngest(one, since=0.0) == two and first_of(one) == first_of(two)
    assert youngest(str(tmp_path / "none")) == str(tmp_path / "none")
    assert first_of(str(tmp_path / "none")) == str(tmp_path / "none")
