"""What the list says of a run that is a job: waiting, running, failed, cancelled, unknown; and when nobody answers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.errors import AlreadyRunning
from lavender_tui.launch import living, slurm_living, slurm_state, stop
from lavender_tui.launch.identity import process_stat
from lavender_tui.launch.record import LaunchRecord, read_launch
from lavender_tui.launch.stop_order import CannotStop
from lavender_tui.model.export import run_document
from lavender_tui.model.run import Run, RunState
from lavender_tui.watch import jobs
from lavender_tui.watch.observe import Snapshot, Watcher
from lavender_tui.watch.scan import scan
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import Lab


def run_of(lab: Lab, record: LaunchRecord) -> Run:
    return next(run for run in scan((str(lab.root),)) if run.path == record.run_dir)


def test_a_run_goes_through_its_states(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_SLURM_OPTIONS", "--hold")
    record = lab.start("--train")
    assert record.slurm is not None
    run = run_of(lab, record)
    number = record.slurm.job_id
    assert run.state is RunState.IDLE and run.is_alive
    assert run.state_reason == f"Slurm job {number} waits: JobHeldUser (held by its owner)"
    lab.cluster.run("scontrol", "release", str(number))
    lab.told(record)
    run = run_of(lab, record)
    assert run.state is RunState.RUNNING and run.job is not None and run.job.nodes in ("n1", "n2")
    assert run.state_reason == f"1 live process in Slurm job {number}"
    assert not run.leftovers  # its processes are seen here, on the node that it runs on
    told = {"id": number, "state": "RUNNING", "reason": None, "nodes": run.job.nodes}
    assert run_document(run)["job"] == told
    lab.cluster.run("scancel", str(number))
    lab.until(lambda: lab.state(record) == "CANCELLED", what="the job to be cancelled")
    run = run_of(lab, record)
    assert run.state is RunState.STOPPED and "cancelled" in run.state_reason and not run.is_alive


def test_what_failed_says_with_which_code(lab: Lab) -> None:
    record = lab.start("--end", "7")
    lab.end(record)
    lab.until(lambda: lab.state(record) == "FAILED", what="the job to have failed")
    run = run_of(lab, record)
    assert (run.state, run.state_reason) == (RunState.FAILED, "exit code 7")
    os.unlink(os.path.join(record.run_dir, "exit.json"))  # as if the node had been lost with it
    run = run_of(lab, record)
    assert run.state is RunState.FAILED and run.state_reason.startswith("exit code 7 (on n")


@pytest.fixture
def frozen(slurm: Cluster, until: Callable[..., object]) -> Iterator[Callable[[], None]]:
    """Freezes the controller until the test ends."""
    daemon = slurm.daemons["slurmctld"]

    def freeze() -> None:
        daemon.send_signal(signal.SIGSTOP)
        until(lambda: (process_stat(daemon.pid) or "?")[0] == "T", what="the controller to stand still")

    yield freeze
    daemon.send_signal(signal.SIGCONT)


def test_a_controller_that_is_silent_is_said_and_nothing_is_guessed(
    lab: Lab, frozen: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = lab.start("--train")
    lab.told(record)
    table = jobs.JobTable()
    records = {record.run_dir: read_launch(record.run_dir)}
    assert table.ask(records, {})[record.run_dir].state == "RUNNING"
    rest = table.rest_seconds
    frozen()
    table._timeout = 1.0
    monkeypatch.setattr(slurm_state, "TIMEOUT_SECONDS", 1.0)
    job = table.ask(records, {})[record.run_dir]
    assert job.state == "RUNNING" and job.away_since is not None
    assert table.rest_seconds == min(2 * rest, jobs.SLOWEST_SECONDS)
    monkeypatch.setattr(slurm_living, "ask", lambda jobs: slurm_state.ask(jobs, timeout=1.0))
    assert living.is_alive(record.run_dir)  # nobody knows: nothing may be started beside it
    why = slurm_living.why_alive(record.run_dir, record)
    assert why is not None and "isn't known" in why
    with pytest.raises(CannotStop, match="answer"):
        stop(record.run_dir)
    assert not os.path.exists(os.path.join(record.run_dir, "stop.json"))


def test_the_watcher_tells_of_a_job_as_it_goes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "ASK_SECONDS", 0.3)
    told: list[Snapshot] = []
    came = threading.Event()
    watcher = Watcher((str(lab.root),), lambda snapshot: (told.append(snapshot), came.set()))  # type: ignore[func-returns-value]
    watcher.start()
    try:
        monkeypatch.setenv("LAVENDER_TUI_SLURM_OPTIONS", "--hold")
        record = lab.start("--end", "0")
        assert record.slurm is not None

        def reason() -> str:
            return next((run.state_reason for run in told[-1].runs), "") if told else ""

        lab.until(lambda: "JobHeldUser" in reason(), what="the job to wait", seconds=60)
        lab.cluster.run("scontrol", "release", str(record.slurm.job_id))
        lab.until(lambda: "ended well" in reason(), what="the job to end", seconds=60)
    finally:
        watcher.close()
        watcher.join(10)


def test_a_pending_job_keeps_everybody_from_resuming(lab: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from lavender_tui.resume import carry_out
    from tests.resume.saves import SLEEP, proposed, save

    monkeypatch.setenv("LAVENDER_TUI_SLURM_OPTIONS", "--hold")
    old = str(lab.root / "run-2026-01-01_00-00-00")
    save(old)
    first = carry_out(proposed(old, SLEEP, world_size=1, backend="slurm"))
    assert lab.state(first.record) == "PENDING"
    with pytest.raises(AlreadyRunning, match=f"Slurm job {first.record.identity['job_id']}"):
        carry_out(proposed(old, SLEEP, world_size=1, backend="slurm"))
    assert len(lab.runs()) == 2
