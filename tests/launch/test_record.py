"""Records are whole or not there, are read with distrust, and never mistake one process for another."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lavender_tui.launch import living
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    SlurmJob,
    StopRecord,
    describe_this_process,
    end_facts,
    examine_launch,
    is_same_process,
    read_exit,
    read_launch,
    read_stop,
    start_ticks,
    write_atomically,
    write_exit,
    write_launch,
    write_stop,
)
from lavender_tui.model.run import Lineage


def record_of(run_dir: Path, **changes: object) -> LaunchRecord:
    return replace(describe_this_process(str(run_dir), world_size=2), **changes)  # type: ignore[arg-type]


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    foreign = os.fsdecode(b"caf\xe9 \xff")
    written = record_of(
        tmp_path,
        argv=("python", foreign, "{x} \x1b[31m"),
        env={"A": "b"},
        resumed_from=Lineage(run="/old", checkpoint=f"/old/{foreign}.pt"),
        command=("python", "{checkpoint}"),
        supervisor=ProcessId(pid=7, start_ticks=8),
    )
    write_launch(str(tmp_path), written)
    assert examine_launch(str(tmp_path)) == (written, None)
    assert (tmp_path / "launch.json").read_bytes().isascii()


def test_a_record_is_written_once(tmp_path: Path) -> None:
    first = ExitRecord(code=0, signal=None, ended_at=1.0)
    write_exit(str(tmp_path), first)
    with pytest.raises(FileExistsError):
        write_exit(str(tmp_path), ExitRecord(code=1, signal=None, ended_at=2.0))
    assert read_exit(str(tmp_path)) == first
    assert os.listdir(tmp_path) == ["exit.json"]


def test_of_many_writers_one_wins_and_nothing_is_left(tmp_path: Path) -> None:
    wins: list[int] = []

    def write(number: int) -> None:
        try:
            write_atomically(str(tmp_path / "x"), str(number).encode() * 1000)
        except FileExistsError:
            return
        wins.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == 1
    assert (tmp_path / "x").read_text() == str(wins[0]) * 1000
    assert os.listdir(tmp_path) == ["x"]


def test_replacing_must_be_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    write_atomically(path, b"1")
    write_atomically(path, b"2", replace=True)
    assert Path(path).read_bytes() == b"2"


def test_a_record_cut_at_any_byte_is_none_with_a_reason(tmp_path: Path) -> None:
    write_launch(str(tmp_path), record_of(tmp_path))
    path = tmp_path / "launch.json"
    whole = path.read_bytes()
    for length in range(len(whole.rstrip())):
        path.write_bytes(whole[:length])
        record, reason = examine_launch(str(tmp_path))
        assert record is None and reason, length


HOSTILE_DOCUMENTS = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[1]",
    b"[" * 100_000,
    b'{"schema": ' + b"9" * 10_000 + b"}",
    b'{"schema": 2}',
    b'{"schema": NaN}',
    b'{"schema": 1}',
]


@pytest.mark.parametrize("data", HOSTILE_DOCUMENTS, ids=range(len(HOSTILE_DOCUMENTS)))
def test_hostile_bytes_are_none_with_a_reason(tmp_path: Path, data: bytes) -> None:
    for name in ("launch.json", "stop.json", "exit.json"):
        (tmp_path / name).write_bytes(data)
    record, reason = examine_launch(str(tmp_path))
    assert record is None and reason
    assert read_stop(str(tmp_path)) is None and read_exit(str(tmp_path)) is None and end_facts(str(tmp_path)) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("leader", {"pid": 0, "start_ticks": 1}),
        ("leader", {"pid": -1, "start_ticks": 1}),
        ("leader", {"pid": True, "start_ticks": 1}),
        ("leader", {"pid": 1 << 40, "start_ticks": 1}),
        ("leader", {"pid": 5, "start_ticks": "1"}),
        ("leader", None),
        ("supervisor", 5),
        ("argv", "rm -rf"),
        ("argv", ["a", None]),
        ("argv", ["a\0b"]),
        ("argv", ["\ud800"]),  # half a character: JSON can name it, no file and no argument can have it
        ("run_dir", "/run-\ud800"),
        ("env", {"\udfff": "x"}),
        ("cwd", 5),
        ("env", {"A": 1}),
        ("started_at", float("nan")),
        ("started_at", True),
        ("world_size", "2"),
        ("resumed_from", []),
        ("resumed_from", "run"),
        ("attempt", 1.5),
    ],
)
def test_a_wrong_value_is_none_and_named(tmp_path: Path, key: str, value: object) -> None:
    write_launch(str(tmp_path), record_of(tmp_path))
    path = tmp_path / "launch.json"
    document = json.loads(path.read_text())
    document[key] = value
    path.write_text(json.dumps(document))
    record, reason = examine_launch(str(tmp_path))
    assert record is None and reason is not None and f"`{key}`" in reason


def test_a_run_that_no_file_system_can_hold_is_not_what_it_was_resumed_from(tmp_path: Path) -> None:
    write_launch(str(tmp_path), record_of(tmp_path))
    path = tmp_path / "launch.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "resumed_from": {"run": "/\ud800", "checkpoint": None}})
    )
    assert examine_launch(str(tmp_path)) == (None, "`run` is no text")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = [
    "schema",
    "run_id",
    "argv",
    "leader",
    "supervisor",
    "env",
    "started_at",
    "world_size",
    "resumed_from",
    "command",
    "slurm",
]


@given(changes=st.dictionaries(st.sampled_from([*KEYS, "stop", "code", "who", "ended_at", "killed"]), JSON, max_size=3))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_no_value_in_a_record_raises(tmp_path: Path, changes: dict[str, object]) -> None:
    whole = {**asdict(record_of(tmp_path)), "ended_at": 1.0, "code": 0, "who": "a", "how": "kill", "asked_at": 1.0}
    for name in ("launch.json", "stop.json", "exit.json"):
        (tmp_path / name).write_text(json.dumps({**whole, **changes}))
    record, reason = examine_launch(str(tmp_path))
    assert (record is None) == (reason is not None)
    end_facts(str(tmp_path))
    if record is not None:
        assert isinstance(record.is_alive, bool) and record.known_as
        assert record.leader.pid > 0 if record.leader is not None else record.slurm is not None


JOB = SlurmJob(
    job_id=4_290_000_001, name="lavender-x", script="/runs/a b/job.sbatch", stdout="/runs/\udcff", cluster="lab"
)


@pytest.mark.parametrize("job", [JOB, replace(JOB, job_id=None, cluster=None)])
def test_a_job_of_slurm_needs_no_process(tmp_path: Path, job: SlurmJob) -> None:
    record = replace(record_of(tmp_path), leader=None, supervisor=None, backend="slurm", slurm=job)
    write_launch(str(tmp_path), record)
    assert examine_launch(str(tmp_path)) == (record, None)
    assert not record.is_alive and record.known_as == (f"Slurm job {job.job_id}" if job.job_id else "a Slurm job")


@pytest.mark.parametrize(
    "job", [[], {"job_id": 0}, {"job_id": True}, {"job_id": 1 << 32}, {"job_id": 1}, {**asdict(JOB), "stdout": 3}]
)
def test_what_no_job_can_be_is_said(tmp_path: Path, job: object) -> None:
    document = {**asdict(record_of(tmp_path)), "slurm": job}
    (tmp_path / "launch.json").write_text(json.dumps(document))
    record, reason = examine_launch(str(tmp_path))
    assert record is None and reason is not None


def test_only_a_job_may_lack_a_process(tmp_path: Path) -> None:
    (tmp_path / "launch.json").write_text(json.dumps({**asdict(record_of(tmp_path)), "leader": None}))
    assert examine_launch(str(tmp_path)) == (None, "`leader` is no process")


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "launch.json")
    (tmp_path / "stop.json").mkdir()
    (tmp_path / "exit.json").symlink_to("exit.json")
    assert examine_launch(str(tmp_path)) == (None, "is no regular file")
    assert read_stop(str(tmp_path)) is None and read_exit(str(tmp_path)) is None
    assert examine_launch(str(tmp_path / "nowhere")) == (None, None)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "launch.json", "wb") as file:
        file.truncate(1 << 33)
    record, reason = examine_launch(str(tmp_path))
    assert record is None and reason is not None and "bytes long" in reason


def test_a_pid_alone_is_nobody() -> None:
    ticks = start_ticks(os.getpid())
    assert ticks is not None
    assert is_same_process(os.getpid(), ticks)
    assert not is_same_process(os.getpid(), ticks + 1)
    assert start_ticks(1 << 30) is None


def test_a_zombie_has_ended(until) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ticks = start_ticks(child.pid)
    assert ticks is not None and is_same_process(child.pid, ticks)
    assert child.stdin is not None
    child.stdin.close()
    until(lambda: not is_same_process(child.pid, ticks), what="the child to be a zombie")
    assert start_ticks(child.pid) == ticks
    child.wait()


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"boot_id": "another"}, {"pid_namespace": "pid:[1]"}])
def test_pids_of_another_machine_mean_nothing_here(tmp_path: Path, change: dict[str, str]) -> None:
    assert record_of(tmp_path).is_alive
    record = record_of(tmp_path, **change)
    assert not record.is_here and not record.is_alive


def test_a_copied_directory_is_not_alive(tmp_path: Path) -> None:
    original, copy, moved = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    original.mkdir()
    write_launch(str(original), record_of(original))
    shutil.copytree(original, copy)
    assert living.is_alive(str(original)) and not living.is_alive(str(copy))
    shutil.rmtree(copy)
    original.rename(moved)
    assert living.is_alive(str(moved))


def test_the_end_is_read_from_both_records(tmp_path: Path) -> None:
    assert end_facts(str(tmp_path)) is None
    write_stop(str(tmp_path), StopRecord(who="ada@lab", how="graceful", asked_at=1.0))
    facts = end_facts(str(tmp_path))
    assert facts is not None and facts.stop_requested and facts.stop_by == "ada@lab" and facts.ended_at is None
    write_exit(str(tmp_path), ExitRecord(code=None, signal="SIGKILL", ended_at=9.5, error="boom", killed=True))
    facts = end_facts(str(tmp_path))
    assert facts is not None
    assert (facts.exit_code, facts.signal, facts.error, facts.ended_at) == (None, "SIGKILL", "boom", 9.5)


def test_a_stop_that_only_the_supervisor_saw_counts(tmp_path: Path) -> None:
    write_exit(str(tmp_path), ExitRecord(code=1, signal=None, ended_at=1.0, stop={"who": "SIGTERM from pid 1"}))
    facts = end_facts(str(tmp_path))
    assert facts is not None and facts.stop_requested and facts.stop_by == "SIGTERM from pid 1"


def test_a_training_describes_itself_with_the_command_that_starts_it_again(tmp_path: Path) -> None:
    code = (
        "import sys; from lavender_tui.launch.record import *; "
        f"write_launch({str(tmp_path)!r}, describe_this_process({str(tmp_path)!r}, world_size=1))"
    )
    argv = [sys.executable, "-X", "utf8", "-c", code]
    subprocess.run(argv, cwd=tmp_path, check=True)
    record = read_launch(str(tmp_path))
    assert record is not None
    assert (record.argv, record.cwd, record.backend) == (tuple(argv), str(tmp_path), "local")
    assert record.written_by == "training" and not record.is_alive


def test_records_need_the_standard_library_alone() -> None:
    code = (
        "import sys, lavender_tui.launch.record, lavender_tui.launch.run_dir, lavender_tui.launch.supervisor; "
        "print(*sorted({name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names)))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True, cwd=_root())
    assert set(done.stdout.split()) <= {"__main__", "lavender_tui"}


def _root() -> str:
    import lavender_tui

    return str(Path(lavender_tui.__file__).parents[1])
