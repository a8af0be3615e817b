"""A resume from the app, which is killed at a step of it, or whose disk refuses one: one known training, or none.

The app is the real one, in a terminal of its own, and told by keys. After a refusal it says one sentence and goes on.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import KILL, stop
from tests.resume import faulty
from tests.resume.saves import row, save
from tests.resume.test_carrying_out import fingerprint
from tests.resume.test_faults import LIVES, OLD, Tried, is_settled, judge, next_resume_works
from tests.tui.test_terminal import Terminal

# The list's title is back once a launch is over; a notice of an earlier one may still be there.
LAUNCHED, REFUSED, READY = "EPOCH", " ✗ ", "checks passed"


class FaultyApp:
    """The app on one old run, and what its launches do wrong."""

    def __init__(self, place: Path, fault: Any, *, where: str = "launcher", words: tuple[str, ...] = (), **saved: Any):
        root, notes = place / "checkpoints", place / "notes"
        notes.mkdir(parents=True)
        self.tried = Tried(root=str(root), notes=str(notes), code=0, said="")
        save(self.tried.old, **saved)
        self.before = fingerprint(self.tried.old)
        self.fault, self.where = fault, where
        self.arm(0)
        spec = {"where": where, "fault": fault, "at": 0, "notes": str(notes), "in_app": True}
        argv = [faulty.__file__, json.dumps(spec), str(root), "--", *LIVES, *words]
        self.terminal = Terminal(root, rows=50, columns=160, argv=argv, PYTHONPATH=os.pathsep.join(sys.path))
        self.terminal.read_until(b"pretrain", 60)

    def arm(self, at: int) -> None:
        """The `at`-th step of the next launch goes wrong; 0 for none."""
        with open(os.path.join(self.tried.notes, "at"), "w", encoding="ascii") as file:
            file.write(str(at))
        for name in ("launcher", "merger"):  # open in the app
            with open(os.path.join(self.tried.notes, name), "w"):
                pass
        for name in ("fired", "launched", "refused"):
            Path(self.tried.notes, name).unlink(missing_ok=True)

    @property
    def outcome(self) -> str:
        """Of the last launch, as the app's thread saw it: what is on the screen may be older."""
        return next((one for one in ("launched", "refused") if os.path.exists(os.path.join(self.tried.notes, one))), "")

    def press(self, keys: bytes, *then: str) -> str:
        """Press, and wait until one of the words is written; returns what was written, without colours."""
        if keys:
            self.terminal.written = b""
        os.write(self.terminal.descriptor, keys)
        try:
            self.terminal.read_until_any(*then)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.what_it_does()}") from None
        self.terminal.read(0.1)
        return self.terminal.text

    def what_it_does(self) -> str:
        """Where each of the app's threads stands."""
        os.kill(self.terminal.pid, signal.SIGUSR1)
        self.terminal.read(1.0)
        return Path(self.tried.notes, "stacks").read_text()

    def settle(self, until: Callable[..., Any], code: int, said: str) -> Tried:
        self.tried.code, self.tried.said = code, said
        until(lambda: is_settled(self.tried), 60, f"everything to settle: {said[-500:]}")
        assert fingerprint(self.tried.old) == self.before
        return self.tried

    def steps(self, where: str) -> list[str]:
        """The names of the steps of the last launch, in order."""
        with open(os.path.join(self.tried.notes, where), encoding="utf-8") as file:
            return [line.split()[1] for line in file]


@pytest.fixture
def app(tmp_path: Path, nothing_survives: Any) -> Iterator[Callable[..., FaultyApp]]:
    made: list[FaultyApp] = []

    def start(fault: Any, **options: Any) -> FaultyApp:
        made.append(FaultyApp(tmp_path / str(len(made)), fault, **options))
        return made[-1]

    yield start
    for one in made:
        one.terminal.close()


def kill_at(app: Callable[..., FaultyApp], until: Callable[..., Any], at: int) -> FaultyApp:
    one = app("kill")
    open_sheet(one)
    one.arm(at)
    os.write(one.terminal.descriptor, b"\r")
    if at:
        assert one.terminal.wait(60) == -signal.SIGKILL
    else:
        one.terminal.read_until_any(LAUNCHED)
    one.terminal.close()
    tried = one.settle(until, -signal.SIGKILL if at else 0, "")
    judge(tried, "kill")
    next_resume_works(tried, until, None)
    return one


def test_the_app_is_killed_in_the_middle_of_a_launch(app: Callable[..., FaultyApp], until: Callable[..., Any]) -> None:
    for at in (9, 30):
        kill_at(app, until, at)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_app_is_killed_at_every_step_of_a_launch(app: Callable[..., FaultyApp], until: Callable[..., Any]) -> None:
    steps = len(kill_at(app, until, 0).steps("launcher"))
    assert steps >= 36
    for at in range(1, steps + 1):
        kill_at(app, until, at)


def open_sheet(one: FaultyApp) -> None:
    """On one rank: what the command can do without torchrun."""
    if READY not in one.press(b"r", READY, "can't be launched"):
        one.press(b"1", READY)


def launch_with(one: FaultyApp, until: Callable[..., Any], at: int) -> str:
    """One launch whose `at`-th step goes wrong; from the sheet, and back in it. Returns what was written."""
    one.arm(at)
    one.terminal.written = b""
    os.write(one.terminal.descriptor, b"\r")
    until(lambda: one.terminal.read(0.05) is not None and one.outcome, 60, "the end of the launch")
    launched = one.outcome == "launched"
    said = one.press(b"", LAUNCHED if launched else REFUSED)
    tried = one.settle(until, 0 if launched else 1, said)
    judge(tried, one.fault if one.where == "launcher" else errno.ENOSPC)
    assert tried.has_happened or launched, at
    if launched:
        stop(tried.made[0], KILL)
        until(lambda: not tried.trainings and not tried.supervisors, 20, "the end of the training")
        os.rename(tried.made[0], f"{tried.root}-{time.monotonic_ns()}")
        one.press(b"\x1b[15~g", OLD)
        open_sheet(one)
    return said


def refuse_each(one: FaultyApp, until: Callable[..., Any], steps: Iterable[int]) -> list[str]:
    """What was written of each launch that was refused; the others went on all the same."""
    said = [launch_with(one, until, at) for at in steps]
    return [words for words in said if LAUNCHED not in words]


def goes_on_to_the_end(one: FaultyApp, until: Callable[..., Any]) -> None:
    """After all that the app launches as if nothing had been, and quits when asked."""
    assert LAUNCHED in launch_with(one, until, 0)
    one.press(b"\x1b", LAUNCHED)
    os.write(one.terminal.descriptor, b"q")
    assert one.terminal.wait(20) == 0


def test_a_launch_that_the_disk_refuses_is_a_sentence_and_the_app_goes_on(
    app: Callable[..., FaultyApp], until: Callable[..., Any]
) -> None:
    one = app(errno.ENOSPC)
    open_sheet(one)
    refused = refuse_each(one, until, range(24, 30))
    assert len(refused) >= 2
    goes_on_to_the_end(one, until)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [errno.ENOSPC, errno.EACCES], ids=["disk full", "not allowed"])
def test_a_launch_refused_at_every_step(app: Callable[..., FaultyApp], until: Callable[..., Any], fault: int) -> None:
    one = app(fault)
    open_sheet(one)
    launch_with(one, until, 0)
    steps = len(one.steps("launcher"))
    assert steps >= 36
    refused = refuse_each(one, until, range(1, steps + 1))
    assert len(refused) >= 10
    # Nothing that only a programmer can read; a notice of an earlier launch may cover some of the words.
    odd = [
        said for said in refused if not re.search(r" ✗ .*[a-z]{3}", said, re.S) or re.search("[a-z]Error|Errno", said)
    ]
    assert not odd, "\n\n".join(odd)
    goes_on_to_the_end(one, until)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", ["kill", errno.ENOSPC], ids=["killed", "disk full"])
def test_what_the_merging_process_writes(app: Callable[..., FaultyApp], until: Callable[..., Any], fault: Any) -> None:
    saved = {"dataset": [row(), row()], "world_size": 2}
    one = app(fault, where="merger", words=("{state}",), **saved)
    open_sheet(one)
    launch_with(one, until, 0)
    names = one.steps("merger")
    assert {"open", "write", "flush", "fsync", "replace"} <= set(names)
    writes = [at for at, name in enumerate(names, 1) if name == "write"]
    others = [at for at, name in enumerate(names, 1) if name != "write"]
    steps = sorted({*others, writes[0], writes[-1]})
    assert len(refuse_each(one, until, steps)) == len(steps)
    goes_on_to_the_end(one, until)
