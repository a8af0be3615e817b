"""Two who resume the same run in the same instant, each in a process of its own: one training, and the other says who.

From the command line and from the app, by the same name of the run and by different ones.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import KILL, journal, stop
from lavender_tui.launch.living import is_alive
from lavender_tui.launch.record import read_launch
from tests.resume.saves import save
from tests.resume.test_carrying_out import fingerprint
from tests.resume.test_faults import LIVES, OLD, words_of
from tests.tui import barrier
from tests.tui.test_terminal import Terminal

PAIRS = (("command", "command"), ("app", "command"), ("app", "app"))
SPELLINGS = (("real", "real"), ("real", "link"), ("relative", "link"), ("real", "run link"))
ROUNDS = 20
# The loser's words: at work is another's resume, or its run lives by now.
TOLD = re.compile(r"is resuming it|(this run|it) (is|was) resumed (already|since it was checked), as run-")


class Place:
    """An old run, and the names that lead to it."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.root = directory, directory / "checkpoints"
        self.old = self.root / OLD
        save(str(self.old))
        self.before = fingerprint(str(self.old))
        (directory / "link").symlink_to(self.root)
        (directory / "other").mkdir()
        (directory / "other" / OLD).symlink_to(self.old)
        self.mark = f"{directory.name}-{time.monotonic_ns()}"
        self.command = (*LIVES, self.mark)

    def spelled(self, how: str) -> str:
        """The root; all of it is started in `directory`."""
        names = {"real": str(self.root), "link": str(self.directory / "link"), "relative": "checkpoints"}
        return {**names, "run link": str(self.directory / "other")}[how]

    @property
    def made(self) -> list[Path]:
        places = (self.root, self.directory / "other")
        return [one for place in places for one in place.iterdir() if one.name != OLD and one.name[0] != "."]

    @property
    def trainings(self) -> list[int]:
        """What runs the command: not the supervisor of it, whose words are others."""
        mark = os.fsencode(self.mark)
        return [int(name) for name in os.listdir("/proc") if name.isdigit() and words_of(int(name))[-1:] == [mark]]


class ByCommand:
    def __init__(self, place: Place, how: str, start: int) -> None:
        reads, writes = os.pipe()
        target = os.path.join(place.spelled(how), OLD)
        self.process = subprocess.Popen(
            [sys.executable, barrier.__file__, str(writes), str(start), "resume", target, "--world-size=1", "--",
             *place.command],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=place.directory, pass_fds=(writes, start),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )  # fmt: skip
        os.close(writes)
        assert os.read(reads, 1) == b"."
        os.close(reads)

    def go(self) -> None:
        """It goes by itself when the line falls."""

    def ended(self) -> tuple[bool, str]:
        """(did it launch, its words)."""
        said = "\n".join(self.process.communicate(timeout=120))
        return self.process.returncode == 0, said

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class ByApp:
    """The sheet, all checked: only Enter is left."""

    def __init__(self, place: Place, how: str, start: int) -> None:
        run = f"import os, sys; os.chdir({str(place.directory)!r}); from lavender_tui import cli; cli.main()"
        argv = ["-c", run, place.spelled(how), "--", *place.command]
        self.terminal = Terminal(place.root, rows=50, columns=160, argv=argv, PYTHONPATH=os.pathsep.join(sys.path))
        self.terminal.read_until(b"pretrain", 60)
        self._press(b"r", "checks passed", "can't be launched")
        if "checks passed" not in self.terminal.text:
            self._press(b"1", "checks passed")
        self.terminal.read(0.2)
        self.terminal.written = b""

    def _press(self, keys: bytes, *then: str) -> None:
        self.terminal.written = b""
        os.write(self.terminal.descriptor, keys)
        self.terminal.read_until_any(*then)

    def go(self) -> None:
        os.write(self.terminal.descriptor, b"\r")

    def ended(self) -> tuple[bool, str]:
        # Of a launch the list comes back; of a refusal the sentence, or the question that it is.
        self.terminal.read_until_any("EPOCH", " ✗ ", "Resume it once more?")
        self.terminal.read(0.3)
        return "EPOCH" in self.terminal.text, self.terminal.text

    def close(self) -> None:
        self.terminal.close()


def race(place: Place, kinds: tuple[str, str], spellings: tuple[str, str]) -> list[tuple[bool, str]]:
    """Both at the line, then both at once; (did it launch, its words) of each."""
    reads, writes = os.pipe()
    there: list[ByCommand | ByApp] = []
    try:
        for kind, how in zip(kinds, spellings, strict=True):
            there.append((ByApp if kind == "app" else ByCommand)(place, how, reads))
        os.close(reads)
        os.close(writes)
        for one in there:
            one.go()
        return [one.ended() for one in there]
    finally:
        for one in there:
            one.close()


def judge(place: Place, outcomes: list[tuple[bool, str]]) -> None:
    """One run was made; nothing else is there, and the old run is as it was."""
    assert sorted(launched for launched, _ in outcomes) == [False, True], outcomes
    loser = next(said for launched, said in outcomes if not launched)
    assert TOLD.search(" ".join(loser.split())), loser
    assert len(place.made) == 1, place.made
    ours = place.root / ".lavender-tui"
    assert sorted(os.listdir(ours)) == ["journal.jsonl"], list(ours.rglob("*"))
    assert [one.what for one in journal.read(str(place.root))] == ["resumed"]
    assert fingerprint(str(place.old)) == place.before
    assert len(os.listdir(place.directory / "other")) == 1 + (place.made[0].parent.name == "other") * 2


@pytest.fixture
def place(tmp_path: Path, nothing_survives: Any) -> Iterator[Callable[[int], Place]]:
    yield lambda number: Place(_made(tmp_path / str(number)))


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def one_round(place: Place, kinds: tuple[str, str], how: tuple[str, str], until: Callable[..., Any]) -> None:
    judge(place, race(place, kinds, how))
    until(lambda: len(place.trainings) == 1, what="the training")
    record = read_launch(str(place.made[0]))
    assert record is not None and record.leader is not None and [record.leader.pid] == place.trainings
    assert is_alive(str(place.made[0]))
    stop(str(place.made[0]), KILL)
    until(lambda: not place.trainings, what="the end of the training")


def test_two_commands_at_once(place: Callable[[int], Place], until: Callable[..., Any]) -> None:
    one_round(place(0), PAIRS[0], SPELLINGS[2], until)


def test_a_training_that_is_over_at_once_is_not_started_twice(place: Callable[[int], Place]) -> None:
    """On a busy machine the second may plan when the first is over, and knows it then: such a round tells nothing."""
    for number in range(6):
        one = place(number)
        one.command = (sys.executable, "-I", "-S", "-c", "pass", one.mark)
        outcomes = race(one, PAIRS[0], SPELLINGS[1])
        if not all(launched for launched, _ in outcomes):
            judge(one, outcomes)
            return
    pytest.fail("both were launched, six times")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_two_at_once_in_every_way(place: Callable[[int], Place], until: Callable[..., Any]) -> None:
    ways = itertools.cycle(itertools.product(PAIRS, SPELLINGS))
    for number, (kinds, how) in zip(range(ROUNDS), ways, strict=False):
        one_round(place(number), kinds, how, until)
