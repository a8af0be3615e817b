"""Which run a resume goes back to while a resumed one has saved nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lavender_tui.model.run import Lineage, LiveProcess, LossPoint, Run
from lavender_tui.tui.origin import Origin, origin
from lavender_tui.tui.outlook import outlook
from lavender_tui.tui.screens.resume import ResumeScreen
from tests.model.build import checkpoint, run
from tests.tui import runs
from tests.tui.conftest import Play, press, text_of, until_shown

OLD, NEW, NEWER = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07", "run-2026-04-25_10-00-00"
SAVED = checkpoint(5)
ALIVE = (LiveProcess(pid=1, start_ticks=1, role="worker"),)


def words(lines) -> list[str]:
    return ["".join(part for part, _ in line) for line in lines]


def resumed(name: str, source: Run, *saves, told: str | None = SAVED.path, **fields) -> Run:
    return run(name, *saves, resumed_from=Lineage(run=source.path, checkpoint=told), **fields)


def test_a_run_that_saved_is_resumed_itself() -> None:
    old = run(OLD, SAVED)
    new = resumed(NEW, old, checkpoint(1))
    assert origin(new, [old, new]) == Origin(new)
    assert origin(new, [old, new]).path == new.path


def test_one_that_saved_nothing_goes_back_to_what_it_began_from() -> None:
    old = run(OLD, checkpoint(4), SAVED, checkpoint(6))
    new = resumed(NEW, old)
    found = origin(new, [old, new])
    assert (found.run, found.checkpoint, found.path) == (old, SAVED, SAVED.path)
    assert found.note == f"{NEW} has saved nothing yet: resume again from pretrain 0005 of {OLD}"
    living = origin(replace(new, processes=ALIVE), [old, new])
    assert living.note.startswith(f"{NEW} still runs and has saved nothing yet")


def test_a_chain_of_runs_that_saved_nothing_leads_to_the_one_that_did() -> None:
    old = run(OLD, SAVED)
    new = resumed(NEW, old)
    newer = resumed(NEWER, new, told=None)
    found = origin(newer, [old, new, newer])
    assert (found.run, found.checkpoint) == (old, SAVED)
    assert found.note.endswith(f"resume again from {OLD}")


def test_a_source_that_is_gone_or_a_circle_leads_nowhere_else() -> None:
    new = resumed(NEW, run(OLD))
    assert origin(new, [new]) == Origin(new)
    one = run("a", resumed_from=Lineage(run="/runs/b"))
    two = run("b", resumed_from=Lineage(run="/runs/a"))
    assert origin(one, [one, two]) == Origin(one)


def test_a_checkpoint_that_is_gone_leaves_the_choice_to_the_newest_usable() -> None:
    old = run(OLD, checkpoint(4))
    new = resumed(NEW, old)
    assert origin(new, [old, new]).path == old.path


def test_the_pane_says_what_a_run_without_a_save_is_doing() -> None:
    old = run(OLD, SAVED)
    logged = (LossPoint(step=1, loss=2.0),)
    assert words(outlook(run(NEW, processes=ALIVE))) == ["starting: nothing logged yet"]
    assert words(outlook(resumed(NEW, old, processes=ALIVE, losses=logged))) == [
        f"it still runs; nothing saved yet; x stops it, then r resumes again from pretrain 0005 of {OLD}"
    ]
    assert words(outlook(run(NEW, processes=ALIVE, losses=logged))) == [
        "nothing saved yet: it can be resumed from its first save on"
    ]
    assert words(outlook(run(NEW))) == ["nothing saved yet: nothing to resume from"]


def test_many_followers_are_counted() -> None:
    followers = [run(f"run-2026-05-0{day}_00-00-00") for day in range(1, 8)]
    assert words(outlook(run(OLD, SAVED), followers[:2]))[-2:] == [
        "  resumed as run-2026-05-01_00-00-00, idle",
        "  resumed as run-2026-05-02_00-00-00, idle",
    ]
    assert words(outlook(run(OLD, SAVED), followers))[-1] == "  resumed 7 times, last as run-2026-05-07_00-00-00, idle"


async def test_its_sheet_is_that_of_its_source(play: Play, root: Path) -> None:
    new = root / "run-2026-04-26_12-00-00"
    source = next((root / OLD).glob("*-0059.pt"))
    runs.launched(new, ["python", "train.py"], source=root / OLD, checkpoint=source)
    async with play(root) as pilot:
        pilot.app.screen.go_to_run(str(new))
        await until_shown(pilot, f"nothing saved yet; r resumes again from pretrain 0059 of {OLD}")
        await press(pilot, "r")
        assert isinstance(pilot.app.screen, ResumeScreen)
        await until_shown(pilot, f"{new.name} has saved nothing yet: resume again from pretrain 0059 of {OLD}")
        await until_shown(pilot, "after 944 rows")
        assert "nothing usable" not in text_of(pilot.app)
