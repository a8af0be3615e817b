"""What psutil is asked of a process, of real ones that are out of the ordinary."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import identity
from lavender_tui.launch.record import LaunchRecord, ProcessId, start_ticks, this_machine, write_launch
from lavender_tui.watch import procfs
from lavender_tui.watch.processes import ProcessTable

Start = Callable[..., subprocess.Popen]
WAIT = "print('up', flush=True); import sys; sys.stdin.read()"


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a process that says "up" and waits; it ends with the test."""
    with contextlib.ExitStack() as started:

        def begin(*argv: str | Path, **variables: str) -> subprocess.Popen:
            process = subprocess.Popen(
                [str(part) for part in argv],
                cwd=tmp_path,
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
            started.enter_context(process)
            started.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == b"up\n"
            return process

        yield begin


@pytest.fixture
def trainer(tmp_path: Path) -> Path:
    path = tmp_path / "train"
    path.write_text(f"#!{sys.executable}\n{WAIT}\n")
    path.chmod(0o755)
    return path


def record_of(run: Path, pid: int) -> LaunchRecord:
    ticks = start_ticks(pid)
    assert ticks is not None
    here = this_machine()
    return LaunchRecord(
        run_id="run-1", run_dir=str(run), backend="local", argv=("sh", "train.sh"), cwd="/",
        leader=ProcessId(pid=pid, start_ticks=ticks), started_at=1.0, written_by="supervisor",
        host=here.host, boot_id=here.boot_id, pid_namespace=here.pid_namespace,
    )  # fmt: skip


def test_who_is_gone_or_ended_has_no_traits(start: Start, until):
    process = start(sys.executable, "-c", WAIT)
    assert procfs.read_traits(process.pid).is_python
    process.kill()  # and not waited for
    until(lambda: process.pid not in {stat.pid for stat in procfs.living()}, what="the zombie")
    for pid in (process.pid, (1 << 22) + 1):
        assert procfs.read_traits(pid) == procfs.Traits()
        assert procfs.working_directory(pid) is None
        assert identity.files_open_for_writing(pid) == []
        assert not procfs.uses_torch(pid)


def test_of_a_huge_environment_and_command_line_only_a_little_is_kept(start: Start, tmp_path: Path):
    noise = {f"NOISE_{number}": "x" * 90 for number in range(8_000)}  # with the arguments, just under what exec allows
    arguments = ["y" * 1000] * 400
    process = start(
        sys.executable, "-c", WAIT, *arguments, **noise, LAVENDER_RUN_DIR=str(tmp_path), RUN_DIR="z" * 100_000
    )
    traits = procfs.read_traits(process.pid)
    assert traits.environ["LAVENDER_RUN_DIR"] == str(tmp_path)
    assert "RUN_DIR" not in traits.environ and not any(key.startswith("NOISE") for key in traits.environ)
    assert traits.argv[:3] == (sys.executable, "-c", WAIT)
    assert len(traits.argv) <= procfs.MAX_ARGUMENTS and sum(map(len, traits.argv)) <= procfs.MAX_CMDLINE


def test_files_open_for_reading_are_left_out(start: Start, tmp_path: Path):
    (tmp_path / "read").touch()
    code = "kept = open('read'), open('written', 'w'), open('appended', 'a'), open('both', 'w+');" + WAIT
    process = start(sys.executable, "-c", code)
    names = {os.path.basename(path) for path in identity.files_open_for_writing(process.pid)}
    assert names == {"written", "appended", "both"}


def test_a_script_that_is_its_own_program_is_python(start: Start, trainer: Path):
    process = start(trainer)
    (name,) = [stat.name for stat in procfs.living() if stat.pid == process.pid]
    assert name == "train"
    assert procfs.is_python(process.pid)


def test_a_shell_that_becomes_python_is_looked_at_again(start: Start, trainer: Path, tmp_path: Path):
    run = str(tmp_path / "run-2025-03-14_09-00-00")
    process = start("/bin/sh", "-c", f"echo up; read go; exec '{trainer}' --run-dir '{run}'")
    table = ProcessTable()
    assert table.find([run], {}) == {}
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"go\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"up\n"
    assert [one.pid for one in table.find([run], {})[run]] == [process.pid]


def test_a_recorded_shell_and_what_it_starts_belong_to_the_run(start: Start, tmp_path: Path, until):
    process = start("/bin/sh", "-c", "exec 3<&0; cat <&3 - & echo up; wait")  # cat ends with the test
    run = str(tmp_path / "run-2025-03-14_09-00-00")
    record = record_of(Path(run), process.pid)

    def commands() -> list[tuple[str, ...]]:
        return [one.command for one in ProcessTable().find([run], {run: record})[run]]

    until(lambda: ("cat", "-") in commands(), what="the child, which is a shell itself at first")
    assert sorted(command[:2] for command in commands()) == [("/bin/sh", "-c"), ("cat", "-")]


def test_the_first_look_shows_a_live_run_without_psutil(start: Start, tmp_path: Path):
    process = start(sys.executable, "-c", WAIT)
    run = tmp_path / "run-2025-03-14_09-00-00"
    run.mkdir()
    write_launch(str(run), record_of(run, process.pid))
    code = (
        "import sys; from lavender_tui.tui import app; from lavender_tui.tui.first_look import look;"
        "from lavender_tui.watch.index import Index;"
        f"(run,) = look([{str(tmp_path)!r}], Index()).runs;"
        "print([one.pid for one in run.processes], 'psutil' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (answer.stdout, answer.stderr) == (f"[{process.pid}] False\n", "")
