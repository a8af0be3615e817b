"""A real training on two nodes of a job, whose time is over in the middle: every row is in the final weights once."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable

import pytest

from lavender_tui.demo.chain import EXAMPLE, Chain
from lavender_tui.demo.coverage import Coverage
from lavender_tui.launch import slurm_living
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from lavender_tui.logs.files import log_files
from lavender_tui.model.run import RunState
from lavender_tui.resume import Options
from lavender_tui.resume.fresh import start_fresh
from lavender_tui.watch.scan import scan
from tests.end_to_end.conftest import corpus, coverage_of, expected, make_chain  # noqa: F401 (fixtures)
from tests.slurm.conftest import Lab

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


def limit(lab: Lab, record: LaunchRecord, minutes: int) -> None:
    """Change the job's time limit."""
    done = lab.cluster.run("scontrol", "update", f"JobId={record.identity['job_id']}", f"TimeLimit={minutes}")
    assert done.returncode == 0, done.stderr


def test_on_two_nodes_whose_time_is_over_in_the_middle(
    lab: Lab,
    make_chain: Callable[..., Chain],  # noqa: F811
    coverage_of: Callable[..., Coverage],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("NODES", "2"), ("TIME", "30"), ("SIGNAL_SECONDS", "60")):
        monkeypatch.setenv(f"LAVENDER_TUI_SLURM_{name}", value)
    chain = make_chain(save_seconds=1e6, pause=1.5)  # still training when the warning comes, on a quiet machine too
    command = (sys.executable, "-m", EXAMPLE, "--data", chain.data, "--root", chain.root, *chain.options)
    options = Options(backend="slurm", command=command, world_size=2, project_dir=chain.directory)
    first = start_fresh(chain.root, options).record
    assert first.slurm is not None and first.nodes == 2
    chain.runs = [first.run_dir]
    lab.until(lambda: chain.trained_step() >= 5, seconds=120, what=lambda: f"some steps\n{lab.words(first)[-4000:]}")
    outputs = [label for label, _ in log_files(first.run_dir) if label.endswith("stderr")]
    assert outputs == ["node 0 rank 0 stderr", "node 1 rank 0 stderr"]
    minutes = math.ceil(
        (time.time() - first.started_at + 20) / 60
    )  # so that less than the warning's time is left, but enough
    limit(lab, first, minutes)
    assert lab.end(first, seconds=120).stop == {"who": "Slurm", "how": "requeue", "why": "its time limit was near"}
    limit(lab, first, 30)

    def lives() -> list[str]:
        return [path for path, _ in slurm_living.attempts(first.run_dir, first)]

    def is_through() -> bool:
        ended = read_exit(lives()[-1])
        assert ended is None or ended.code == 0 or ended.stop is not None, (ended, lab.words(first))
        return ended is not None and ended.stop is None

    lab.until(is_through, seconds=300, what=lambda: f"the end of the training\n{lab.words(first)[-4000:]}")
    chain.runs = lives()
    assert len(chain.runs) == 2
    for number, run_dir in enumerate(chain.runs, 1):
        record = read_launch(run_dir)
        assert record is not None and (record.attempt, record.world_size, record.nodes) == (number, 2, 2)
        assert len([name for name in os.listdir(run_dir) if name.startswith("rows.rank")]) == 2
        assert len(os.listdir(os.path.join(run_dir, "ranks"))) == 2  # an agent on each node
    covered = coverage_of(chain)
    assert covered.is_exact, covered
    found = {run.path: run for run in scan((chain.root,))}
    assert found[chain.runs[-1]].state is RunState.FINISHED
    assert {found[path].state for path in chain.runs[:-1]} == {RunState.STOPPED}
