"""Many processes at one lock, and processes that end in the middle of taking it. Run as programs of their own.

python crowd.py race RUN PROCESSES ROUNDS     each round begins with what the one before left; prints the winners
python crowd.py steps RUN FAULT               a fault at each step of taking and giving back; prints how many steps
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from lavender_tui.errors import AlreadyRunning
from lavender_tui.launch import locks

STEPS = ("open", "write", "link", "unlink", "rename", "mkdir", "rmdir", "chmod", "utime", "close")
_kill = os.kill


def without_flock() -> None:
    """As on a mount that has none: only the document counts."""
    locks.try_lock = lambda descriptor: True


def in_a_fork(work: Callable[[], int]) -> int:
    """What `work` returned in a process of its own; a negative number where a signal ended it."""
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_holding(run: str) -> int:
    kept = locks.resume_lock(run)
    kept.__enter__()
    _kill(os.getpid(), signal.SIGKILL)
    return 0


def race(run: str, processes: int, rounds: int) -> list[int]:
    """How many held the lock at once in each round. Before every second round the holder was killed."""
    context = multiprocessing.get_context("fork")
    start, middle, end = (context.Barrier(processes + 1) for _ in range(3))
    winners = context.Value("i", 0)

    def member() -> int:
        for _ in range(rounds):
            start.wait()
            with ExitStack() as held:
                try:
                    held.enter_context(locks.resume_lock(run))
                    with winners.get_lock():
                        winners.value += 1
                except AlreadyRunning:
                    pass
                middle.wait()  # the winner holds it until everybody has tried
            end.wait()
        return 0

    members = [context.Process(target=member) for _ in range(processes)]
    for one in members:
        one.start()
    won = []
    for number in range(rounds):
        if number % 2:
            in_a_fork(lambda: die_holding(run))
        for barrier in (start, middle, end):
            barrier.wait(60)
        won.append(winners.value)
        winners.value = 0
    for one in members:
        one.join()
    return won


def with_a_fault(fault: Any, at: int) -> Callable[[], int]:
    """Let the `at`-th step from now on go wrong; what is returned says how many were made."""
    made = 0

    def wrap(name: str) -> None:
        original = getattr(os, name)

        def step(*args: Any, **options: Any) -> Any:
            nonlocal made
            made += 1
            if made == at and fault == "kill":
                _kill(os.getpid(), signal.SIGKILL)
            if made == at and name != "close":
                raise OSError(fault, os.strerror(fault))
            return original(*args, **options)

        setattr(os, name, step)

    for name in STEPS:
        wrap(name)
    return lambda: made


def once(run: str, fault: Any, at: int) -> int:
    """Take the lock and give it back, with a fault; 0 where that was all its steps, 1 where there are more."""
    made = with_a_fault(fault, at)
    try:
        with locks.resume_lock(run) as held:
            held.confirm()
    except (AlreadyRunning, OSError):
        return 2
    return int(made() >= at)


def steps(run: str, fault: Any) -> dict[str, Any]:
    """After each fault the next one gets the lock at once. `--dead`: each begins with the lock of a dead one."""
    at, after = 0, []
    while True:
        at += 1
        if "--dead" in sys.argv:
            in_a_fork(lambda: die_holding(run))
        ended = in_a_fork(lambda number=at: once(run, fault, number))  # type: ignore[misc]
        with locks.resume_lock(run) as held:
            after.append([ended, held.path is not None])
        if ended == 0:
            return {"steps": at - 1, "after": after}


if __name__ == "__main__":
    kind, run = sys.argv[1:3]
    if "--without-flock" in sys.argv:
        without_flock()
    if kind == "race":
        print(json.dumps(race(run, int(sys.argv[3]), int(sys.argv[4]))))
    else:
        print(json.dumps(steps(run, "kill" if sys.argv[3] == "kill" else int(sys.argv[3]))))
