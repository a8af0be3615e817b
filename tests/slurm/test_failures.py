"""Ranks that really fail in a job, on one node and on two: which one, and of what, is said like that of any run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lavender_tui.model.run import RunState
from lavender_tui.resume import Options
from lavender_tui.resume.fresh import start_fresh
from lavender_tui.watch.scan import scan
from tests.slurm.conftest import Lab

RECORDED = "from torch.distributed.elastic.multiprocessing.errors import record"
PLAIN = "record = lambda function: function"
# Ranks that wait for one another, so that the other one fails as well, of its lost neighbour.
SCRIPT = """
import os, signal, sys, time, torch
{how}
@record
def main():
    torch.distributed.init_process_group("gloo")
    for step in range(1000):
        torch.distributed.all_reduce(torch.ones(1))
        if step == 20 and os.environ["RANK"] == "1" and sys.argv[1] == "raise":
            raise RuntimeError("boom")
        if step == 20 and os.environ["RANK"] == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)
main()
"""

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]


@pytest.mark.parametrize(
    ("nodes", "how", "way", "words", "exception"),
    [
        (1, RECORDED, "raise", "rank 1: RuntimeError: boom", "RuntimeError: boom"),
        (2, PLAIN, "raise", "rank 1: RuntimeError: boom", "RuntimeError: boom"),
        (2, RECORDED, "raise", "rank 1: RuntimeError: boom", "RuntimeError: boom"),
        (2, PLAIN, "SIGKILL", "rank 1 was killed by signal 9", None),
    ],
)
def test_a_job_says_which_rank_failed_and_of_what(
    lab: Lab,
    monkeypatch: pytest.MonkeyPatch,
    nodes: int,
    how: str,
    way: str,
    words: str,
    exception: str | None,
) -> None:
    monkeypatch.setenv("LAVENDER_TUI_SLURM_NODES", str(nodes))
    script = lab.root.parent / "train.py"
    script.write_text(SCRIPT.format(how=how))
    options = Options(
        backend="slurm", command=(sys.executable, str(script), way), world_size=2, project_dir=str(lab.root.parent)
    )
    record = start_fresh(str(lab.root), options).record
    lab.end(record, seconds=200)
    (run,) = scan((str(lab.root),))
    assert run.state is RunState.FAILED and run.state_reason.startswith(words), lab.words(record)
    assert run.end is not None and run.end.failure is not None
    failure = run.end.failure
    assert (failure.rank, failure.exception) == (1, exception)
    if exception is not None:
        assert failure.traceback[-1] == exception and (failure.place or "").endswith("in main")
        assert failure.where is not None and (Path(record.run_dir) / failure.where).exists()
    exported = subprocess.run(
        (sys.executable, "-m", "lavender_tui", "export", str(lab.root), "--format", "json"),
        capture_output=True,
        check=True,
    )
    (told,) = json.loads(exported.stdout)["runs"]
    assert (told["failure"]["rank"], told["failure"]["exception"]) == (1, exception)
