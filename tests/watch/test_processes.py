"""Who belongs to a run: real processes, each with one trait."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch.record import LaunchRecord, ProcessId, start_ticks, this_machine
from lavender_tui.model.run import LiveProcess
from lavender_tui.watch.machine import find_processes
from lavender_tui.watch.processes import recorded_processes

TRAINER = """\
import os, subprocess, sys, time
kept = [open(path, "a") for path in sys.argv[1:] if path.endswith(".log")]
if "--child" in sys.argv:
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]  # ends with its parent
    kept.append(subprocess.Popen(wait, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True))
print("up", flush=True)
time.sleep(600)
"""

Start = Callable[..., subprocess.Popen]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    directory = tmp_path / "checkpoints" / "run-2025-03-14_09-00-00"
    directory.mkdir(parents=True)
    return directory


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(TRAINER)
    return path


@pytest.fixture
def start(tmp_path: Path, nothing_survives: Callable[[], list[int]]) -> Iterator[Start]:
    """Start a process and wait until it says "up"; its group is ended after the test."""
    started: list[subprocess.Popen] = []

    def begin(*argv: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [str(part) for part in argv],
            cwd=cwd or tmp_path,
            env={**os.environ, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return process

    yield begin
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def found(run: Path, record: LaunchRecord | None = None) -> tuple[LiveProcess, ...]:
    return find_processes([str(run)], {str(run): record}).get(str(run), ())


def record_of(run: Path, pid: int, ticks: int, **other: str) -> LaunchRecord:
    here = this_machine()
    place = {"host": here.host, "boot_id": here.boot_id, "pid_namespace": here.pid_namespace, **other}
    return LaunchRecord(
        run_id="run-1", run_dir=str(run), backend="local", argv=("python",), cwd="/",
        leader=ProcessId(pid=pid, start_ticks=ticks), started_at=1.0, written_by="supervisor", **place,
    )  # fmt: skip


def ticks_of(pid: int) -> int:
    ticks = start_ticks(pid)
    assert ticks is not None
    return ticks


def test_the_environment_says_it(run: Path, script: Path, start: Start):
    process = start(sys.executable, script, LAVENDER_RUN_DIR=str(run), RANK="3", WORLD_SIZE="4")
    (one,) = found(run)
    assert (one.pid, one.role, one.rank, one.world_size, one.found_by) == (process.pid, "worker", 3, 4, "environment")
    assert one.start_ticks == ticks_of(process.pid)
    assert str(script) in one.command


def test_the_run_id_of_the_record_says_it(run: Path, script: Path, start: Start):
    process = start(sys.executable, script, LAVENDER_RUN_ID="run-1")
    assert [one.pid for one in found(run, record_of(run, 1, 1))] == [process.pid]


@pytest.mark.parametrize("is_known", [True, False], ids=["a run in sight", "a run elsewhere"])
def test_a_training_that_another_one_started_is_not_that_ones(run: Path, script: Path, start: Start, is_known: bool):
    """It inherits the id; the directory is its own."""
    other = run.parent / "run-2026-01-01_00-00-00"
    other.mkdir()
    process = start(sys.executable, script, LAVENDER_RUN_ID="run-1", LAVENDER_RUN_DIR=str(other))
    both = {str(run): record_of(run, 1, 1), str(other): None}
    found_in = find_processes([str(run), str(other)] if is_known else [str(run)], both)
    assert {path: [one.pid for one in they] for path, they in found_in.items()} == (
        {str(other): [process.pid]} if is_known else {}
    )


def test_a_run_that_was_moved_or_has_another_name_here_keeps_its_processes(run: Path, script: Path, start: Start):
    """The name in the environment is that in the record, though neither exists any more."""
    start(sys.executable, script, LAVENDER_RUN_ID="run-1", LAVENDER_RUN_DIR=str(run))
    moved = run.parent / "kept"
    run.rename(moved)
    assert len(find_processes([str(moved)], {str(moved): record_of(run, 1, 1)})[str(moved)]) == 1


def test_what_names_another_run_is_not_asked_further(run: Path, script: Path, start: Start):
    start(sys.executable, script, "--run-dir", run, LAVENDER_RUN_DIR=str(run.parent / "run-2026-01-01_00-00-00"))
    assert found(run) == ()


@pytest.mark.parametrize("arguments", [["--run-dir", "{run}"], ["--output_dir={run}"], ["--save-path", "{run}/"]])
def test_an_option_says_where_it_writes(run: Path, script: Path, start: Start, arguments: list[str]):
    process = start(sys.executable, script, *(part.format(run=run) for part in arguments))
    (one,) = found(run)
    assert (one.pid, one.found_by) == (process.pid, "arguments")


@pytest.mark.parametrize(
    "arguments",
    [["--resume-from", "{run}"], ["--init={run}"], ["--load-dir", "{run}"], ["{run}"], ["--run-dir", "{run}-2"]],
)
def test_a_run_that_is_read_or_merely_named_is_not_claimed(run: Path, script: Path, start: Start, arguments: list[str]):
    start(sys.executable, script, *(part.format(run=run) for part in arguments))
    assert found(run) == ()


def test_an_argument_and_a_file_held_open_for_writing_agree(run: Path, script: Path, start: Start):
    process = start(sys.executable, script, run, run / "train.log")
    assert [one.pid for one in found(run)] == [process.pid]


def test_a_relative_argument_counts_from_the_working_directory(run: Path, script: Path, start: Start):
    process = start(sys.executable, script, f"--run-dir=checkpoints/{run.name}")
    assert [one.pid for one in found(run)] == [process.pid]


def test_working_directory_and_log_agree(run: Path, script: Path, start: Start):
    process = start(sys.executable, script, "train.log", cwd=run)
    (one,) = found(run)
    assert (one.pid, one.found_by) == (process.pid, "working directory")


def test_a_working_directory_alone_is_not_enough(run: Path, script: Path, start: Start):
    start(sys.executable, script, cwd=run)
    assert found(run) == ()


def test_a_prompt_in_the_run_directory_is_no_training(run: Path, start: Start):
    log = run / "train.log"
    start(sys.executable, "-c", f"f = open({str(log)!r}, 'a'); print('up', flush=True); input()", cwd=run)
    assert found(run) == ()


def test_a_pager_on_the_log_is_no_training(run: Path, start: Start):
    (run / "train.log").write_text("up\n")
    start("tail", "-f", run / "train.log", cwd=run)
    assert found(run) == ()


def test_the_viewer_itself_is_no_training(run: Path, tmp_path: Path, start: Start):
    viewer = tmp_path / "bin" / "lavender-tui"
    viewer.parent.mkdir()
    viewer.write_text(TRAINER)
    start(sys.executable, viewer, "inspect", "--run-dir", run, run / "x.log", cwd=run, LAVENDER_RUN_DIR=str(run))
    assert found(run) == ()


def test_children_are_helpers_of_the_run(run: Path, script: Path, start: Start, until):
    process = start(sys.executable, script, "--run-dir", run, "--child")
    until(lambda: len(found(run)) == 2, what="the child")
    assert {one.role for one in found(run)} == {"process", "helper"}
    assert next(one for one in found(run) if one.role == "process").pid == process.pid


def test_what_outlived_its_leader_is_an_orphan(run: Path, script: Path, start: Start, until):
    process = start(sys.executable, script, LAVENDER_RUN_DIR=str(run), TORCHELASTIC_RUN_ID="x", RANK="0")
    record = record_of(run, process.pid, ticks_of(process.pid) - 1)  # the leader that had this pid before
    (one,) = found(run, record)
    assert (one.role, one.found_by) == ("orphan", "environment")


def test_a_zombie_is_not_alive(run: Path, script: Path, start: Start, until):
    process = start(sys.executable, script, LAVENDER_RUN_DIR=str(run))
    record = record_of(run, process.pid, ticks_of(process.pid))
    assert found(run, record)
    process.kill()  # and not waited for
    until(lambda: _state(process.pid) == "Z", what="the zombie")
    assert found(run, record) == ()
    assert recorded_processes(record) == ()


def test_a_record_is_believed_only_where_everything_matches(run: Path, script: Path, start: Start):
    process = start(sys.executable, script)
    ticks = ticks_of(process.pid)
    (one,) = found(run, record_of(run, process.pid, ticks))
    assert (one.pid, one.found_by, one.role) == (process.pid, "record", "process")
    assert [one.pid for one in recorded_processes(record_of(run, process.pid, ticks))] == [process.pid]
    for wrong in (
        record_of(run, process.pid, ticks - 12345),
        record_of(run, process.pid, ticks, boot_id="0" * 36),
        record_of(run, process.pid, ticks, host="elsewhere"),
        record_of(run, process.pid, ticks, pid_namespace="pid:[1]"),
    ):
        assert found(run, wrong) == ()
        assert recorded_processes(wrong) == ()


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to act as another user")
def test_other_users_are_passed_over(run: Path, script: Path, start: Start, tmp_path: Path):
    mine = start(sys.executable, script, LAVENDER_RUN_DIR=str(run))
    code = (
        "import os; from lavender_tui.watch.machine import find_processes;"
        "find_processes([], {}); os.setgroups([]); os.setgid(65534); os.setuid(65534);"
        f"print(find_processes([{str(run)!r}], {{}}))"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/")
    assert (answer.stdout, answer.stderr) == ("{}\n", "")
    assert [one.pid for one in found(run)] == [mine.pid]


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
