"""Runs of one name are told apart by as much of their path as it takes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lavender_tui.watch.naming import longer_names
from lavender_tui.watch.scan import scan
from tests.watch import saves
from tests.watch.watching import Seen


@pytest.mark.parametrize(
    ("paths", "longer"),
    [
        (["/a/run", "/a/other"], {}),
        (["/a/x/run", "/a/y/run", "/a/other"], {"/a/x/run": "x/run", "/a/y/run": "y/run"}),
        (["/a/x/v/run", "/b/x/v/run", "/b/z/run"], {
            "/a/x/v/run": "a/x/v/run", "/b/x/v/run": "b/x/v/run", "/b/z/run": "z/run",
        }),
        (["/run", "/a/run"], {"/run": "/run", "/a/run": "a/run"}),
        (["/run", "/x/run/run"], {"/run": "/run", "/x/run/run": "run/run"}),
        (["/a/run/", "/b/run"], {"/a/run/": "a/run", "/b/run": "b/run"}),
    ],
)  # fmt: skip
def test_the_shortest_end_that_is_alone(paths: list[str], longer: dict[str, str]):
    assert longer_names(paths) == longer


def test_the_names_are_the_same_whichever_way_the_runs_are_found(tmp_path: Path, seen: Seen, watch, until):
    for name in ("one/checkpoints", "two/checkpoints", saves.RUN):
        saves.save(tmp_path / name, 1)
    assert {run.title for run in scan([str(tmp_path)])} == {"one/checkpoints", "two/checkpoints", saves.RUN}
    watch(tmp_path)
    titles = {"one/checkpoints", "two/checkpoints", saves.RUN}
    until(lambda: {run.title for run in seen.last.runs} == titles, what="all three")
    before = len(seen.snapshots)
    shutil.rmtree(tmp_path / "two")
    until(lambda: {run.title for run in seen.last.runs} == {"checkpoints", saves.RUN}, what="the short name again")
    assert any(str(tmp_path / "one/checkpoints") in one.changed for one in seen.snapshots[before:])
