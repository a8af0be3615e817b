"""What can happen between a look and a signal: several of them, an end in that instant, others' processes and pids."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import stop_order, stopping
from lavender_tui.launch.journal import read as read_journal
from lavender_tui.launch.living import members
from lavender_tui.launch.record import (
    ExitRecord,
    StopRecord,
    end_facts,
    read_exit,
    read_launch,
    read_stop,
    write_exit,
    write_stop,
)
from lavender_tui.launch.stop_order import CannotRecord, CannotStop
from tests.launch.conftest import POLITE, STUBBORN, Lab

# Notes each signal that it gets; ends 0.3 s after the first SIGTERM.
COUNTING = """
import signal, sys, time
until = [time.monotonic() + 60]
def came(number, frame):
    print("got", signal.Signals(number).name, flush=True)
    if number == signal.SIGTERM:
        until[0] = time.monotonic() + 0.3
signal.signal(signal.SIGTERM, came)
signal.signal(signal.SIGINT, came)
print("up", flush=True)
while time.monotonic() < until[0]:
    time.sleep(0.02)
"""


def test_sigterm_twice_reaches_the_training_once(lab: Lab) -> None:
    run_dir, record = lab.train(COUNTING)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGTERM)
    os.kill(record.supervisor.pid, signal.SIGTERM)
    lab.until(lambda: "got SIGTERM" in lab.log(run_dir))
    launch.stop(run_dir, launch.StopOrder(wait=False))
    assert lab.ended(run_dir).code == 0
    assert lab.log(run_dir).count("got") == 1
    assert read_stop(run_dir).who.startswith("SIGTERM from")  # type: ignore[union-attr]


def test_an_interrupt_is_passed_on_as_one_and_a_polite_stop_may_follow(lab: Lab) -> None:
    run_dir, _ = lab.train(COUNTING)
    outcome = launch.stop(run_dir, launch.StopOrder(how="interrupt", wait=False))
    assert outcome.how == "asked" and outcome.words == "interrupted"
    lab.until(lambda: "got SIGINT" in lab.log(run_dir))
    assert read_exit(run_dir) is None
    assert launch.stop(run_dir).how == "ended"
    assert [line for line in lab.log(run_dir).splitlines() if "got" in line] == ["got SIGINT", "got SIGTERM"]
    assert read_stop(run_dir).how == "interrupt"  # type: ignore[union-attr]


def test_without_a_supervisor_the_interrupt_goes_to_the_leader(lab: Lab) -> None:
    run_dir, record = lab.train(COUNTING)
    assert record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    lab.until(lambda: not record.supervisor.is_alive)
    assert launch.stop(run_dir, launch.StopOrder(how="interrupt", wait=False)).how == "asked"
    lab.until(lambda: "got SIGINT" in lab.log(run_dir))
    launch.stop(run_dir)


def test_a_run_that_ends_in_the_instant_in_which_it_is_asked_has_not_been_stopped(lab: Lab) -> None:
    """Its supervisor is past the point where it listens; it says so by an end that nobody asked for."""
    run_dir, record = lab.start(sys.executable, lab.script("raise SystemExit(3)"))
    lab.ended(run_dir)
    write_stop(run_dir, StopRecord(who="ann@gpu-03", how="graceful", asked_at=0.0))
    facts = end_facts(run_dir)
    assert facts is not None and not facts.stop_requested and facts.exit_code == 3 and facts.stop_by is None
    assert record.written_by == "supervisor"


def test_an_end_between_the_look_and_the_signal_takes_the_announcement_back(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, record = lab.train(POLITE)
    assert record.supervisor is not None and record.leader is not None
    real = stopping.announce

    def and_then_it_ends(*arguments: object, **more: object) -> object:
        told = real(*arguments, **more)  # type: ignore[arg-type]
        os.kill(record.leader.pid, signal.SIGKILL)  # type: ignore[union-attr]
        lab.until(lambda: not record.is_alive)
        return told

    monkeypatch.setattr(stopping, "announce", and_then_it_ends)
    outcome = launch.stop(run_dir)
    assert outcome.how == "not running" and "ended by itself" in outcome.words
    assert read_stop(run_dir) is None and read_exit(run_dir).signal == "SIGKILL"  # type: ignore[union-attr]


def test_what_a_dead_run_left_running_is_ended_without_a_word_in_its_record(lab: Lab) -> None:
    run_dir, record = lab.train(STUBBORN)
    lab.until(lambda: lab.log(run_dir).count("up") == 2)
    assert record.supervisor is not None and record.leader is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    os.kill(record.leader.pid, signal.SIGKILL)
    lab.until(lambda: not record.is_alive)
    write_exit(run_dir, ExitRecord(code=None, signal="SIGKILL", ended_at=1.0))
    assert members(run_dir, record)
    outcome = launch.stop(run_dir, launch.StopOrder(grace=0.2))
    assert outcome.how == "killed" and "left running" in outcome.words and not members(run_dir, record)
    assert read_stop(run_dir) is None
    facts = end_facts(run_dir)
    assert facts is not None and not facts.stop_requested and facts.signal == "SIGKILL"
    (noted,) = [one for one in read_journal(os.path.dirname(run_dir), run_dir) if one.what == "stop asked"]
    assert noted.facts["left_over"] is True


# The disk is full

FULL = """
import resource, signal, sys
from lavender_tui.__main__ import main
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
main()
"""


def stop_on_a_full_disk(run_dir: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The command where no file can grow by a byte."""
    return subprocess.run(
        [sys.executable, "-c", FULL, "stop", run_dir, *options], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("options", [("--kill",), (), ("--yes",)])
def test_a_stop_that_can_not_be_recorded_is_done_all_the_same_and_says_what_it_will_look_like(
    lab: Lab, options: tuple[str, ...]
) -> None:
    run_dir, record = lab.train(POLITE)
    done = stop_on_a_full_disk(run_dir, *options)
    assert done.returncode == 0, done.stderr
    assert "could not be recorded (File too large): it will look like a failure" in done.stderr
    lab.until(lambda: not record.is_alive)


def test_from_a_program_a_polite_stop_asks_first(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    run_dir, record = lab.train(POLITE)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(stop_order, "write_stop", full)
    with pytest.raises(CannotRecord, match="would look like a failure"):
        launch.stop(run_dir)
    assert record.is_alive
    outcome = launch.stop(run_dir, launch.StopOrder(unrecorded=True))
    assert outcome.how == "ended" and outcome.unrecorded == "No space left on device"


# Another user

NOBODY = 65534
AS_NOBODY = """
import codecs, os
from lavender_tui.launch import KILL, stop  # before this user is another, who may not see the checkout, nor Python
codecs.lookup("ascii")
os.setgid({uid})
os.setuid({uid})
stop({run_dir!r}, KILL)
"""


@pytest.fixture
def seen_by_all() -> Iterator[Path]:
    """A directory that every user can look into; pytest's own are closed."""
    directory = Path(tempfile.mkdtemp(prefix="lavender-stop-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_another_users_run_is_refused_before_anything_is_written(lab: Lab, seen_by_all: Path) -> None:
    lab.directory = seen_by_all
    run_dir, record = lab.train(POLITE)
    os.chmod(run_dir, 0o777)  # it is the processes that are another's, not the directory
    try:
        code = AS_NOBODY.format(run_dir=run_dir, uid=NOBODY)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
        assert "its processes belong to root, and you are nobody" in done.stderr
        assert read_stop(run_dir) is None and record.is_alive
    finally:
        launch.stop(run_dir, launch.KILL)


# A pid that is another's by now

REUSE = """
import os, signal, subprocess, sys, time
from dataclasses import replace
from lavender_tui import launch
from lavender_tui.launch.record import ProcessId, describe_this_process, send_signal, start_ticks, write_launch

def sleeper(wanted=None):
    if wanted is not None:
        with open("/proc/sys/kernel/ns_last_pid", "w") as file:
            file.write(str(wanted - 1))
    return subprocess.Popen(["sleep", "60"])

first = sleeper()
old = ProcessId(pid=first.pid, start_ticks=start_ticks(first.pid))
run_dir = sys.argv[1]
write_launch(run_dir, replace(describe_this_process(run_dir), leader=old, supervisor=old))
first.kill()
first.wait()
time.sleep(0.05)  # another clock tick
for _ in range(50):
    second = sleeper(old.pid)
    if second.pid == old.pid:
        break
    second.kill()
    second.wait()
assert second.pid == old.pid, "the pid did not come back"
assert send_signal(old.pid, old.start_ticks, signal.SIGKILL) is False
print(launch.stop(run_dir, launch.KILL).how, second.poll())
second.kill()
second.wait()
"""


def test_a_pid_that_came_back_as_another_process_is_not_signalled(tmp_path: Path) -> None:
    inside = ["unshare", "--pid", "--fork", "--mount-proc"] + (
        [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    )
    if shutil.which("unshare") is None or subprocess.run([*inside, "true"], capture_output=True).returncode:
        pytest.skip("no pid namespace can be made here")
    command = [*inside, sys.executable, "-c", REUSE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "ns_last_pid" in done.stderr:
        pytest.skip("the next pid can't be chosen here")
    assert done.stdout == "not running None\n", done.stderr
    assert read_launch(str(tmp_path)) is not None


def test_a_run_on_another_machine_takes_no_signal(lab: Lab) -> None:
    run_dir, _ = lab.train(POLITE)
    path = Path(run_dir, "launch.json")
    text = path.read_text()
    path.write_text(text.replace(os.uname().nodename, "gpu-99"))
    with pytest.raises(CannotStop, match="gpu-99"):
        launch.stop(run_dir, launch.KILL)
    path.write_text(text)
    launch.stop(run_dir)


def test_the_time_to_save_is_the_setting_for_supervisor_and_torchrun_alike(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else torchrun would kill its ranks in the middle of a save that takes longer than its own default."""
    from lavender_tui.launch.command import build

    monkeypatch.setenv("LAVENDER_TUI_GRACE_SECONDS", "120")
    words = build((sys.executable, "train.py"), world_size=2, run_dir=lab.run_dir()).argv
    assert words[words.index("--shutdown-timeout") + 1] == "115"
    run_dir, record = lab.train(POLITE)
    assert record.grace_seconds == 120
    launch.stop(run_dir, launch.KILL)
