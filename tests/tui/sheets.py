"""What the tests of the resume sheet share: how it is opened, filled in, and what came of it."""

from __future__ import annotations

import os
from pathlib import Path

from lavender_tui.model.run import Run
from lavender_tui.tui.screens.resume import ResumeScreen
from lavender_tui.tui.screens.runs import RunsScreen
from tests.tui.conftest import press, until, until_shown

FAILED = "run-2026-04-24_18-53-41"


async def open_sheet(pilot) -> ResumeScreen:
    await press(pilot, "r")
    await until_shown(pilot, "checks passed")
    assert isinstance(pilot.app.screen, ResumeScreen)
    return pilot.app.screen


async def choose_local(pilot) -> None:
    """One rank, without torchrun: what the fixture's script can do."""
    await press(pilot, "1")
    await until_shown(pilot, "[local]")
    await until_shown(pilot, "checks passed")


async def launched_run(pilot) -> Run:
    """The run that was launched, once the list is back and the cursor on it."""
    await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen), "the list", 60)
    await until(pilot, lambda: pilot.app.screen.cursor_run.is_alive, "the new run under the cursor", 30)
    return pilot.app.screen.cursor_run


def snapshot_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Every file below with its time and size."""
    found = {}
    for where, _, names in os.walk(directory):
        for name in names:
            facts = os.stat(os.path.join(where, name))
            found[os.path.join(where, name)] = (facts.st_mtime_ns, facts.st_size)
    return found
