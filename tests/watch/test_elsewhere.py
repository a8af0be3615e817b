"""Records of other machines, other boots and other processes: what is said of them, and that none is guessed alive."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import ask_to_stop, withdraw
from lavender_tui.launch.files import EXIT, LAUNCH, LOCK, STOP
from lavender_tui.launch.identity import booted_at, start_ticks
from lavender_tui.launch.living import is_alive
from lavender_tui.launch.record import (
    ExitRecord,
    ProcessId,
    StopRecord,
    describe_this_process,
    new_run_id,
    write_exit,
    write_launch,
    write_stop,
)
from lavender_tui.model.ending import StopAt
from lavender_tui.model.run import Run, RunState
from lavender_tui.resume.fresh import why_alive
from lavender_tui.watch.scan import scan
from tests.watch import saves
from tests.watch.saves import RUN


@pytest.fixture
def sleeper() -> Iterator[ProcessId]:
    """A process that lives, and is nobody's training."""
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield ProcessId(pid=process.pid, start_ticks=start_ticks(process.pid) or 0)
        process.communicate(b"\n")


@pytest.fixture
def dead() -> ProcessId:
    process = subprocess.Popen(["true"])
    ticks = start_ticks(process.pid) or 0
    process.wait()
    return ProcessId(pid=process.pid, start_ticks=ticks)


@pytest.fixture
def recorded(tmp_path: Path) -> Callable[..., Path]:
    """A run with a save, and a launch record in which some things are as told."""

    def make(*, root: Path = tmp_path, **other: Any) -> Path:
        run = root / RUN
        saves.save(run, 60)
        record = describe_this_process(str(run), run_id=new_run_id(str(run)))
        write_launch(str(run), dataclasses.replace(record, written_by="supervisor", **other))
        return run

    return make


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that other users reach; those of pytest are its user's own."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def state(tmp_path: Path) -> tuple[RunState, str]:
    run = seen_by_scan(tmp_path)
    return run.state, run.state_reason


def seen_by_scan(tmp_path: Path) -> Run:
    (run,) = scan([str(tmp_path)])
    return run


def age(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds,) * 2)


Make = Callable[..., Path]


def test_alive_is_who_has_pid_start_boot_host_and_namespace(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    recorded(leader=sleeper)
    assert state(tmp_path) == (RunState.RUNNING, "1 live process")
    assert seen_by_scan(tmp_path).pid == sleeper.pid


def test_a_pid_that_another_process_has_now_is_gone(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    run = recorded(leader=dataclasses.replace(sleeper, start_ticks=sleeper.start_ticks - 12345))
    assert state(tmp_path)[0] is RunState.FAILED
    assert state(tmp_path)[1].startswith("its process is gone")
    assert not is_alive(str(run))  # so that it can be resumed, and nothing has to be deleted by hand


def test_a_dead_pid_is_gone(tmp_path: Path, recorded: Make, dead: ProcessId):
    recorded(leader=dead)
    assert state(tmp_path) == (
        RunState.FAILED,
        "its process is gone and left no exit record (killed, or the machine went down)",
    )


@pytest.mark.parametrize("other", [{"host": "node-elsewhere", "boot_id": "1" * 36}, {"host": "node-elsewhere"}])
def test_another_host_is_unknown_though_its_pid_lives_here(
    tmp_path: Path, recorded: Make, sleeper: ProcessId, other: dict[str, str]
):
    run = recorded(leader=sleeper, **other)
    assert state(tmp_path)[0] is RunState.IDLE
    assert state(tmp_path)[1].startswith("on node-elsewhere: last sign less than 10 s ago (save 0060)")
    assert seen_by_scan(tmp_path).processes == ()
    age(run / saves.name(60), 200)
    words = state(tmp_path)[1]
    assert words.startswith("on node-elsewhere: unknown since ")
    assert words.endswith(" (last sign: save 0060, 3 min ago)")


def test_pid_one_of_a_container_elsewhere_is_never_alive(tmp_path: Path, recorded: Make):
    recorded(leader=ProcessId(pid=1, start_ticks=start_ticks(1) or 0), host="container-elsewhere")
    assert state(tmp_path)[0] is RunState.IDLE


def test_another_pid_namespace_is_another_container(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    recorded(leader=sleeper, pid_namespace="pid:[1]")
    assert state(tmp_path)[0] is RunState.IDLE
    assert "another container on" in state(tmp_path)[1]


@pytest.mark.parametrize("other", [{"pid_namespace": "pid:[1]"}, {"host": "gpu-07"}])
def test_an_error_in_the_log_ends_nobody_who_may_live_elsewhere(
    tmp_path: Path, recorded: Make, sleeper: ProcessId, other: dict[str, str]
):
    run = recorded(leader=sleeper, **other)
    (run / "train.log").write_text("Traceback (most recent call last):\nRuntimeError: got over it\n")
    assert state(tmp_path)[0] is RunState.IDLE and seen_by_scan(tmp_path).end is None


def test_the_heartbeat_of_its_supervisor_is_a_sign_of_life_and_no_more(tmp_path: Path, recorded: Make):
    run = recorded(host="gpu-07")
    age(run / saves.name(60), 4000)
    (run / LOCK).touch()
    assert state(tmp_path) == (
        RunState.IDLE,
        "on gpu-07: last sign less than 10 s ago (heartbeat); whether it lives can't be seen from here",
    )
    age(run / LOCK, 41)
    assert state(tmp_path)[1].endswith("(last sign: heartbeat, 40 s ago)")
    assert seen_by_scan(tmp_path).last_activity_at < time.time() - 3000  # a heartbeat is no activity


def test_a_step_or_a_log_line_is_a_sign_too(tmp_path: Path, recorded: Make):
    run = recorded(host="gpu-07")
    age(run / saves.name(60), 4000)
    (run / "metrics.jsonl").write_text('{"step": 1830, "loss": 1.0}\n')
    assert "(step 1830)" in state(tmp_path)[1]
    age(run / "metrics.jsonl", 500)
    (run / "train.log").write_text("busy\n")
    assert "(log)" in state(tmp_path)[1]


def test_the_recorded_end_of_a_run_elsewhere_is_believed(tmp_path: Path, recorded: Make):
    run = recorded(host="gpu-07")
    (run / EXIT).write_text(json.dumps({"schema": 1, "code": 3, "signal": None, "ended_at": time.time()}))
    assert state(tmp_path) == (RunState.FAILED, "exit code 3")
    (run / EXIT).unlink()
    (run / STOP).write_text(json.dumps({"schema": 1, "who": "ann", "how": "graceful", "asked_at": time.time()}))
    assert state(tmp_path)[0] is RunState.IDLE  # that it was asked for is no end


def test_a_restart_of_this_machine_ended_it(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    before = booted_at(time.time()) - 3600
    run = recorded(leader=sleeper, boot_id="0" * 36, started_at=before)
    age(run / saves.name(60), time.time() - before - 60)
    assert state(tmp_path)[0] is RunState.FAILED
    assert state(tmp_path)[1].startswith("the machine was restarted at ")


def test_a_sign_from_after_the_restart_is_another_machine_of_that_name(tmp_path: Path, recorded: Make):
    recorded(boot_id="0" * 36, started_at=booted_at(time.time()) - 3600)  # its save is new
    assert state(tmp_path)[0] is RunState.IDLE
    assert "on another machine named " in state(tmp_path)[1]


def test_a_copy_is_not_alive_through_the_pids_of_its_original(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    run = recorded(leader=sleeper)
    copy = tmp_path / "run-2025-03-15_09-00-00"
    subprocess.run(["cp", "-r", str(run), str(copy)], check=True)
    by_name = {one.name: one for one in scan([str(tmp_path)])}
    assert by_name[RUN].state is RunState.RUNNING
    assert (by_name[copy.name].state, by_name[copy.name].processes) == (RunState.IDLE, ())
    assert by_name[copy.name].state_reason == f"a copy: its launch record is that of {RUN}"


def test_a_run_directory_that_was_moved_keeps_its_record(tmp_path: Path, recorded: Make, sleeper: ProcessId):
    recorded(leader=sleeper)
    (tmp_path / "old").mkdir()
    (tmp_path / RUN).rename(tmp_path / "old" / RUN)
    assert state(tmp_path)[0] is RunState.RUNNING


@pytest.mark.parametrize("pid", [0, -1, 99999999999999, True, None, "12"])
def test_absurd_pids_get_no_further_than_the_record(tmp_path: Path, recorded: Make, pid: object):
    run = recorded()
    document = json.loads((run / LAUNCH).read_text())
    document["leader"] = {"pid": pid, "start_ticks": 1}
    (run / LAUNCH).write_text(json.dumps(document))
    found = seen_by_scan(tmp_path)
    assert (found.state, found.processes) == (RunState.FAILED, ())
    assert any("`leader` is no process" in warning for warning in found.warnings)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_another_users_run_lives_by_its_record_and_is_not_stopped(
    open_to_all: Path, recorded: Make, sleeper: ProcessId
):
    run = recorded(root=open_to_all, leader=sleeper)
    run.chmod(0o777)
    code = (
        "import os\n"
        "from lavender_tui.errors import LavenderError\n"
        "from lavender_tui.launch import stop\n"
        "from lavender_tui.watch.scan import scan\n"
        "scan([]); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        f"(run,) = scan([{str(open_to_all)!r}])\n"
        "print(run.state_reason)\n"
        f"try: stop({str(run)!r})\n"
        "except LavenderError as error: print(error)\n"
    )
    environ = {**os.environ, "HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", env=environ)
    assert done.stderr == ""
    reason, refusal = done.stdout.splitlines()[:2]
    assert reason == "1 live process of user root"
    assert "its processes belong to root" in refusal
    assert sleeper.is_alive
    assert not (run / STOP).exists()  # nobody was told, so nothing is stopped


REUSE = """\
import json, os, subprocess, sys, time
from lavender_tui.launch.identity import start_ticks
from lavender_tui.launch.record import ProcessId, describe_this_process, write_launch
from lavender_tui.watch.scan import scan
import dataclasses
root, run = sys.argv[1:]
def state():
    (found,) = scan([root])
    return found.state.value, found.pid
first = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
leader = ProcessId(pid=first.pid, start_ticks=start_ticks(first.pid))
record = describe_this_process(run, run_id="run-1")
write_launch(run, dataclasses.replace(record, leader=leader, written_by="supervisor"))
told = [state()]
first.kill(); first.wait(); time.sleep(0.05)  # a tick of the clock later
for _ in range(500):
    with open("/proc/sys/kernel/ns_last_pid", "w") as file:
        file.write(str(leader.pid - 1))
    second = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    if second.pid == leader.pid:
        break
    second.kill(); second.wait()
os.kill(leader.pid, 0)  # somebody has that pid
told += [second.pid == leader.pid, state()]
second.kill(); second.wait()
print(json.dumps(told))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to make a pid namespace and to choose the next pid")
def test_a_pid_that_was_truly_given_again_is_not_the_training(tmp_path: Path):
    run = tmp_path / RUN
    saves.save(run, 60)
    command = ["unshare", "--fork", "--pid", "--mount-proc", sys.executable, "-c", REUSE, str(tmp_path), str(run)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if "unshare" in done.stderr:
        pytest.skip(f"no pid namespace here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    alive, is_reused, after = json.loads(done.stdout)
    assert alive[0] == "running"
    assert is_reused
    assert after == ["failed", None]


def test_what_one_elsewhere_is_asked_for_is_shown_until_it_is_withdrawn(tmp_path: Path, recorded: Make):
    run = recorded(host="gpu-07")
    ask_to_stop(str(run), StopAt.NEXT_SAVE, who="ann@gpu-03")
    seen = seen_by_scan(tmp_path)
    assert seen.request is not None and seen.state_reason.endswith("; stops at the next save, asked by ann@gpu-03")
    withdraw(str(run))
    seen = seen_by_scan(tmp_path)
    assert seen.request is None and "asked by" not in seen.state_reason


def test_a_stop_that_was_asked_for_elsewhere_is_no_end(tmp_path: Path, recorded: Make):
    """It may be saving at this moment: nobody says that it has stopped, and nothing is started in its place."""
    run = recorded(host="gpu-07")
    write_stop(str(run), StopRecord(who="ann@gpu-03", how="graceful", asked_at=time.time() - 130))
    seen = seen_by_scan(tmp_path)
    assert (seen.state, seen.is_surely_over) == (RunState.IDLE, False)
    assert seen.state_reason == (
        "on gpu-07: stop asked 2 min ago by ann@gpu-03, its end isn't seen from here "
        "(last sign: save 0060, less than 10 s ago)"
    )
    assert (why_alive(seen) or "").startswith(f"{RUN} seems to live on gpu-07: it wrote ")
    write_exit(str(run), ExitRecord(code=0, signal=None, ended_at=time.time(), stop={"who": "SIGTERM"}))
    seen = seen_by_scan(tmp_path)
    assert (seen.state, seen.is_surely_over, why_alive(seen)) == (RunState.STOPPED, True, None)
    assert seen.state_reason.startswith("stopped on request by ann@gpu-03")
