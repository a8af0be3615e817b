"""The end of real processes, noticed at once and with how it came, whoever's children they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lavender_tui.launch.identity import process_stat, start_ticks
from lavender_tui.launch.seen import end_of_status
from lavender_tui.watch.ends import Ends, Identity

SECONDS = 20.0  # milliseconds on a quiet machine; nothing here is asked again, so that it comes at once or never


class Told:
    def __init__(self) -> None:
        self.ends: dict[str, tuple[Identity, int | None, float]] = {}
        self.count = 0

    def __call__(self, key: str, identity: Identity, status: int | None) -> None:
        self.ends[key] = (identity, status, time.monotonic())
        self.count += 1


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def ends(told: Told) -> Iterator[Ends]:
    made = Ends(told)
    yield made
    made.close()
    if made._thread.ident is not None:
        made._thread.join(30)  # it gives the handles back


Begin = Callable[[str], subprocess.Popen]


@pytest.fixture
def begin() -> Iterator[Begin]:
    started: list[subprocess.Popen] = []

    def start(code: str) -> subprocess.Popen:
        words = [sys.executable, "-S", "-c", f"print('up', flush=True); {code}"]
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def identity_of(pid: int) -> Identity:
    ticks = start_ticks(pid)
    assert ticks is not None
    return pid, ticks


@pytest.mark.parametrize("is_waited_for", [False, True])
@pytest.mark.parametrize(
    ("code", "signum", "exit_code", "name"),
    [
        ("input()", signal.SIGKILL, None, "SIGKILL"),
        ("input()", signal.SIGTERM, None, "SIGTERM"),
        ("input(); import os; os.abort()", None, None, "SIGABRT"),
        ("input(); raise SystemExit(7)", None, 7, None),
        ("input()", None, 0, None),
    ],
)
def test_how_it_ended_is_told_at_once(
    told: Told,
    ends: Ends,
    begin: Begin,
    until,
    code: str,
    signum: int | None,
    exit_code: int | None,
    name: str | None,
    is_waited_for: bool,
):
    process = begin(code)
    ends.keep({identity_of(process.pid): "run"})
    waiting = threading.Thread(target=process.wait)
    if is_waited_for:
        waiting.start()
    killed_at = time.monotonic()
    if signum is not None:
        process.send_signal(signum)
    else:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
    until(lambda: "run" in told.ends, what="the end")
    identity, status, at = told.ends["run"]
    assert identity[0] == process.pid
    assert at - killed_at < SECONDS
    if is_waited_for:
        waiting.join()
    if status is None:
        assert is_waited_for, "a zombie shows how it ended"  # on kernels before 6.15 a process waited for tells nothing
        return
    end = end_of_status(status, 0.0)
    assert end is not None
    assert (end.exit_code, end.signal) == (exit_code, name)


def test_what_had_ended_before_is_told_and_a_reused_pid_is_not_watched(told: Told, ends: Ends, begin: Begin, until):
    process = begin("input()")
    pid, ticks = identity_of(process.pid)
    ends.keep({(pid, ticks - 1): "the one before it", (pid, ticks): "itself"})
    assert told.ends["the one before it"][1] is None
    process.kill()
    until(lambda: "itself" in told.ends, what="the end")
    assert told.count == 2


def test_who_is_no_longer_kept_is_not_told_of(told: Told, ends: Ends, begin: Begin, until):
    first, second = begin("input()"), begin("input()")
    ends.keep({identity_of(first.pid): "first", identity_of(second.pid): "second"})
    ends.keep({identity_of(second.pid): "second"})
    first.kill()
    first.wait()
    second.kill()
    until(lambda: "second" in told.ends, what="the end")
    assert "first" not in told.ends


def test_how_it_ended_is_told_though_somebody_found_it_gone_before(begin: Begin, until):
    """A look at the run between its end and the handle's: what isn't there any more is no longer asked for."""
    told: dict[str, int | None] = {}
    go_on = threading.Event()

    def tell(key: str, identity: Identity, status: int | None) -> None:
        told[key] = status
        go_on.wait(60)

    ends = Ends(tell)
    first, second = begin("input()"), begin("input()")
    ends.keep({identity_of(first.pid): "first", identity_of(second.pid): "second"})
    first.kill()
    until(lambda: "first" in told, what="an end with which the thread is busy")
    second.kill()
    until(lambda: process_stat(second.pid)[0] == "Z", what="the end of the other")
    ends.keep({})
    go_on.set()
    until(lambda: told.get("second") == signal.SIGKILL, what="how the other ended")
    ends.close()
    ends._thread.join(30)


def test_an_end_is_told_though_the_first_thread_went_long_before(told: Told, ends: Ends, begin: Begin, until):
    """A look at the run takes the process for gone then, and no longer asks for it."""
    wait_in_another = "import ctypes, threading; threading.Thread(target=input).start()"
    process = begin(f"{wait_in_another}; ctypes.CDLL(None).pthread_exit(None)")
    identity = identity_of(process.pid)
    ends.keep({identity: "run"})
    until(lambda: process_stat(process.pid)[0] == "Z", what="the end of its first thread")
    ends.keep({})
    assert identity in ends.held and not told.ends
    process.kill()
    until(lambda: "run" in told.ends, what="the end of all")
    assert told.ends["run"][1] == signal.SIGKILL


def test_an_end_is_told_once_however_often_the_process_is_still_asked_for(told: Told, ends: Ends, begin: Begin, until):
    """Another run changes before this one is looked at again: what is asked for is what the last look found alive."""
    process, lives = begin("input()"), begin("input()")
    wanted = {identity_of(process.pid): "run", identity_of(lives.pid): "another"}
    ends.keep(wanted)
    process.kill()
    until(lambda: "run" in told.ends, what="the end")
    process.wait()
    ends.keep(wanted)
    ends.keep({(process.pid, 1): "gone before", **wanted})
    ends.keep({(process.pid, 1): "gone before", **wanted})
    assert told.ends["run"][1] == signal.SIGKILL
    assert told.count == 2


def test_an_end_that_is_just_being_told_is_not_told_as_one_of_which_nothing_is_known(begin: Begin, until):
    told: list[int | None] = []
    go_on = threading.Event()

    def tell(key: str, identity: Identity, status: int | None) -> None:
        told.append(status)
        go_on.wait(60)

    ends = Ends(tell)
    process = begin("input()")
    wanted = {identity_of(process.pid): "run"}
    ends.keep(wanted)
    process.kill()
    until(lambda: told, what="the end with which the thread is busy")
    process.wait()
    ends.keep(wanted)
    go_on.set()
    ends.close()
    ends._thread.join(30)
    assert told == [signal.SIGKILL]


def test_many_ends_at_once_are_all_told(told: Told, ends: Ends, begin: Begin, until):
    processes = [begin("input()") for _ in range(12)]
    ends.keep({identity_of(one.pid): str(number) for number, one in enumerate(processes)})
    for one in processes:
        one.kill()
    until(lambda: len(told.ends) == 12, what="all ends")
    assert {status for _, status, _ in told.ends.values()} == {signal.SIGKILL}


def test_closing_ends_the_thread_and_gives_the_handles_back(told: Told, begin: Begin, until):
    process = begin("input()")
    before = len(os.listdir("/proc/self/fd"))
    ends = Ends(told)
    ends.keep({identity_of(process.pid): "run"})
    ends.close()
    ends.close()
    until(lambda: len(os.listdir("/proc/self/fd")) == before, what="the handles")
    ends.keep({identity_of(process.pid): "run"})  # after the end it does nothing
    assert len(os.listdir("/proc/self/fd")) == before
