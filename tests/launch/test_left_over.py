"""What outlived a run is ended, itself and what it started, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import journal
from lavender_tui.launch.identity import start_ticks
from lavender_tui.launch.left_over import end_left_over
from lavender_tui.launch.record import ProcessId, read_exit, read_stop
from lavender_tui.launch.stop_order import CannotStop
from lavender_tui.watch.scan import scan

WORKER = """\
import os, signal, subprocess, sys, time
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "parent" in sys.argv:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""

Start = Callable[..., ProcessId]


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    path = tmp_path / "checkpoints" / "run-2026-01-02_03-04-05"
    path.mkdir(parents=True)
    return str(path)


@pytest.fixture
def start(tmp_path: Path, nothing_survives: Callable[[], list[int]]) -> Iterator[Start]:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    started: list[subprocess.Popen] = []

    def begin(*words: str, **settings: object) -> ProcessId:
        argv = [sys.executable, str(script), *words]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, **settings)  # type: ignore[call-overload]
        started.append(process)
        assert process.stdout.readline() == b"up\n"
        return ProcessId(pid=process.pid, start_ticks=start_ticks(process.pid) or 0)

    yield begin
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()


def test_each_is_asked_and_ends_with_what_it_started(run_dir: str, start: Start, nothing_survives, until):
    left = [start("parent"), start()]
    until(lambda: len(nothing_survives()) == 3, what="the child")
    outcome = end_left_over(run_dir, left, grace=20)
    assert (outcome.how, outcome.words.startswith("2 left-over processes ended after ")) == ("ended", True)
    until(lambda: not any(one.is_alive for one in left), what="the end")
    assert nothing_survives() == []
    assert read_stop(run_dir) is None  # the run failed before, and not because of this
    assert read_exit(run_dir) is None
    (entry,) = journal.read(journal.root_of(run_dir))
    assert (entry.what, entry.facts["pids"]) == ("left-overs ended", [one.pid for one in left])


@pytest.mark.parametrize("kill", [False, True])
def test_what_does_not_end_is_killed(run_dir: str, start: Start, kill: bool):
    left = start("stubborn")
    begun = time.monotonic()
    outcome = end_left_over(run_dir, [left], kill=kill, grace=30 if kill else 0.3)
    assert (outcome.how, outcome.words, left.is_alive) == ("killed", "1 left-over process killed", False)
    assert time.monotonic() - begun < 20


def test_another_process_with_that_pid_is_left_alone(run_dir: str, start: Start):
    stranger = start()
    before = ProcessId(pid=stranger.pid, start_ticks=stranger.start_ticks - 1)
    assert end_left_over(run_dir, [before], kill=True).has_ended
    assert stranger.is_alive


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_another_users_are_refused_before_any_is_signalled(run_dir: str, start: Start, tmp_path: Path):
    theirs = start()
    code = (
        "import os, sys\n"
        "from lavender_tui.launch.left_over import end_left_over\n"
        "from lavender_tui.launch.record import ProcessId\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"end_left_over({run_dir!r}, [ProcessId(pid={theirs.pid}, start_ticks={theirs.start_ticks})], kill=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert done.returncode == 1
    assert CannotStop.__name__ in done.stderr
    assert theirs.is_alive


def test_the_command_ends_what_only_looks_like_the_runs_when_told_so(run_dir: str, start: Start, tmp_path: Path):
    """Two workers without a parent, in the run's directory with its name in RUN_DIR and their logs there."""
    starter = (
        "import os, subprocess, sys\n"
        f"script, run = {str(tmp_path / 'worker.py')!r}, {run_dir!r}\n"
        "for rank in range(2):\n"
        "    log = open(os.path.join(run, f'{rank}.log'), 'w')\n"
        "    subprocess.Popen([sys.executable, script], cwd=run, stdout=log, start_new_session=True)\n"
    )
    subprocess.run([sys.executable, "-c", starter], check=True)
    (run,) = scan([os.path.dirname(run_dir)])
    assert len(run.leftovers) == 2
    command = [sys.executable, "-m", "lavender_tui", "stop", run_dir]
    refused = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert refused.returncode == 1
    assert f"they only look like the run's: {run.leftovers[0].pid} " in refused.stderr
    assert len(scan([os.path.dirname(run_dir)])[0].leftovers) == 2
    done = subprocess.run([*command, "--yes"], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, "2 left-over processes ended" in done.stderr) == (0, True)
    assert scan([os.path.dirname(run_dir)])[0].leftovers == ()
