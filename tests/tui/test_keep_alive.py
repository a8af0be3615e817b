"""Keeping a run alive, chosen on the resume sheet: off unless asked for, and then shown where the run is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, stop
from lavender_tui.launch.identity import process_stat
from lavender_tui.launch.keepers import keeper_of
from lavender_tui.launch.record import send_signal
from tests.tui import runs
from tests.tui.conftest import Play, press, text_of, until, until_shown
from tests.tui.sheets import FAILED, choose_local, launched_run, open_sheet

KEEPERS: list[int] = []


@pytest.fixture
def one_run(tmp_path: Path, nothing_survives: object) -> Iterator[Path]:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 60, each=120)
    runs.launched(root / FAILED, runs.script(tmp_path))
    runs.ended(root / FAILED, code=1)
    yield root
    for pid in KEEPERS:
        if (stat := process_stat(pid)) is not None and stat[0] not in "ZX":
            send_signal(pid, stat[2], signal.SIGKILL)
    KEEPERS.clear()


async def launch(pilot, *, keep: bool):
    await open_sheet(pilot)
    await choose_local(pilot)
    pilot.app.screen.query_one("#row-keep_alive").focus()
    assert "keep_alive   [no] yes" in text_of(pilot.app)
    if keep:
        await press(pilot, "right")
        await until_shown(pilot, "[yes]   resumed when it dies")
    await press(pilot, "enter")
    return await launched_run(pilot)


async def test_yes_starts_a_keeper_that_outlives_the_app(play: Play, one_run: Path) -> None:
    async with play(one_run, size=(200, 60)) as pilot:
        run = await launch(pilot, keep=True)
        keeper = await until(pilot, lambda: keeper_of(run.path), "the keeper")
        KEEPERS.append(keeper.pid)
        await until_shown(pilot, f"kept alive by pid {keeper.pid} on {os.uname().nodename} (5 of 5 tries left)")
        assert os.getsid(keeper.pid) == keeper.pid
        os.kill(keeper.pid, signal.SIGKILL)
        await until_shown(pilot, f"no longer kept alive: its keeper (pid {keeper.pid}")
        stop(run.path, KILL)
        await until(pilot, lambda: "no longer kept alive" not in text_of(pilot.app), "what is over to be forgotten")


async def test_unless_asked_for_nobody_keeps_it(play: Play, one_run: Path) -> None:
    async with play(one_run, size=(200, 60)) as pilot:
        run = await launch(pilot, keep=False)
        assert keeper_of(run.path) is None and "kept alive" not in text_of(pilot.app)
        stop(run.path, KILL)
