"""A training launched over ssh outlives the connection, and the next session finds it, follows it and stops it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from tests.ssh.server import Server

# Ends at a hang-up, as torchrun's agent does: what must not come is the signal itself.
TRAIN = """
import json, os, signal, sys, time
run = os.environ["LAVENDER_RUN_DIR"]
def ends(signum, frame):
    open(f"{run}/signal.{signum}", "w").close()
    sys.exit(0 if signum == signal.SIGTERM else 1)
for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(signum, ends)
about = {"sid": os.getsid(0), "pid": os.getpid(), "tty": [os.isatty(fd) for fd in (0, 1, 2)], "argv": sys.argv[1:],
         "mark": os.environ.get("MARK_FROM_SHELL"), "exe": sys.executable, "cwd": os.getcwd()}
with open(f"{run}/about.json.new", "w") as file:
    json.dump(about, file)
os.rename(f"{run}/about.json.new", f"{run}/about.json")
step = 0
while True:
    step += 1
    print("step", step, flush=True)
    time.sleep(0.05)
"""


class Remote:
    """A directory with a training, and `lavender-tui` in sessions of ssh."""

    def __init__(self, server: Server, directory: Path, until: Callable[..., Any]) -> None:
        self.server, self.directory, self.until = server, directory, until
        self.script = directory / "train.py"
        self.script.write_text(TRAIN)
        self.root = directory / "checkpoints"
        self.environment = [f"HOME={directory}", f"PYTHONPATH={Path(__file__).parents[2]}", "MARK_FROM_SHELL=kept"]
        self.sessions: list[subprocess.Popen[bytes]] = []

    def launch(self, *words: str) -> tuple[subprocess.Popen[bytes], str]:
        """Start the training in a session with a terminal that stays open; (the client, the run's directory)."""
        command = [sys.executable, "-m", "lavender_tui", "resume", "--latest", str(self.root), "--follow", "--"]
        command += [sys.executable, str(self.script), *words]
        self.sessions.append(self.server.open(*command, environment=self.environment))
        self.until(lambda: list(self.root.glob("run-*/about.json")), 60, "the training to begin")
        (about,) = self.root.glob("run-*/about.json")
        return self.sessions[-1], str(about.parent)

    def lavender(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.server.run(sys.executable, "-m", "lavender_tui", *words, environment=self.environment)

    def listed(self) -> dict[str, Any]:
        done = self.lavender("ls", str(self.root), "--json")
        assert done.returncode == 0, done.stderr
        (run,) = json.loads(done.stdout)
        return run

    def steps(self, run_dir: str) -> int:
        return Path(run_dir, "train.log").read_text().count("step")

    def goes_on(self, run_dir: str) -> None:
        before = self.steps(run_dir)
        self.until(lambda: self.steps(run_dir) > before + 5, what="further steps")
        assert not [name for name in os.listdir(run_dir) if name.startswith("signal.")]


@pytest.fixture
def remote(server: Server, tmp_path: Path, until: Callable[..., Any], nothing_survives: object) -> Iterator[Remote]:
    remote = Remote(server, tmp_path, until)
    yield remote
    for session in remote.sessions:
        session.kill()
        session.wait()
        for stream in (session.stdin, session.stdout):
            stream.close()


def record_of(run_dir: str) -> LaunchRecord:
    record = read_launch(run_dir)
    assert record is not None and record.supervisor is not None and record.leader is not None
    return record


def test_the_connection_is_cut_and_a_new_session_adopts_the_training(remote: Remote) -> None:
    client, run_dir = remote.launch("--note", "a b", "$HOME")
    record = record_of(run_dir)
    client.send_signal(signal.SIGKILL)
    client.wait()
    remote.goes_on(run_dir)
    assert record.supervisor.is_alive and record.leader.is_alive

    about = json.loads(Path(run_dir, "about.json").read_text())
    assert about["sid"] == about["pid"] == record.leader.pid and about["tty"] == [False, False, False]
    assert about["mark"] == "kept" and about["argv"] == ["--note", "a b", "$HOME"]
    assert os.path.normpath(about["exe"]) == os.path.normpath(sys.executable)

    run = remote.listed()
    assert (run["state"], run["pid"]) == ("running", record.leader.pid), run
    tail = remote.lavender("logs", run_dir, "-n", "3")
    assert tail.returncode == 0 and "step" in tail.stdout
    stopped = remote.lavender("stop", run_dir, "--yes")
    assert stopped.returncode == 0, stopped.stderr
    assert os.path.exists(os.path.join(run_dir, f"signal.{signal.SIGTERM:d}"))
    ended = read_exit(run_dir)
    assert ended is not None and ended.code == 0 and ended.stop is not None
    assert remote.listed()["state"] == "stopped"


def test_a_hang_up_of_the_terminal_reaches_nobody(remote: Remote) -> None:
    client, run_dir = remote.launch()
    assert client.stdin is not None
    client.stdin.close()  # the terminal's other end is gone
    client.send_signal(signal.SIGHUP)
    client.wait()
    remote.goes_on(run_dir)
    assert record_of(run_dir).is_alive
    remote.lavender("stop", run_dir, "--yes", "--kill")


def test_cut_off_and_without_its_supervisor_it_is_found_and_stopped(remote: Remote) -> None:
    client, run_dir = remote.launch()
    record = record_of(run_dir)
    client.send_signal(signal.SIGKILL)
    client.wait()
    os.kill(record.supervisor.pid, signal.SIGKILL)
    remote.until(lambda: not record.supervisor.is_alive)
    remote.goes_on(run_dir)
    run = remote.listed()
    assert run["state"] == "running" and "supervisor" in run["state_reason"], run["state_reason"]
    assert remote.lavender("stop", run_dir, "--yes").returncode == 0
    ended = read_exit(run_dir)
    assert ended is not None and ended.ended_at <= time.time() and not record.leader.is_alive
    assert remote.listed()["state"] == "stopped"
