"""Real trainings, really killed: what is shown, how soon, and what is left over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import seen as memory
from lavender_tui.launch.record import LaunchRecord
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Run, RunState
from lavender_tui.watch import observe
from lavender_tui.watch.scan import scan
from tests.watch import saves
from tests.watch.saves import RUN
from tests.watch.watching import Seen

# An agent and two ranks in sessions of their own, as torchrun starts them.
TRAINING = """\
import os, subprocess, sys, time
if len(sys.argv) > 1 and sys.argv[1] == "rank":
    open(os.path.join(os.environ["LAVENDER_RUN_DIR"], f"up-{os.environ['RANK']}"), "w").close()
    time.sleep(600)
for rank in range(2):
    variables = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", TORCHELASTIC_RUN_ID="x")
    subprocess.Popen([sys.executable, __file__, "rank"], env=variables, start_new_session=True)
time.sleep(600)
"""
# One process that ignores a polite end, started by hand; it keeps its log open, as trainers do.
BY_HAND = """\
import os, signal, sys, time
run = sys.argv[1]
log = open(os.path.join(run, "train.log"), "a", buffering=1)
log.write("up\\n")
time.sleep(600)
"""


def kill(*pids: int) -> None:
    """The first must be there; the supervisor ends the others by itself, sometimes before they are reached here."""
    os.kill(pids[0], signal.SIGKILL)
    for pid in pids[1:]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    saves.save(tmp_path / RUN, 1)
    return tmp_path / RUN


@pytest.fixture
def hands(nothing_survives: Callable[[], list[int]]) -> Iterator[Callable[..., subprocess.Popen]]:
    """Start something by hand; what is started is waited for after the test, so that no zombie stays."""
    started: list[subprocess.Popen] = []

    def start(*argv: str | Path, **more: object) -> subprocess.Popen:
        process = subprocess.Popen([str(word) for word in argv], start_new_session=True, **more)  # type: ignore[call-overload]
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def launched(tmp_path: Path, nothing_survives: Callable[[], list[int]], until) -> tuple[LaunchRecord, list[int]]:
    """A training under its supervisor, and the pids of its ranks."""
    script, run = tmp_path / "train.py", tmp_path / RUN
    script.write_text(TRAINING)
    run.mkdir()
    record = launch.start(Launch(backend="local", argv=(sys.executable, str(script)), cwd=str(tmp_path)), str(run))
    until(lambda: (run / "up-0").exists() and (run / "up-1").exists(), what="both ranks")
    ranks = [pid for pid in nothing_survives() if "RANK=" in Path(f"/proc/{pid}/environ").read_text()]
    assert len(ranks) == 2
    return record, ranks


@pytest.fixture
def watch_events(watch, monkeypatch: pytest.MonkeyPatch):
    """A watcher that learns of an end by what tells it alone: nothing is asked again before the test is over."""
    for name in ("PROCESS_SECONDS", "IDLE_PROCESS_SECONDS", "CALM_SECONDS", "RELIST_SECONDS"):
        monkeypatch.setattr(observe, name, 1000.0)
    return lambda *roots: watch(*roots, poll_seconds=1000.0)


def until_shown(seen: Seen, until, is_it: Callable[[Run], bool]) -> None:
    """Until a snapshot has a run of which that is true."""
    until(lambda: (run := seen.run()) is not None and is_it(run), what=lambda: f"the state: {seen.run()}")


def is_failed(run: Run) -> bool:
    return run.state is RunState.FAILED


def until_running(seen: Seen, until, processes: int) -> None:
    until(
        lambda: (run := seen.run()) is not None and run.state is RunState.RUNNING and len(run.processes) >= processes,
        what="the running run",
    )


@pytest.mark.parametrize("victims", ["leader", "all"])
def test_a_killed_training_is_shown_as_failed_at_once(
    tmp_path: Path, seen: Seen, watch_events, until, launched, victims
):
    record, ranks = launched
    watch_events(tmp_path)
    until_running(seen, until, 4)
    kill(record.leader.pid, *(ranks if victims == "all" else []))
    until_shown(seen, until, is_failed)
    reason = seen.run().state_reason
    assert "signal 9" in reason or "is about to be recorded" in reason
    until(lambda: seen.run().end is not None and seen.run().end.ended_at and not seen.run().leftovers, what="exit.json")
    assert is_failed(seen.run())
    assert "killed by signal 9" in seen.run().state_reason


def test_what_outlives_supervisor_and_leader_is_left_over_not_running(
    tmp_path: Path, seen: Seen, watch_events, until, launched
):
    record, ranks = launched
    watch_events(tmp_path)
    until_running(seen, until, 4)
    kill(record.supervisor.pid, record.leader.pid)
    until_shown(seen, until, is_failed)
    until(lambda: len(seen.run().leftovers) == 2, what="the left-over ranks")
    run = seen.run()
    assert [one.pid for one in run.leftovers] == sorted(ranks)
    assert run.processes == ()
    assert run.pid is None
    assert run.state_reason.endswith(f"; 2 left-over workers still run (pid {ranks[0]}, {ranks[1]})")
    (again,) = scan([str(tmp_path)])  # somebody who looks for the first time sees the same
    assert (again.state, [one.pid for one in again.leftovers]) == (RunState.FAILED, sorted(ranks))
    kill(*ranks)
    until_shown(seen, until, lambda run: not run.leftovers)
    assert is_failed(seen.run())
    assert "left-over" not in seen.run().state_reason


def test_who_looks_once_while_the_end_is_being_recorded_sees_that_and_no_live_training(tmp_path: Path, until, launched):
    record, ranks = launched
    os.kill(record.supervisor.pid, signal.SIGSTOP)  # as on a full disk, where it tries for some seconds
    try:
        kill(record.leader.pid, *ranks)
        until(lambda: not record.leader.is_alive, what="the leader's end")
        (run,) = scan([str(tmp_path)])
        words = "its leading process is gone; how it ended is about to be recorded"
        assert (run.state, run.state_reason) == (RunState.RUNNING, words)
    finally:
        os.kill(record.supervisor.pid, signal.SIGCONT)
    until(lambda: scan([str(tmp_path)])[0].state is RunState.FAILED, what="the recorded end")


def test_a_training_by_hand_is_seen_to_be_killed_and_that_is_remembered(
    tmp_path: Path, run_dir: Path, seen: Seen, watch_events, until, hands
):
    script = tmp_path / "train.py"
    script.write_text(BY_HAND)
    process = hands(sys.executable, script, run_dir)
    until(lambda: (run_dir / "train.log").exists(), what="its log")
    watch_events(tmp_path)
    until(lambda: memory.read(str(run_dir)) is not None, what="the memory")
    until_running(seen, until, 1)
    kill(process.pid)  # and not waited for: a zombie is no live process
    until_shown(seen, until, lambda run: is_failed(run) and run.state_reason.startswith("killed by signal 9"))
    assert seen.run().processes == seen.run().leftovers == ()
    until(lambda: memory.read(str(run_dir)).status == signal.SIGKILL, what="the end in the memory")
    (later,) = scan([str(tmp_path)])
    assert (later.state, later.state_reason) == (RunState.FAILED, seen.run().state_reason)


def test_one_by_hand_that_ends_well_is_not_called_failed(
    tmp_path: Path, run_dir: Path, seen: Seen, watch, until, hands
):
    script = tmp_path / "train.py"
    script.write_text(BY_HAND.replace("time.sleep(600)", "input()"))
    process = hands(sys.executable, script, run_dir, stdin=subprocess.PIPE)
    watch(tmp_path)
    until(lambda: memory.read(str(run_dir)) is not None, what="the memory")
    until_running(seen, until, 1)
    process.stdin.write(b"\n")
    process.stdin.close()
    until(lambda: seen.run().state_reason.startswith("its process ended"), what=lambda: seen.run().state_reason)
    assert seen.run().state is RunState.IDLE
    assert seen.run().state_reason == "its process ended well, but the last epoch is not complete"


def test_ranks_that_lost_their_launcher_are_left_over_and_a_lone_background_training_is_not(
    tmp_path: Path, run_dir: Path, hands, until
):
    """The launcher was never seen alive: workers in sessions of their own, in the run's directory, without a parent."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, subprocess, sys, time\n"
        "if sys.argv[1] == 'worker': open(f'up-{sys.argv[2]}', 'w').close(); time.sleep(600)\n"
        "for rank in range(int(sys.argv[2])):\n"
        "    subprocess.Popen([sys.executable, __file__, 'worker', str(rank)], start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    variables = {**os.environ, "RUN_DIR": str(run_dir)}
    launcher = hands(sys.executable, script, "launch", 2, cwd=run_dir, env=variables)
    until(lambda: (run_dir / "up-0").exists() and (run_dir / "up-1").exists(), what="the workers")
    kill(launcher.pid)
    launcher.wait()
    (run,) = scan([str(tmp_path)])
    assert (run.state, len(run.leftovers), run.processes) == (RunState.FAILED, 2, ())
    assert run.state_reason.startswith("the process that led it is gone; 2 left-over workers still run (pid ")
    kill(*(one.pid for one in run.leftovers))
    until(lambda: scan([str(tmp_path)])[0].state is RunState.IDLE, what="the end of both")
    hands("sh", "-c", f"cd {run_dir} && RUN_DIR={run_dir} {sys.executable} {script} worker 2 &").wait()
    until(lambda: (run_dir / "up-2").exists(), what="the background training")
    assert scan([str(tmp_path)])[0].state is RunState.RUNNING


def test_a_training_that_burns_and_chatters_without_a_step_is_stalled(tmp_path: Path, run_dir: Path, hands, until):
    """Thirty saves a minute apart, then nothing for half an hour; it spins and writes heartbeats."""
    now = time.time()
    for count in range(1, 31):
        saves.save(run_dir, count, mtime=now - (60 - count) * 60)
    (tmp_path / "train.py").write_text(
        "import sys, time\nlog, last = open(sys.argv[1] + '/train.log', 'a', buffering=1), 0\n"
        "while True:\n    if time.time() > last + 0.2:\n"
        "        log.write('heartbeat step=1830 loss=0.1\\n'); last = time.time()\n"
    )
    hands(sys.executable, tmp_path / "train.py", run_dir)
    until(lambda: (run_dir / "train.log").exists() and (run_dir / "train.log").stat().st_size, what="a heartbeat")
    (run,) = scan([str(tmp_path)])
    assert run.state is RunState.STALLED
    assert run.state_reason == "alive, but no save for 30 min; it used to save every 60 s"


# How it ended, by a supervisor's record

ENDS = """\
import os, signal, sys, time
def save_and_end(*_):
    os._exit(143)
how = sys.argv[1]
print("step=4 loss=1.6", flush=True)
if how == "preempted":
    signal.signal(signal.SIGTERM, save_and_end)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
if how in ("SIGKILL", "SIGSEGV", "SIGTERM"):
    os.kill(os.getpid(), getattr(signal, how))
    time.sleep(60)
if how == "error":
    raise RuntimeError("shape mismatch [4] vs [8]")
"""


@pytest.mark.parametrize(
    ("how", "state", "words"),
    [
        ("SIGKILL", RunState.FAILED, "killed by signal 9"),
        ("SIGSEGV", RunState.FAILED, "killed by signal 11 (SIGSEGV)"),
        ("SIGTERM", RunState.STOPPED, "stopped by signal 15 (SIGTERM), not from here"),
        ("preempted", RunState.STOPPED, "stopped by signal 15 (SIGTERM), not from here"),
        ("error", RunState.FAILED, "exit code 1: RuntimeError: shape mismatch [4] vs [8]"),
        ("early", RunState.IDLE, "its process ended well, but the last epoch is not complete"),
        ("done", RunState.FINISHED, "saved its final stage"),
    ],
)
def test_each_way_to_end_is_told_apart(tmp_path: Path, nothing_survives, until, how: str, state: RunState, words: str):
    script, run = tmp_path / "train.py", tmp_path / RUN
    script.write_text(ENDS)
    saves.save(run, 2, stage="final" if how == "done" else "pretrain", epoch=2, epochs=4)
    launch.start(Launch(backend="local", argv=(sys.executable, str(script), how), cwd=str(tmp_path)), str(run))
    until(lambda: (run / "exit.json").exists(), what="the end")
    (found,) = scan([str(tmp_path)])
    assert found.state is state
    assert found.state_reason.startswith(words)
    assert found.newest is not None  # whatever it was, it can be resumed from there


# Named as torchrun is, with two ranks below it; it notices nothing.
TORCHRUN = """\
import os, subprocess, sys, time
for rank in range(2):
    variables = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", TORCHELASTIC_RUN_ID="x")
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env=variables)
time.sleep(600)
"""


def test_a_rank_that_died_alone_is_named_before_torchrun_notices(tmp_path: Path, seen: Seen, watch, until, hands):
    run, script = tmp_path / RUN, tmp_path / "torchrun"
    saves.save(run, 1)
    script.write_text(TORCHRUN)
    hands(sys.executable, script, env={**os.environ, "LAVENDER_RUN_DIR": str(run)})
    watch(tmp_path)

    def reason() -> str:
        return now.state_reason if (now := seen.run()) is not None else ""

    until(lambda: reason() == "2 of 2 ranks alive", what="both ranks")
    now = seen.run()
    assert now is not None
    os.kill(next(one.pid for one in now.processes if one.rank == 1), signal.SIGKILL)
    until(lambda: reason() == "rank 1 is gone; torchrun hasn't noticed yet", what="the rank that is gone")
