"""One resume of a run at a time, on all machines that see it; the dead hold up nobody, and the run is not touched."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.errors import AlreadyRunning
from lavender_tui.launch import lock_files
from lavender_tui.launch.lock_files import STALE_SECONDS, Holder, is_of_earlier_boot
from lavender_tui.launch.locks import place_of, resume_lock, who_resumes
from lavender_tui.launch.record import this_machine
from tests.launch import crowd

HERE = this_machine()
ELSEWHERE = Holder(
    host="gpu-07", boot_id="f1", pid_namespace=HERE.pid_namespace, pid=123, start_ticks=7, since=0.0, who="ada@gpu-07",
    token="t",
)  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> str:
    path = tmp_path / "checkpoints" / "run-2026-04-24_18-53-41"
    path.mkdir(parents=True)
    (path / "pretrain-10-00-00-0001.pt").write_bytes(b"x")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    return str(path)


def forge(run: str, holder: Holder | bytes, age_seconds: float = 0.0) -> Path:
    """A lock that another process left."""
    path = Path(os.path.join(*place_of(run)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(holder if isinstance(holder, bytes) else json.dumps(asdict(holder)).encode())
    then = time.time() - age_seconds
    os.utime(path, (then, then))
    return path


def a_dead_process() -> Holder:
    done = subprocess.Popen([sys.executable, "-I", "-S", "-c", ""])
    done.wait()
    return replace(
        ELSEWHERE, host=HERE.host, boot_id=HERE.boot_id, pid_namespace=HERE.pid_namespace, pid=done.pid, start_ticks=1
    )


def in_a_crowd(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, crowd.__file__, *words],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def untouched(run: str) -> bool:
    return os.listdir(run) == ["pretrain-10-00-00-0001.pt"] and os.stat(run).st_mtime == 1_700_000_000


def beside(run: str) -> list[str]:
    return sorted(os.listdir(os.path.dirname(run)))


def test_two_exclude_each_other_and_the_second_is_told_by_whom(run: str) -> None:
    with resume_lock(run) as held:
        assert held.path is not None and who_resumes(run) is not None
        document = json.loads(Path(held.path).read_text())
        assert (document["host"], document["pid"], document["boot_id"]) == (HERE.host, os.getpid(), HERE.boot_id)
        said = rf"{HERE.host} is resuming it since \d+ s \(pid {os.getpid()}\)"
        with pytest.raises(AlreadyRunning, match=said), resume_lock(run):
            pass
        link = os.path.dirname(run) + "-link"
        os.symlink(os.path.dirname(run), link)
        with pytest.raises(AlreadyRunning), resume_lock(os.path.join(link, os.path.basename(run))):
            pass
        held.confirm()
    assert who_resumes(run) is None and untouched(run) and beside(run) == [os.path.basename(run)]


def test_a_failure_gives_it_back(run: str) -> None:
    with pytest.raises(ZeroDivisionError), resume_lock(run):
        raise ZeroDivisionError
    assert beside(run) == [os.path.basename(run)]


@pytest.mark.parametrize("mount", [(), ("--without-flock",)], ids=["flock", "no flock"])
def test_of_fifty_at_once_exactly_one_gets_it(run: str, mount: tuple[str, ...]) -> None:
    assert in_a_crowd("race", run, "50", "12", *mount) == [1] * 12
    assert untouched(run) and beside(run) == [os.path.basename(run)]


@pytest.mark.parametrize("before", [(), ("--dead",)], ids=["free", "held by a dead one"])
@pytest.mark.parametrize("fault", ["kill", errno.ENOSPC, errno.EACCES], ids=["killed", "disk full", "not allowed"])
def test_whatever_happens_at_a_step_the_next_one_gets_it(run: str, fault: object, before: tuple[str, ...]) -> None:
    told = in_a_crowd("steps", run, str(fault), "--without-flock", *before)
    assert told["steps"] >= (32 if before else 22)
    assert all(has_document for _, has_document in told["after"]), told
    if fault == "kill":
        assert [ended for ended, _ in told["after"]] == [-9] * told["steps"] + [0]
    # A file that was killed before it held anything says not whose it was: it goes when it is old.
    left = [name for _, _, names in os.walk(os.path.join(os.path.dirname(run), ".lavender-tui")) for name in names]
    assert all(name.endswith(".tmp") for name in left) and (fault == "kill" or not left)
    assert untouched(run)


def test_a_dead_holder_is_replaced_and_an_unreadable_one_only_when_it_is_old(run: str) -> None:
    for lock in (a_dead_process(), replace(a_dead_process(), pid=os.getpid())):
        forge(run, lock)
        assert who_resumes(run) is None
        with resume_lock(run) as held:
            assert held.path is not None
    for torn in (b"", b"{", b"[]", b'{"pid": -1}', b"\0" * 100):
        forge(run, torn)
        with pytest.raises(AlreadyRunning, match="somebody is resuming it"), resume_lock(run):
            pass
        forge(run, torn, STALE_SECONDS + 5)
        with resume_lock(run) as held:
            assert held.path is not None
    assert beside(run) == [os.path.basename(run)]


def test_another_machine_is_respected_while_its_lock_is_young(run: str) -> None:
    path = forge(run, ELSEWHERE, 40)
    with (
        pytest.raises(AlreadyRunning, match=r"gpu-07 is resuming it since (39|4\d) s \(pid 123\)") as caught,
        resume_lock(run),
    ):
        pass
    assert str(path) in (caught.value.hint or "") and path.exists()
    # This process's pid on another machine, or in another container, is another process.
    for lock in (replace(ELSEWHERE, pid=os.getpid()), replace(a_dead_process(), pid_namespace="pid:[1]")):
        forge(run, lock)
        with pytest.raises(AlreadyRunning), resume_lock(run):
            pass
    forge(run, ELSEWHERE, STALE_SECONDS + 5)
    with resume_lock(run):
        pass
    assert beside(run) == [os.path.basename(run)]


def test_what_was_before_the_last_boot_is_nobodys() -> None:
    earlier = replace(ELSEWHERE, host=HERE.host)
    assert is_of_earlier_boot(earlier, age_seconds=100, uptime_seconds=60)
    assert not is_of_earlier_boot(earlier, age_seconds=10, uptime_seconds=60)  # another machine of the same name
    assert not is_of_earlier_boot(ELSEWHERE, age_seconds=100, uptime_seconds=60)
    assert not is_of_earlier_boot(replace(earlier, boot_id=HERE.boot_id), age_seconds=100, uptime_seconds=60)


def test_who_was_silent_for_too_long_has_lost_it(run: str) -> None:
    with resume_lock(run) as held:
        assert held.path is not None
        os.utime(held.path, (1, 1))
        held.confirm()  # nobody took it: it is young again
        assert time.time() - os.stat(held.path).st_mtime < 60
        forge(run, ELSEWHERE)
        with pytest.raises(AlreadyRunning, match="took too long"):
            held.confirm()
    assert os.path.exists(os.path.join(*place_of(run)))  # the other's stays


def test_a_root_that_cannot_be_written_leaves_the_lock_on_the_directory(run: str, tmp_path: Path) -> None:
    root = os.path.dirname(run)
    Path(root, ".lavender-tui").write_text("a file is in the way")
    with resume_lock(run) as held:
        assert held.path is None
        assert who_resumes(run) == f"another process of this machine is resuming it (pid {os.getpid()})"
        with pytest.raises(AlreadyRunning, match=f"pid {os.getpid()}"), resume_lock(run):
            pass
    os.unlink(os.path.join(root, ".lavender-tui"))
    os.symlink(tmp_path, os.path.join(root, ".lavender-tui"))
    with resume_lock(run) as held:
        assert held.path is None and not os.path.exists(tmp_path / "locks")


def test_where_only_others_can_write_their_locks_are_respected(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forge(run, ELSEWHERE)

    def refused(self: object, name: str, token: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(lock_files.Locks, "_write", refused)  # root is refused nothing
    with pytest.raises(AlreadyRunning, match="gpu-07"), resume_lock(run):
        pass
    forge(run, ELSEWHERE, STALE_SECONDS + 5)
    with resume_lock(run) as held:
        assert held.path is None


def test_a_file_system_without_links_will_do(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", no_links)
    forge(run, a_dead_process())
    with resume_lock(run) as held:
        assert held.path is not None and json.loads(Path(held.path).read_text())["pid"] == os.getpid()
        with pytest.raises(AlreadyRunning), resume_lock(run):
            pass
    assert beside(run) == [os.path.basename(run)]


@pytest.mark.parametrize("name", ["", "x" * 250, "a b\n[/x]", b"caf\xe9".decode("utf-8", "surrogateescape")])
def test_any_name_of_a_run_will_do(tmp_path: Path, name: str) -> None:
    run = tmp_path / "root" / name
    run.mkdir(parents=True)
    with resume_lock(str(run)) as held:
        assert held.path is not None and held.path.isascii()
        with pytest.raises(AlreadyRunning), resume_lock(str(run)):
            pass
