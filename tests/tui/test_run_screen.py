"""A run's page: every checkpoint, the loss, where each split stands, and that it stays live."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, StopOrder, journal, start, stop
from lavender_tui.launch.bad_files import remember
from lavender_tui.model.checkpoint import FileFacts
from lavender_tui.model.plan import Launch
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.screens.resume import ResumeScreen
from lavender_tui.tui.screens.run import RunScreen
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.screens.tree import TreeScreen
from lavender_tui.tui.widgets.checkpoint_table import CheckpointTable
from lavender_tui.tui.widgets.data_bars import DataBars
from lavender_tui.watch import all_metrics
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, text_of, until, until_shown

FAILED = "run-2026-04-24_18-53-41"


@pytest.mark.parametrize("size", [SMALL, LARGE, (120, 40)], ids=str)
async def test_checkpoints_newest_first_and_the_default_marked(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root, size=size) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "resumes from pretrain 0060")
        await press(pilot, *(["2"] if size == SMALL else []))
        await until_shown(pilot, "0058")
        rows = [line.lstrip(" ▌").split() for line in lines_of(pilot.app) if "✓ whole" in line]
        assert [row[0] for row in rows[:3]] == ["0060", "0059", "0058"] and "4/4" in rows[0]
        if size[0] > 100:
            assert "← resumes here" in text_of(pilot.app)


async def test_the_last_save_of_a_finished_training_is_no_place_to_resume(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 9, epoch=3, epochs=3, complete=True)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "enter", "2")
        await until_shown(pilot, "← the end: nothing is left to train")
        assert "resumes here" not in text_of(pilot.app)


async def test_saves_within_seconds_are_told_apart_by_their_time(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    for count in range(1, 13):
        runs.save(root / FAILED, count, each=10 * count, age_seconds=80 - 5 * count, complete=count == 6)
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "enter", "2")
        await until_shown(pilot, "0012")
        shown = [line for line in lines_of(pilot.app) if "✓ whole" in line]
        times = [found[0] for line in shown if (found := re.findall(r" \d\d:\d\d:\d\d ", line))]
        assert len(shown) > 4 and len(set(times)) == len(times) == len(shown)
        assert all("4/4" in line for line in shown)


async def test_without_splits_no_key_offers_other_owners(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 1, each=None)
    runs.save(root / "run-2026-04-25_09-12-07", 1)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "g", "enter", "4")
        await until_shown(pilot, "← → world_size")
        await press(pilot, "escape", "G", "enter", "4")
        await until_shown(pilot, "no rank states with this save")
        assert "← → world_size" not in text_of(pilot.app)


async def test_splits_that_do_not_fit_are_a_key_away(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    counts = {"samples_consumed_per_split": [5] * 48, "positions_consumed_per_split": [5] * 48}
    state = {"shuffle_seed": 7, "num_splits": 48, "epoch": 0, **counts}
    runs.save(root / FAILED, 1, each=None, world_size=1, dataset=[state], global_step=5)
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "enter", "2")
        await until_shown(pilot, "more splits: 4 shows them")
        await press(pilot, "4")
        await until_shown(pilot, "of 48: j k")
        assert "split 47" not in text_of(pilot.app)
        await press(pilot, "j")
        await until_shown(pilot, "splits 1 to ")
        await press(pilot, "G")
        await until_shown(pilot, " to 47 of 48: j k")
        assert "split 47" in text_of(pilot.app)
        await press(pilot, "g")
        await until_shown(pilot, "splits 0 to ")


async def test_the_title_of_the_curve_is_not_broken_by_what_is_switched_on(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / FAILED, 1, each=100)
    lines = [json.dumps({"step": step, "loss": 2.0 + 1 / step, "lr": 3e-4}) for step in range(1, 1400)]
    (root / FAILED / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "enter", "3")
        await until_shown(pilot, "metric 1 of 2")
        await until(pilot, lambda: set("│┤") & set(text_of(pilot.app)), "the axis")
        top = next(at for at, line in enumerate(lines_of(pilot.app)) if set("│┤") & set(line))
        await press(pilot, "left", "plus", "plus", "o", "a")
        await until_shown(pilot, "log scale   averaged over 10 points")
        shown = lines_of(pilot.app)
        assert re.search(r"steps [\d,]+ to [\d,]+   log scale", shown[top - 1])
        assert next(at for at, line in enumerate(shown) if set("│┤") & set(line)) == top


async def test_where_each_split_stands(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    data = {"uri": "/data", "table": "corpus", "version": 7, "num_rows": runs.ROWS}
    runs.save(root / FAILED, 60, each=610, data=data)
    async with play(root) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "4,880 of 8,000 rows (61 %)")
        lines = [line for line in lines_of(pilot.app) if line.strip().startswith("split ")]
        assert len(lines) == runs.SPLITS
        assert "610 / 1,000   rank 0" in lines[0] and "rank 3" in lines[7]
        assert lines[0].count("━") / (lines[0].count("━") + lines[0].count("─")) == pytest.approx(0.61, abs=0.03)


async def test_the_data_say_of_which_save_they_are_and_follow_the_newest(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "enter", "4")
        await until_shown(pilot, "DATA  pretrain 0060, ")
        runs.save(root / FAILED, 61, each=122, age_seconds=0)
        await until_shown(pilot, "DATA  pretrain 0061, ")
        await until_shown(pilot, ": 976 ")
        await press(pilot, "2", "j", "4")
        await until_shown(pilot, "DATA  pretrain 0060, ")
        runs.save(root / FAILED, 62, each=125, age_seconds=0)
        table = pilot.app.screen.query_one(CheckpointTable)
        await until(pilot, lambda: any("0062" in key for key in table.keys), "the save")
        await pilot.pause()
        assert "DATA  pretrain 0060, " in text_of(pilot.app)


async def test_the_loss_is_drawn_and_gaps_are_counted(play: Play, root: Path) -> None:
    run = root / FAILED
    runs.metrics(run, ["NaN", "Infinity", 1e308, 2.0])
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "no finite number")
        await until(pilot, lambda: any("⠀" < char <= "⣿" for char in text_of(pilot.app)), "a curve in Braille")


@pytest.mark.parametrize("losses", [[2.0], [2.0, 2.0, 2.0]], ids=["one point", "flat"])
async def test_a_loss_that_does_not_move_has_a_readable_axis(play: Play, tmp_path: Path, losses: list[float]) -> None:
    run = tmp_path / "checkpoints" / FAILED
    runs.save(run, 1, loss=2.0)
    runs.metrics(run, losses)
    async with play(tmp_path / "checkpoints") as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "1 point  " if len(losses) == 1 else "3 points  ")
        drawn = "●" if len(losses) == 1 else "⣀⠤⠒⠉"
        await until(pilot, lambda: any(one in text_of(pilot.app) for one in drawn), "the curve")
        ticks = [line.split()[0] for line in lines_of(pilot.app) if "┤" in line and line.split()[0][0].isdigit()]
        assert "2.0" in ticks and len(ticks) >= 4
        if len(losses) == 1:
            steps = next(line.split() for line in lines_of(pilot.app) if line.split()[:1] == ["step"])
            assert steps[1:4] == ["9", "10", "11"]


async def test_a_run_without_a_save_says_so(play: Play, root: Path) -> None:
    new = root / "run-2026-04-26_12-00-00"
    runs.launched(new, ["python", "train.py"], source=root / FAILED)
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "G", "g", "j", "j")
        await until_shown(pilot, f"nothing saved yet; r resumes again from {FAILED}")
        await press(pilot, "enter", "4")
        await until_shown(pilot, "DATA  nothing saved yet")


async def test_a_cut_file_says_why(play: Play, root: Path) -> None:
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "j", "j", "enter")
        await until_shown(pilot, "✗ cut off")
        assert "passed over" in text_of(pilot.app)


async def test_it_stays_live_and_survives_the_end_of_its_directory(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "enter", "j")
        table = pilot.app.screen.query_one(CheckpointTable)
        under = table.cursor_key
        runs.save(root / FAILED, 61, loss=1.2345, each=122, age_seconds=0)
        await until_shown(pilot, "1.2345")
        assert table.cursor_key == under
        shutil.rmtree(root / FAILED)
        await until_shown(pilot, "its directory is gone")
        await press(pilot, "escape")
        assert isinstance(pilot.app.screen, RunsScreen)


async def test_resume_opens_on_the_checkpoint_that_was_chosen(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "enter", "j", "r")
        assert isinstance(pilot.app.screen, ResumeScreen)
        await until_shown(pilot, "pretrain 0059")
        await until_shown(pilot, "after 944 rows")


async def test_a_reason_too_long_for_the_title_has_a_line_of_its_own(play: Play, tmp_path: Path) -> None:
    reason = "rank 0: RuntimeError: the size of tensor a (4096) must match the size of tensor b (2048) at dimension 1"
    run = tmp_path / "checkpoints" / FAILED
    runs.save(run, 1)
    runs.launched(run, ["python"])
    runs.ended(run, code=1, error=reason)
    async with play(tmp_path / "checkpoints", size=SMALL) as pilot:
        await press(pilot, "enter")
        await until(pilot, lambda: f"exit code 1: {reason}" in " ".join(text_of(pilot.app).split()), "the reason")
        await pilot.resize_terminal(200, 60)
        await until(pilot, lambda: reason in lines_of(pilot.app)[0], "the reason in the title")


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_a_known_bad_checkpoint_is_no_default_in_pane_and_page(
    play: Play, tmp_path: Path, size: tuple[int, int]
) -> None:
    root = tmp_path / "checkpoints"
    run = root / "run-2026-04-24_18-53-41"
    for count in (1, 2):
        bad = runs.save(run, count, each=10 * count, age_seconds=3600 - count)
    broken = root / "run-2026-04-25_10-00-00"
    runs.launched(broken, ["python", "t.py"], source=run, checkpoint=bad)
    runs.metrics(broken, [2.0, 2.0, 2.0], every=1)
    runs.ended(broken, code=1, error="RuntimeError: loss is nan")
    async with play(root, size=size) as pilot:
        pilot.app.screen.go_to_run(str(run))
        await until_shown(pilot, "pretrain 0001")
        shown = " ".join(text_of(pilot.app).split())
        assert "resumes from pretrain 0001" in shown
        if size == LARGE:
            assert f"passed over {bad.name}: {broken.name}, resumed from it, failed after 3 steps" in shown
        await press(pilot, "enter", "2")
        await until_shown(pilot, "! known bad")
        await press(pilot, *(["1"] if size == LARGE else []))
        if size == LARGE:
            await until_shown(pilot, "known to be bad: run-2026-04-25_10-00-00, resumed from it, failed after 3 steps")
        [line] = [one for one in lines_of(pilot.app) if "0002" in one and "pretrain" in one and "known bad" in one]
        assert "resumes here" not in line


async def test_what_a_deep_look_found_is_seen_at_once_without_a_change_of_the_run(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    run = root / "run-2026-04-24_18-53-41"
    for count in (1, 2):
        bad = runs.save(run, count, each=10 * count, age_seconds=3600 - count)
    async with play(root) as pilot:
        await until_shown(pilot, "resumes from pretrain 0002")
        assert remember(str(bad), FileFacts.of(os.stat(bad)), "the weights hold numbers that are none: w (3 NaN)")
        await until_shown(pilot, "resumes from pretrain 0001")
        assert f"passed over {bad.name}" in text_of(pilot.app)
        [found] = pilot.app.runs
        assert found.known_bad == ((str(bad), "the weights hold numbers that are none: w (3 NaN)"),)


@pytest.mark.parametrize("size", [(120, 40), LARGE], ids=str)
async def test_each_save_is_marked_at_the_foot_of_the_loss(play: Play, tmp_path: Path, size: tuple[int, int]) -> None:
    root = tmp_path / "checkpoints"
    for count in (1, 2, 3):
        runs.save(root / FAILED, count, each=200 * count)  # at steps 100, 200 and 300
    runs.metrics(root / FAILED, runs.falling(40))
    async with play(root, size=size) as pilot:
        await press(pilot, "enter")
        await until_shown(pilot, "▴ 3 saves")
        await until(pilot, lambda: any(line.count("▴") == 3 for line in lines_of(pilot.app)), "three marks in a row")
        [line] = [one for one in lines_of(pilot.app) if one.count("▴") == 3]
        first, second, third = (at for at, char in enumerate(line) if char == "▴")
        assert abs((third - second) - (second - first)) <= 1 and not any("⠀" < char <= "⣿" for char in line)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_the_overview_has_settings_versions_and_what_differs_from_the_source(
    play: Play, tmp_path: Path, size: tuple[int, int]
) -> None:
    root = tmp_path / "checkpoints"
    old, new = root / FAILED, root / "run-2026-04-25_10-00-00"
    source = runs.save(old, 1, model_cfg={"d_model": 4, "dropout": 0.1}, versions={"torch": "2.12.0"})
    runs.save(new, 1, model_cfg={"d_model": 4, "dropout": 0.2}, versions={"torch": "2.13.0", "git_commit": "abc123"})
    runs.launched(new, ["python", "train.py", "--lr", "3e-4"], source=old, checkpoint=source)
    async with play(root, size=size) as pilot:
        pilot.app.screen.go_to_run(str(new))
        await press(pilot, "enter")
        await until_shown(pilot, "resumes from pretrain 0001")
        facts = "\n".join("".join(word for word, _ in line) for line in pilot.app.screen.query_one("#facts")._lines)
        for words in ("git_commit", "abc123", "--lr", "dropout      0.1 → 0.2", "torch        2.12.0 → 2.13.0"):
            assert words in facts
        await press(pilot, "slash", *"drop", "enter")
        await until_shown(pilot, "1 of 3   with drop")


async def test_the_loss_is_zoomed_read_off_and_other_numbers_are_there(play: Play, root: Path) -> None:
    with (root / FAILED / "metrics.jsonl").open("a") as file:
        for step in range(1, 50):
            file.write(json.dumps({"step": step * 10, "grad_norm": 1.5, "lr": 3e-4}) + "\n")
    async with play(root) as pilot:
        await press(pilot, "enter", "3")
        await until_shown(pilot, "last, at step 3,000")
        await until(pilot, lambda: any("⠀" < char <= "⣿" for char in text_of(pilot.app)), "a curve in Braille")
        await press(pilot, "left")
        await until_shown(pilot, " at step 2,9")
        assert re.search(r"loss  ◆ 2\.4\d* at step 2,9\d0, after save 0060", text_of(pilot.app))
        await press(pilot, "plus", "plus", "o", "a")
        for words in ("steps 2,2", "log scale", "averaged over 10"):
            await until_shown(pilot, words)
        await press(pilot, "0", "m")
        await until_shown(pilot, " 2 of 3")
        await press(pilot, "m")
        await until_shown(pilot, " 3 of 3")
        await until_shown(pilot, "grad_norm   1.5 last, at step 490")


async def test_what_a_curve_leaves_out_is_told(play: Play, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.dumps({"step": step * 10, "gain": 1e305 if step > 47 else 1.5}) + "\n" for step in range(1, 50)]
    (root / FAILED / "metrics.jsonl").write_text("\n" * 1_000 + "".join(lines))
    monkeypatch.setattr(all_metrics, "MOST_BYTES", sum(map(len, lines[20:])) + 5)
    async with play(root) as pilot:
        await press(pilot, "enter", "3", "m")
        await until_shown(pilot, "gain   1.5 last, at step 470")
        await until_shown(pilot, "2 points can't be drawn   from step 210 on")


async def test_the_data_tab_shows_who_would_own_what(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "enter", "4")
        await until_shown(pilot, "960 rows read")
        await press(pilot, "right")
        await until_shown(pilot, "world_size 4 → 8")
        assert "rank 3 → rank 7" in text_of(pilot.app)
        await press(pilot, "left", "left")
        await until_shown(pilot, "world_size 4 → 2")
        assert "rank 3 → rank 1" in text_of(pilot.app)


async def test_processes_are_a_tree_with_what_each_uses(play: Play, tmp_path: Path) -> None:
    run = tmp_path / "checkpoints" / FAILED
    runs.save(run, 1)
    sleep = "import time; time.sleep(600)"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', '{sleep}']); {sleep}"
    record = start(Launch(backend="local", argv=(sys.executable, "-c", child), cwd=str(tmp_path)), str(run))
    try:
        async with play(tmp_path / "checkpoints") as pilot:
            await until(pilot, lambda: pilot.app.runs[0].is_alive, "the run alive")
            await press(pilot, "enter", "5")
            await until_shown(pilot, str(record.leader.pid))
            await until_shown(pilot, "supervisor")
            await until(pilot, lambda: " MB" in text_of(pilot.app) and " %" in text_of(pilot.app), "what they use")
    finally:
        stop(str(run), KILL)


@pytest.mark.parametrize("root", ["checkpoints", "."], ids=["of the root", "of a root further up"])
async def test_history_tells_who_did_what(play: Play, tmp_path: Path, root: str) -> None:
    run = tmp_path / "checkpoints" / FAILED
    runs.save(run, 1)
    start(Launch(backend="local", argv=(sys.executable, "-c", "import time; time.sleep(600)"), cwd="/"), str(run))
    stop(str(run), StopOrder(how="kill", who="ada@gpu-03", why="too hot"))
    async with play(tmp_path / root, size=LARGE) as pilot:
        await press(pilot, "enter", "7")
        await until_shown(pilot, "launched")
        shown = text_of(pilot.app)
        assert "ada@gpu-03" in shown and "stop asked" in shown and "too hot" in shown


async def test_a_history_that_is_long_in_coming_is_shown(play: Play, root: Path, monkeypatch) -> None:
    """On a slow file system it is asked for again, as once a second, before it is there."""
    from lavender_tui.tui import history

    read, is_asked_again, begun = history.read_history, threading.Event(), list[str]()

    def slowly(run, followers):
        begun.append(run.path)
        is_asked_again.wait(60)
        return read(run, followers)

    monkeypatch.setattr(history, "read_history", slowly)
    async with play(root, size=LARGE) as pilot:
        await press(pilot, "enter", "7")
        await until(pilot, lambda: begun, "it is being read")
        for _ in range(3):
            pilot.app.screen.read_tab()
        assert len(begun) == 1
        is_asked_again.set()
        await until_shown(pilot, "resumed as")


@pytest.mark.parametrize("is_noted", [True, False], ids=["by the journal", "by the records"])
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_history_tells_that_it_was_resumed(
    play: Play, tmp_path: Path, is_noted: bool, size: tuple[int, int]
) -> None:
    root = tmp_path / "checkpoints"
    saved = runs.save(root / FAILED, 6)
    new = root / "run-2026-04-25_09-12-07"
    runs.launched(new, ["python"], source=root / FAILED, checkpoint=saved)
    if is_noted:
        facts = {"pid": 7, "world_size": 4, "from": str(root / FAILED), "checkpoint": str(saved)}
        journal.note(str(root), "resumed", run=str(new), who="ada@gpu-03", **facts)
    async with play(root, size=size) as pilot:
        pilot.app.screen.go_to_run(str(root / FAILED))
        await until(pilot, lambda: pilot.app.screen.cursor_run.path == str(root / FAILED), "the cursor")
        await press(pilot, "enter", "7")
        await until_shown(pilot, "resumed as")
        shown = text_of(pilot.app)
        assert new.name in shown and f"from {saved.name}" in " ".join(shown.split())
        assert not is_noted or "by ada@gpu-03" in shown


async def test_a_checkpoint_opens_as_a_tree_that_is_searched(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "enter", "2", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, TreeScreen), "the tree")
        await until_shown(pilot, "optimizer_state_dict")
        assert "float32 [4, 4]" in text_of(pilot.app)
        await press(pilot, "slash", *"exp_avg", "enter")
        await until_shown(pilot, "optimizer_state_dict.state.0.exp_avg")
        await press(pilot, "y")
        assert pilot.app.clipboard == "optimizer_state_dict.state.0.exp_avg"
        await press(pilot, "escape", "escape")
        assert not isinstance(pilot.app.screen, TreeScreen)


async def test_news_that_come_while_the_page_is_being_made_are_shown(play: Play, one_run: Path) -> None:
    """At rest nothing else would come."""
    async with play(one_run) as pilot:
        run, snapshot = pilot.app.runs[0], pilot.app.snapshot
        now = replace(snapshot, sequence=snapshot.sequence + 1, runs=(replace(run, state_reason="seen since then"),))
        pilot.app.push_screen(RunScreen(run))
        pilot.app.on_runs_changed(RunsChanged(now))
        await until_shown(pilot, "seen since then")


async def test_where_the_data_stands_goes_with_its_save_and_comes_back_with_it(play: Play, one_run: Path) -> None:
    """A directory that can't be listed for a moment has no saves until it can."""
    async with play(one_run, size=LARGE) as pilot:
        run = pilot.app.runs[0]
        await press(pilot, "enter", "4")
        page, data = pilot.app.screen, pilot.app.screen.query_one(DataBars)
        await until(pilot, lambda: data.has_splits, "the splits")
        for checkpoints in ((), run.checkpoints):
            there = replace(run, checkpoints=checkpoints, newest=checkpoints[-1] if checkpoints else None)
            page.show_snapshot(replace(pilot.app.snapshot, runs=(there,)))
            await pilot.pause()
            assert data.has_splits is bool(checkpoints)
