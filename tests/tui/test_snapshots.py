"""Every page in every state of a run at three sizes, as recorded; and how three of them look in each theme."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.start import Look
from lavender_tui.watch import devices
from tests.tui.conftest import LARGE, SMALL, Play, press, until
from tests.tui.recorded import PLACE, Recorded, compare_picture, settle
from tests.tui.snapshot_roots import SCENES, Scene

MIDDLE = (120, 40)
SIZES = (SMALL, pytest.param(MIDDLE, marks=pytest.mark.long), pytest.param(LARGE, marks=pytest.mark.long))
# A page's title, the keys that lead to it from the one before, and whether only a living run has it.
Page = tuple[str, tuple[str, ...]]
_TABS: tuple[Page, ...] = (
    ("run overview", ("escape", "enter")),
    ("run checkpoints", ("2",)),
    ("tree of a checkpoint", ("enter",)),
    ("run loss", ("escape", "3")),
    ("run data", ("4",)),
    ("run processes", ("5",)),
    ("run history", ("7",)),
    ("log", ("6",)),
    ("log search", ("slash", *"step=")),
)
_REST: tuple[Page, ...] = (
    ("resume", ("escape", "escape", "escape", "r")),
    ("list filtered", ("escape", "slash", *"!zz")),
    ("comparison", ("escape", "g", "space", "space", "c")),
    ("disk", ("escape", "escape", "D")),
    ("help", ("escape", "question_mark")),
)
_EMPTY: tuple[Page, ...] = (("list", ()), ("disk", ("D",)), ("help", ("escape", "question_mark")))
_LIVE: tuple[Page, ...] = (("stop box", ("x",)),)


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of a known length on a host of a known name in UTC, without GPUs, with a `python` in its path, and the
    program by whose being there Slurm is offered: no page calls it."""
    made = Path(tempfile.mkdtemp(prefix="lav-", dir="/tmp"))
    system = os.uname()
    names = ("sysname", "nodename", "release", "version", "machine")
    told = SimpleNamespace(**{name: getattr(system, name) for name in names} | {"nodename": "gpu-03"})
    monkeypatch.setattr(os, "uname", lambda: told)
    monkeypatch.setattr(socket, "gethostname", lambda: "gpu-03")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(devices, "_monitor", type(devices._monitor)())
    monkeypatch.setenv("HOME", str(made))
    monkeypatch.setenv("USER", "anna")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    (made / "bin").mkdir()
    (made / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (made / "bin" / "sbatch").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", f"{made / 'bin'}:{os.environ['PATH']}")
    yield made
    monkeypatch.undo()
    time.tzset()
    shutil.rmtree(made)


@pytest.fixture
def scene(request: pytest.FixtureRequest, home: Path) -> Iterator[Scene]:
    made = SCENES[request.param](home)
    yield made
    if made.process:
        os.kill(made.process, signal.SIGKILL)
        os.waitpid(made.process, 0)


def pages(scene: Scene, state: str) -> tuple[Page, ...]:
    if scene.run is None:
        return _EMPTY
    live = _LIVE if scene.process else ()
    return (("list", ()), *live, *_TABS, *_REST)


@pytest.mark.parametrize("size", SIZES, ids=("80x24", "120x40", "200x60"))
@pytest.mark.parametrize("scene", SCENES, indirect=True)
async def test_every_page_is_as_recorded(
    play: Play, scene: Scene, size: tuple[int, int], request: pytest.FixtureRequest
) -> None:
    state = request.node.callspec.params["scene"]
    recorded = Recorded(f"{state}-{size[0]}x{size[1]}", lambda: [scene.process] if scene.process else [])
    async with play(scene.root, size=size) as pilot:
        await to_run(pilot, scene)
        for title, keys in pages(scene, state):
            await press(pilot, *keys)
            # the checks of a run that lives name its process: they wrap elsewhere with another one
            above = "1 process: process" if title == "resume" and scene.process else ""
            await recorded.compare(pilot, title, above=above)
    recorded.close()


async def to_run(pilot: Pilot[Any], scene: Scene) -> None:
    """The cursor on the run that the scene is about, with what was found out of its processes."""
    if scene.run is None:
        return
    app = pilot.app
    assert isinstance(app.screen, RunsScreen)
    list_of_runs = app.screen
    list_of_runs.go_to_run(str(scene.root / scene.run))
    if scene.process:
        await until(pilot, lambda: list_of_runs.cursor_run.usage is not None, "what they use")
    await pilot.pause()


# What is put on while the app runs, and what it is started with.
THEMES = {"dark": "lavender", "light": "lavender-light", "colour-blind": "colour-blind", "ansi": "ansi-dark"}
STARTED: dict[str, tuple[tuple[str, ...], dict[str, str], bool]] = {
    "themes": (tuple(THEMES), {}, False),
    "no-colour": (("no-colour",), {"NO_COLOR": "1"}, False),
    "ascii": (("ascii",), {}, True),
}
_LOOKED_AT: tuple[Page, ...] = (("list", ()), ("run", ("enter",)), ("loss", ("3",)), ("resume", ("r",)))
_QUICK = ("failed", MIDDLE)  # kept as they are, the others packed


def _looked_at() -> Iterator[Any]:
    for state in SCENES:
        for size in (SMALL, MIDDLE, LARGE):
            marks = () if (state, size) == _QUICK else (pytest.mark.long,)
            yield pytest.param(state, size, marks=marks, id=f"{state}-{size[0]}x{size[1]}")


@pytest.mark.parametrize("started", STARTED)
@pytest.mark.parametrize(("scene", "size"), [*_looked_at()], indirect=["scene"])
async def test_every_look_is_as_recorded(
    play: Play,
    scene: Scene,
    size: tuple[int, int],
    started: str,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    state = request.node.callspec.params["scene"]
    names, env, is_ascii = STARTED[started]
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    is_quick = (state, size) == _QUICK
    of_run = (_LOOKED_AT if is_quick else _LOOKED_AT[:-1]) if scene.run else _LOOKED_AT[:1]
    async with play(scene.root, size=size, look=Look(ascii=is_ascii)) as pilot:
        await to_run(pilot, scene)
        for title, keys in of_run:
            await press(pilot, *keys)
            await settle(pilot)
            for name in names:
                pilot.app.theme = THEMES.get(name, "lavender")
                await pilot.pause()
                file = f"{name}-{title}.svg" if is_quick else f"looks/{state}-{size[0]}x{size[1]}-{name}-{title}.svgz"
                await _is_recorded(pilot, file, scene)


async def _is_recorded(pilot: Pilot[Any], file: str, scene: Scene, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while told := compare_picture(pilot, file, [scene.process] if scene.process else []):
        if time.monotonic() > deadline:
            pytest.fail(f"{file}:\n{told}")
        await pilot.pause(0.05)


def test_no_picture_is_left_over() -> None:
    """Each was looked at by the test above, if all of it is run."""
    wanted = {
        f"{state}-{size[0]}x{size[1]}-{name}-{title}.svgz"
        for state in SCENES
        for size in (SMALL, MIDDLE, LARGE)
        if (state, size) != _QUICK
        for names, _, _ in STARTED.values()
        for name in names
        for title, _ in _LOOKED_AT[: 1 if state == "empty" else -1]
    }
    assert {file.name for file in (PLACE / "looks").iterdir()} == wanted
