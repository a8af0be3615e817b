"""The resume sheet: filled in, refused where it must be, and a real training at the end of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import lavender_tui.resume
from lavender_tui.launch import KILL, stop
from lavender_tui.model.plan import Check, Proposal, Verdict
from lavender_tui.tui.messages import LookEnded, LookProgress, ProposalMade
from lavender_tui.tui.screens.ask import Ask, Document
from lavender_tui.tui.screens.resume import ResumeScreen
from lavender_tui.tui.screens.run import RunScreen
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.screens.stop import StopBox
from lavender_tui.tui.sheet import CHECKPOINT, LAUNCHER, POLICY, WORKERS, WORLD, row_of
from lavender_tui.tui.widgets import choice_row
from tests.training.harm import aged
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown
from tests.tui.sheets import FAILED, choose_local, launched_run, open_sheet, snapshot_of


@pytest.mark.parametrize("size", [SMALL, LARGE, (120, 40)], ids=str)
async def test_it_opens_filled_in_and_ready(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root, size=size) as pilot:
        await open_sheet(pilot)
        shown = text_of(pilot.app)
        assert "pretrain 0060" in shown and "newest whole" in shown
        assert "[4]" in shown and "num_splits 8" in shown and "[exact]" in shown
        assert "epoch 1 of 3, after 960 rows" in shown
        assert "0 rows   loses 0 rows" in shown
        assert "⏎ launches" in shown and "esc back" in shown and "? help" in shown
        for _ in range(4 if size == SMALL else 0):  # how far down depends on how much the checks have to say
            if "torch.distributed.run" not in text_of(pilot.app):
                await press(pilot, "pagedown")
        await until_shown(pilot, "torch.distributed.run")


async def test_a_world_size_that_does_not_divide_says_which_do(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        screen = await open_sheet(pilot)
        before = snapshot_of(root)
        await press(pilot, "3")
        await until_shown(pilot, "can't be launched: see world_size")
        await until_shown(pilot, "[3]")
        shown = text_of(pilot.app)
        assert "8 splits" in shown and "1, 2, 4, 8" in shown
        await press(pilot, "enter", "enter")
        assert pilot.app.screen is screen and "can't be launched" in text_of(pilot.app)
        await press(pilot, "left")
        await until_shown(pilot, "[2]")
        await until_shown(pilot, "checks passed")
        assert snapshot_of(root) == before, "nothing is written before enter"


async def test_consequences_follow_the_choice_at_once(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await open_sheet(pilot)
        await press(pilot, "left")
        await until_shown(pilot, "16 = 2 × 8 (was 4 × 4)")
        assert "0-3" in text_of(pilot.app) and "4-7" in text_of(pilot.app)
        await press(pilot, "down", "down", "right")
        await until_shown(pilot, "epoch 1 of 3, from its first batch")
        await press(pilot, "right")
        await until_shown(pilot, "loses the rest of this epoch")


async def test_a_cut_newest_file_is_passed_over_and_said(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "j", "j", "r")
        await until_shown(pilot, "sft 0018")
        await until_shown(pilot, "passed over")
        assert "0019.pt passed over" in text_of(pilot.app)


async def test_another_checkpoint_can_be_chosen(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await open_sheet(pilot)
        await press(pilot, "shift+tab", "shift+tab", "right")
        await until_shown(pilot, "1 before newest")
        await until_shown(pilot, "after 944 rows")


async def test_an_answer_to_an_older_question_is_dropped(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        screen = await open_sheet(pilot)
        late = ProposalMade(0, Proposal(plan=None, checks=(Check(id="late", verdict=Verdict.REFUSE, what="too late"),)))
        screen.post_message(late)
        await pilot.pause()
        assert "too late" not in text_of(pilot.app) and "checks passed" in text_of(pilot.app)


async def test_the_plan_is_shown_and_nothing_written(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await open_sheet(pilot)
        before = snapshot_of(root)
        await press(pilot, "d")
        await until_shown(pilot, '"format": "lavender-resume-plan"')
        assert isinstance(pilot.app.screen, Document)
        await press(pilot, "c")
        assert json.loads(pilot.app.clipboard)["world_size"]["next"] == 4
        await press(pilot, "escape", "c")
        newest = next((root / FAILED).glob("*-0060.pt"))
        assert pilot.app.clipboard == f"cd {os.getcwd()} && lavender-tui resume {newest} --world-size 4"
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen) and snapshot_of(root) == before


async def test_the_copied_command_does_what_enter_does(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run, command=runs.script(one_run.parent)) as pilot:
        await open_sheet(pilot)
        await choose_local(pilot)
        await press(pilot, "shift+tab", "shift+tab", "right")
        await until_shown(pilot, "after 944 rows")
        await until_shown(pilot, "checks passed")
        await press(pilot, "c")
        copied = pilot.app.clipboard
    assert "--world-size 1 -- " in copied
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = await asyncio.to_thread(
        subprocess.run,
        ["bash", "-c", copied],
        env={**os.environ, "PATH": path},
        cwd="/",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    [new] = set(one_run.glob("run-*")) - {one_run / FAILED}
    assert done.stdout.strip() == str(new)
    plan = json.loads((new / "resume.json").read_text())
    assert plan["source"]["save_count"] == 59 and plan["world_size"] == {"previous": 4, "next": 1}
    stop(str(new), KILL)
    assert nothing_survives() == []


async def test_enter_while_checking_launches_once_the_answer_is_there(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run) as pilot:
        screen = await open_sheet(pilot)
        await choose_local(pilot)
        answer, screen._answered, screen._question = screen._proposal, -1, None  # as before an answer
        await press(pilot, "enter")
        await until_shown(pilot, "checking, then launches  esc stops it")
        await press(pilot, "escape")
        screen.post_message(ProposalMade(screen._sequence, answer))
        await until_shown(pilot, "checks passed")
        assert pilot.app.screen is screen, "escape took it back"
        screen._answered, screen._question = -1, None
        await press(pilot, "enter", "right")
        await until_shown(pilot, "[2]")
        await until_shown(pilot, "checks passed")
        assert pilot.app.screen is screen and len(list(one_run.glob("run-*"))) == 1, "another question is another wish"
        await press(pilot, "left")
        await until_shown(pilot, "[local]")
        await until_shown(pilot, "checks passed")
        screen._answered, screen._question = -1, None
        await press(pilot, "enter")
        screen.post_message(ProposalMade(screen._sequence, screen._proposal))
        stop((await launched_run(pilot)).path, KILL)
    assert nothing_survives() == []


async def test_without_a_jump_the_key_says_that_there_is_nothing_to_go_back_to(play: Play, one_run: Path) -> None:
    async with play(one_run, size=LARGE) as pilot:
        await open_sheet(pilot)
        await press(pilot, "b")
        await until(pilot, lambda: any("has no jump" in one.words for one in pilot.app.announcements), "the words")


async def test_a_run_with_nothing_usable_says_so(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 1, cut_at=0.5)
    async with play(root) as pilot:
        await press(pilot, "r")
        await until_shown(pilot, "can't be launched")
        assert "none usable" in text_of(pilot.app)
        await press(pilot, "enter", "d", "escape", "left", "right", "tab", "5", "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_enter_launches_a_real_training_and_the_cursor_is_on_it(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    before = snapshot_of(one_run / FAILED)
    async with play(one_run) as pilot:
        await press(pilot, "slash", *"04-24", "enter")  # a filter that the new run's name doesn't match
        await open_sheet(pilot)
        await choose_local(pilot)
        await press(pilot, "enter")
        new = await launched_run(pilot)
        assert not pilot.app.screen.view.query, "a run that was launched is never filtered away"
        assert new.resumed_from.run == str(one_run / FAILED)
        await until_shown(pilot, "● running")
        plan = json.loads(Path(new.path, "resume.json").read_text())
        assert plan["world_size"] == {"previous": 4, "next": 1}
        assert plan["dataset"]["samples_consumed_per_split"] == [120] * runs.SPLITS
        assert snapshot_of(one_run / FAILED) == before, "the old run is never written to"
        await press(pilot, "l")
        await until_shown(pilot, "resumed at epoch 1 on 1 [bold]ranks[/x]")
        await press(pilot, "escape", "x")
        await until(pilot, lambda: isinstance(pilot.app.screen, StopBox), "the question")
        await press(pilot, "enter")
        assert pilot.app.screen.cursor_run.is_alive, "enter says no"
        await press(pilot, "x")
        await until_shown(pilot, "SIGTERM")
        await press(pilot, "y")
        await until_shown(pilot, "■ stopped", 30)
    assert nothing_survives() == []


async def test_a_second_resume_asks_and_enter_says_no(
    play: Play, one_run: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    async with play(one_run) as pilot:
        await open_sheet(pilot)
        await choose_local(pilot)
        await press(pilot, "enter")
        first = await launched_run(pilot)
        await press(pilot, "g")
        await open_sheet(pilot)
        await choose_local(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question", 60)
        await press(pilot, "enter")
        assert isinstance(pilot.app.screen, ResumeScreen)
        assert len(list(one_run.glob("run-*"))) == 2
        await press(pilot, "escape")
        runs.save(Path(first.path), 1, each=900, world_size=1)
        stop(first.path, KILL)
        await until(pilot, lambda: not any(run.is_alive for run in pilot.app.runs), "its end", 30)
        pilot.app.screen.go_to_run(str(one_run / FAILED))
        await open_sheet(pilot)
        await choose_local(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question about one that has ended", 60)
        await press(pilot, "enter")
        assert len(list(one_run.glob("run-*"))) == 2


async def test_resume_at_once_says_what_it_did_or_why_not(
    play: Play, tmp_path: Path, nothing_survives: Callable[[], list[int]]
) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 7, each=14, world_size=1)
    async with play(root, command=runs.script(tmp_path)) as pilot:
        await press(pilot, "R")
        await until_shown(pilot, "Resumed as", 60)
        stop((await launched_run(pilot)).path, KILL)


async def test_a_resume_at_once_leaves_who_has_gone_elsewhere_where_they_are(
    play: Play, tmp_path: Path, nothing_survives: Callable[[], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, carry_out, has_gone = tmp_path / "checkpoints", lavender_tui.resume.carry_out, threading.Event()
    runs.save(root / FAILED, 7, each=14, world_size=1)

    def slow(*args: Any, **options: Any) -> Any:
        assert has_gone.wait(60)
        return carry_out(*args, **options)

    monkeypatch.setattr(lavender_tui.resume, "carry_out", slow)
    async with play(root, command=runs.script(tmp_path)) as pilot:
        await press(pilot, "R", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunScreen), "the run's page")
        page = pilot.app.screen
        has_gone.set()
        await until_shown(pilot, "Resumed as", 60)
        assert pilot.app.screen is page and "Checking, then resuming" not in text_of(pilot.app)
        await press(pilot, "escape")
        assert pilot.app.screen.cursor_run.key == str(root / FAILED)
        await until(pilot, lambda: any(run.is_alive for run in pilot.app.runs), "the new run")
        stop(next(run.path for run in pilot.app.runs if run.is_alive), KILL)
    assert nothing_survives() == []


@pytest.mark.parametrize("lives", [True, False], ids=["which lives", "which has saved and ended"])
async def test_resume_at_once_asks_where_it_was_resumed_before(
    play: Play, tmp_path: Path, nothing_survives: Callable[[], list[int]], lives: bool
) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 7, each=14, world_size=1)
    async with play(root, command=runs.script(tmp_path)) as pilot:
        await press(pilot, "R")
        first = await launched_run(pilot)
        if not lives:
            runs.save(Path(first.path), 1, each=15, world_size=1)
            stop(first.path, KILL)
            await until(pilot, lambda: not pilot.app.screen.cursor_run.is_alive, "its end", 30)
        pilot.app.screen.go_to_run(str(root / FAILED))
        for answer in ("enter", "escape"):
            await press(pilot, "R")
            await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question", 60)
            await until_shown(pilot, "resumed already")
            await press(pilot, answer)
            assert len(list(root.glob("run-*"))) == 2, f"{answer} says no"
        await press(pilot, "R")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question", 60)
        await press(pilot, "y")
        second = await launched_run(pilot)
        assert second.path != first.path and second.resumed_from.run == str(root / FAILED)
        stop(second.path, KILL)
        if lives:
            stop(first.path, KILL)
    assert nothing_survives() == []


async def test_states_that_are_refused_promise_nothing(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 8, epoch=2, epochs=4, each=None, world_size=None, dataset=[])
    async with play(root) as pilot:
        await press(pilot, "r")
        await until_shown(pilot, "can't be launched: see checkpoint")
        shown = text_of(pilot.app)
        assert "epoch 2 of 4, where in it is not known" in shown
        assert "not known   loses not known" in shown and "loses 0 rows" not in shown


async def test_resume_at_once_refuses_in_words(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 1, cut_at=0.5)
    async with play(root) as pilot:
        await press(pilot, "R")
        await until_shown(pilot, "Not resumed")
        assert [path.name for path in root.iterdir()] == [FAILED]


@pytest.mark.parametrize(
    ("check_id", "row"),
    [
        ("topology.world-size", WORLD),
        ("topology.workers", WORKERS),
        ("topology.batch", WORLD),
        ("epoch.rule", POLICY),
        ("command.found", LAUNCHER),
        ("place.space", LAUNCHER),
        ("states.owners", CHECKPOINT),
        ("source.alive", CHECKPOINT),
    ],
)
def test_a_refusal_is_shown_at_the_row_that_mends_it(check_id: str, row: str) -> None:
    assert row_of(Check(id=check_id, verdict=Verdict.REFUSE, what="")) == row


async def test_a_typed_number_has_a_cursor_and_ends_by_itself(
    play: Play, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(seconds: float) -> None:
        monkeypatch.setattr(choice_row, "_PAUSE_SECONDS", seconds)

    pause(600)  # no key of this test comes too late for its number
    async with play(root) as pilot:
        await open_sheet(pilot)
        await press(pilot, "1")
        assert "[1▏]" in text_of(pilot.app)
        await press(pilot, "6")
        assert "[16▏]" in text_of(pilot.app)
        await press(pilot, "backspace")
        assert "[1▏]" in text_of(pilot.app)
        await press(pilot, "backspace")
        assert "[▏]" in text_of(pilot.app)
        await press(pilot, "2")
        assert "[2▏]" in text_of(pilot.app)
        pause(0.01)
        await press(pilot, "backspace")
        await until_shown(pilot, "[4]")  # taken back: what the proposal decides
        await press(pilot, "2")
        await until_shown(pilot, "[2]")
        pause(600)
        await press(pilot, "8")
        assert "[8▏]" in text_of(pilot.app), "after a pause it is another number"
        await press(pilot, "left")
        await until_shown(pilot, "[4]")


@pytest.mark.parametrize("other", ["tab", "c", "f1"])
async def test_any_other_key_ends_the_number(play: Play, root: Path, other: str) -> None:
    async with play(root) as pilot:
        await open_sheet(pilot)
        await press(pilot, "2", other)
        await press(pilot, *(["escape"] if other == "f1" else []))
        assert "▏" not in text_of(pilot.app)
        await until_shown(pilot, "[2]")


@pytest.mark.parametrize(("key", "chosen"), [("2", "[2]"), ("right", "[8]")])
async def test_a_row_out_of_sight_comes_back_as_it_changes(play: Play, root: Path, key: str, chosen: str) -> None:
    async with play(root, size=SMALL) as pilot:
        await open_sheet(pilot)
        await until_shown(pilot, "pgdn more checks")
        await press(pilot, "pagedown", "pagedown")
        assert "world_size  " not in text_of(pilot.app)
        await press(pilot, key)
        await until_shown(pilot, chosen)
        assert "world_size  " in text_of(pilot.app)


async def test_what_refuses_is_shown_from_below(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await open_sheet(pilot)
        await until_shown(pilot, "pgdn more checks")
        await press(pilot, "3")
        await until_shown(pilot, "can't be launched: see world_size")
        await press(pilot, "pagedown", "pagedown", "enter")
        await until_shown(pilot, "✗ 8 splits")
        assert "[3]" in text_of(pilot.app)


async def test_the_end_of_the_sheet_says_the_way_back(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await open_sheet(pilot)
        await press(pilot, *["pagedown"] * 8)
        await until_shown(pilot, "pgup back up")
        await pilot.resize_terminal(200, 100)
        await until(
            pilot, lambda: "pgup" not in text_of(pilot.app) and "pgdn" not in text_of(pilot.app), "all in sight"
        )


def spoil(path: Path) -> None:
    """A NaN in the weights: a whole file, which only reading all of it tells."""
    facts = path.stat()
    body = torch.load(path, weights_only=False)
    body["model_state_dict"]["weight"][0, 0] = float("nan")
    torch.save(body, path)
    os.utime(path, (facts.st_mtime, facts.st_mtime))
    aged(str(path))


async def test_the_whole_checkpoint_is_read_when_asked(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "v")
        for words in ("every checksum agrees", "no NaN and no infinity"):
            await until(pilot, lambda words=words: any(words in one.what for one in screen._proposal.checks), words, 60)
        await until_shown(pilot, "checks passed")


async def test_a_nan_in_the_weights_is_found_and_refused_until_another_save_is_chosen(play: Play, root: Path) -> None:
    spoil(next((root / FAILED).glob("*-0060.pt")))
    async with play(root, size=LARGE) as pilot:
        screen = await open_sheet(pilot)
        await press(pilot, "v")
        await until_shown(pilot, "numbers that are none", 60)
        await until_shown(pilot, "m goes back to pretrain 0059")
        await until(pilot, lambda: screen._sheet.run.known_bad, "what was found, as the list has it")
        await press(pilot, "f5")
        await until_shown(pilot, "m goes back to pretrain 0059")
        assert "can't be launched" in text_of(pilot.app) and "pretrain 0060" in text_of(pilot.app)
        await press(pilot, "m")
        await until_shown(pilot, "checks passed")
        assert "pretrain 0059" in text_of(pilot.app) and "1 before newest" in text_of(pilot.app)


async def test_what_is_launched_is_looked_through_first(play: Play, root: Path, tmp_path: Path) -> None:
    spoil(next((root / FAILED).glob("*-0060.pt")))
    async with play(root, size=LARGE, command=runs.script(tmp_path)) as pilot:
        await open_sheet(pilot)
        before = snapshot_of(root)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, Ask), "the question: it was resumed before")
        await press(pilot, "y")
        await until_shown(pilot, "numbers that are none", 60)
        assert isinstance(pilot.app.screen, ResumeScreen) and snapshot_of(root) == before


async def test_a_look_ends_with_escape_and_with_another_choice(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        screen = await open_sheet(pilot)
        screen.is_looking = True  # as between the key and the last byte of a large file
        screen.on_look_progress(LookProgress(screen._sequence, 12, 100))
        await until_shown(pilot, "reading the checkpoint: 12 % of 100 B   esc stops it")
        await press(pilot, "escape")
        assert pilot.app.screen is screen and not screen.is_looking
        screen.is_looking = True
        await press(pilot, "left")
        assert not screen.is_looking
        screen.on_look_ended(LookEnded(screen._sequence - 1, error="too late"))
        await until_shown(pilot, "checks passed")
        assert "too late" not in text_of(pilot.app)
