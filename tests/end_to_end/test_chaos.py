"""App, keepers, supervisors, agents and ranks of several runs are killed in random order for minutes. What is shown is
right within seconds, nothing is started twice, nothing of ours is left over, and nothing foreign is touched.

LAVENDER_CHAOS_SEED plays the same order again, LAVENDER_CHAOS_SECONDS makes it longer or shorter.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.chaos import (
    TRAINING,
    Family,
    History,
    Monitor,
    environments,
    kill,
    listed,
    lives,
    rows_of,
    stat_of,
    truth_of,
)
from tests.end_to_end.test_app import Terminal
from tests.resume.saves import save

SECONDS = float(os.environ.get("LAVENDER_CHAOS_SECONDS", "150"))
SEED = int(os.environ.get("LAVENDER_CHAOS_SEED", str(random.SystemRandom().randrange(1_000_000))))
MOST_SAVES = 400


class World:
    """Three trainings, two of them kept alive and one of these under torchrun; strangers; the app."""

    def __init__(self, place: Path, random: random.Random) -> None:
        self.place, self.random = place, random
        self.shelf = str(place / "shelf")
        self.script = str(place / "train.py")
        Path(self.script).write_text(TRAINING)
        self._fill_shelf()
        self.families = [Family(str(place / name), is_kept=name != "unkept") for name in ("kept", "unkept", "torchrun")]
        self.history = History(self.families)
        self.terminal: Terminal | None = None
        self.terminals = 0
        self.strangers: list[tuple[subprocess.Popen[bytes], dict[str, Any]]] = []
        self.events: list[str] = []

    def _fill_shelf(self) -> None:
        first = save(self.shelf, 1, epochs=9)
        for count in range(2, MOST_SAVES):
            shutil.copy(first, os.path.join(self.shelf, f"pretrain-10-00-00-{count:04d}.pt"))

    @property
    def roots(self) -> list[str]:
        return [family.root for family in self.families]

    # Starting

    def begin(self) -> None:
        for family in self.families:
            words = [sys.executable, self.script, self.shelf]
            more = ["--world-size", "2", "--backend", "torchrun"] if family.root.endswith("torchrun") else []
            self.lavender("resume", "--latest", family.root, *more, "--", *words)
        for words in ([], ["rank"]):
            stranger = subprocess.Popen([sys.executable, self.script, self.shelf, *words], cwd=self.place)
            self.strangers.append((stranger, {"pid": stranger.pid, "start_ticks": stat_of(stranger.pid)[1]}))
        for family in self.families:
            self.keep(family)
        self.open_app()

    def lavender(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "lavender_tui", *words], capture_output=True, text=True, cwd=self.place, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def keep(self, family: Family) -> None:
        if family.is_kept and (family.keeper is None or family.keeper.poll() is not None):
            words = ["supervise", family.root, "--tries", "1000", "--backoff", "0.5"]
            with open(f"{family.root}.log", "ab") as log:
                family.keeper = subprocess.Popen(
                    [sys.executable, "-m", "lavender_tui", *words], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=log, cwd=self.place, start_new_session=True,
                )  # fmt: skip

    def open_app(self) -> None:
        if self.terminal is not None:
            self.terminal.close()
        self.terminals += 1
        words = [sys.executable, "-m", "lavender_tui", *self.roots]
        self.terminal = Terminal(str(self.place / f"tmux{self.terminals}"), words)
        self.opened_at = time.monotonic()

    # What is shown

    def screen(self) -> dict[str, str] | None:
        """None while the app is only coming up."""
        terminal, opened_at = self.terminal, self.opened_at
        if terminal is None or time.monotonic() - opened_at < 5:
            return None
        with contextlib.suppress(subprocess.CalledProcessError):
            shown = rows_of(terminal.screen)
            return shown if terminal is self.terminal else None
        return None

    # Events

    def strike(self, event: Callable[[Family], None] | None = None, family: Family | None = None) -> None:
        """One event, of those given or of any."""
        family = family or self.random.choice(self.families)
        event = event or self.random.choice(
            [self.rank, self.rank, self.agent, self.agent, self.supervisor, self.both, self.everything, self.keeper,
             self.app, self.person]
        )  # fmt: skip
        self.events.append(f"{time.strftime('%X')} {event.__name__} of {os.path.basename(family.root)}")
        event(family)

    def rank(self, family: Family) -> None:
        ranks = family.ranks()
        if ranks:
            kill(self.random.choice(ranks))

    def agent(self, family: Family) -> None:
        kill(family.current[1]["leader"])

    def supervisor(self, family: Family) -> None:
        kill(family.current[1]["supervisor"])

    def both(self, family: Family) -> None:
        self.supervisor(family)
        self.agent(family)

    def everything(self, family: Family) -> None:
        self.supervisor(family)
        for rank in family.ranks():
            kill(rank)
        self.agent(family)

    def keeper(self, family: Family) -> None:
        if family.keeper is not None:
            family.keeper.kill()
            family.keeper.wait()

    def app(self, family: Family) -> None:
        """Its terminal and all that is in it."""
        self.open_app()

    def person(self, family: Family) -> None:
        """Somebody starts what nobody keeps alive again, with one command."""
        if not family.is_kept:
            self.lavender("stop", "--kill", "--yes", family.current[0])
            self.lavender("resume", family.root, "--yes", "--no-verify")

    def recover(self) -> None:
        """Keepers are started again, as an init system would."""
        for family in self.families:
            self.keep(family)


@pytest.fixture
def world(tmp_path: Path, nothing_survives: object) -> Iterator[World]:
    print(f"LAVENDER_CHAOS_SEED={SEED}")
    made = World(tmp_path, random.Random(SEED))
    yield made
    if made.terminal is not None:
        made.terminal.close()
    for process in [one for one, _ in made.strangers] + [one.keeper for one in made.families if one.keeper]:
        process.kill()
        process.wait()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, the real terminal of this test")
def test_whatever_is_killed_the_shown_state_is_right_and_nothing_is_lost_or_left(world: World, until: Any) -> None:
    world.begin()
    # A training without a save can't be resumed by anybody.
    until(lambda: all(one.has_saved for one in world.families), 90, "the first saves")
    monitors = [
        Monitor("truth", world.history, lambda: world.history.look() or {}),
        Monitor("the screen", world.history, world.screen),
        Monitor("ls", world.history, lambda: listed(world.roots)),
    ]
    for monitor in monitors:
        monitor.start()
    until(lambda: world.screen(), 30, "the app")
    end = time.monotonic() + SECONDS
    first = [(world.agent, world.families[0]), (world.person, world.families[1]), (world.agent, world.families[2])]
    while time.monotonic() < end:
        world.strike(*(first.pop() if first else ()))
        time.sleep(world.random.uniform(0.2, 4))
        world.recover()
    time.sleep(6)  # whatever the last event changed is shown by now
    for monitor in reversed(monitors):  # the truth last: it says what was so when the others looked
        monitor.is_over.set()
        monitor.join(30)
    story = "\n".join(world.events)
    assert not world.history.twice, f"seed {SEED}: {world.history.twice[:3]}\n{story}"
    wrong = [one for monitor in monitors for one in monitor.wrong]
    assert not wrong, f"seed {SEED}: {len(wrong)} wrong, such as {wrong[:8]}\n{story}"
    assert all(len(monitor.looks) > 5 for monitor in monitors)
    each_start_was_one(world)
    nothing_is_left(world, until)


def each_start_was_one(world: World) -> None:
    """A directory for each start and a start for each directory; in each chain no save is made twice."""
    with open(os.path.join(world.shelf, "started.jsonl")) as file:
        starts = [json.loads(line) for line in file]
    runs = [run for family in world.families for run, _ in family.launched]
    assert len({one["run"] for one in starts}) == len(starts)
    assert {one["run"] for one in starts} <= set(runs)
    for family in world.families:
        kept = {one["run"]: one["from"] for one in starts if one["run"].startswith(family.root)}
        assert len(kept) > 1, f"{family.root} was never resumed"
        for run, first in kept.items():
            saved = sorted(int(name[-7:-3]) for name in os.listdir(run) if name.endswith(".pt"))
            assert saved == list(range(first + 1, first + 1 + len(saved))), run


def nothing_is_left(world: World, until: Any) -> None:
    for family in world.families:
        if family.keeper is not None:
            family.keeper.send_signal(signal.SIGTERM)
            family.keeper.wait(60)
    for family in world.families:
        for run, _ in family.launched:
            world.lavender("stop", "--kill", "--yes", run)
    until(lambda: not environments(str(world.place)), what="the end of all that is ours")
    for family in world.families:
        assert all(truth_of(run) != "running" for run in family.runs)
    for stranger, identity in world.strangers:
        assert stranger.poll() is None and lives(identity), "a stranger was killed"
        assert not os.path.exists(os.path.join(world.shelf, f"signals-{stranger.pid}")), "a stranger was signalled"


def test_the_judge_of_it_all_finds_what_is_shown_too_long(tmp_path: Path) -> None:
    run = str(tmp_path / "run-1")
    os.mkdir(run)
    history = History([], {run: [(100.0, None), (100.0, "running"), (120.0, "failed")]})
    assert history.wrong({"run-1": "running"}, 124.0, 124.1) == [], "it may take some seconds"
    assert history.wrong({"run-1": "running"}, 126.0, 126.1) == ["run-1 is shown as running, and is ['failed']"]
    assert history.wrong({run: "failed"}, 110.0, 110.1) == [f"{run} is shown as failed, and is ['running']"]
    assert history.wrong({run: "failed"}, 126.0, 126.1) == []
    history.looks = [100.0, 118.0, 120.0]  # what it found at 120 may have been so since 118, and no earlier
    assert history.wrong({run: "failed"}, 118.5, 118.6) == []
    assert history.wrong({run: "failed"}, 117.0, 117.1) == [f"{run} is shown as failed, and is ['running']"]
    assert rows_of(" ▾ run-1    ✗ failed  pretrain\n   └ run-2    ● running\n") == {
        "run-1": "failed",
        "run-2": "running",
    }
