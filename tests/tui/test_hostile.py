"""Names, stages, losses and messages that try everything: shown letter for letter on every screen, and nothing else."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, start, stop
from lavender_tui.model.plan import Launch
from lavender_tui.model.text import clean
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.widgets.run_table import RunTable
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown


def shown_name(name: str) -> str:
    """A run's name as it is listed: a name with a slash in it is a directory in another."""
    return clean(name.rsplit("/", 1)[-1])


def assert_harmless(pilot) -> None:
    """The app lives, and no control or bidi character reached the screen."""
    assert pilot.app.is_running
    shown = text_of(pilot.app)
    assert not any(char < " " and char != "\n" for char in shown)
    assert not any(char in shown for char in "\u202e\u2066\x1b\x07")


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_the_list_shows_every_name_as_it_is(play: Play, hostile_root: Path, size: tuple[int, int]) -> None:
    async with play(hostile_root, size=size) as pilot:
        await press(pilot, "S")
        shown = text_of(pilot.app)
        for name in runs.HOSTILE_NAMES:
            assert shown_name(name)[:20] in shown
        assert_harmless(pilot)


async def test_every_screen_of_every_hostile_run(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root, size=LARGE) as pilot:
        table = pilot.app.screen.query_one(RunTable)
        hostile = [key for key in table.keys if "run-2026" not in os.path.basename(key)]
        assert len(hostile) == len(runs.HOSTILE_NAMES)
        for key in hostile:
            pilot.app.screen.go_to_run(key)
            await pilot.pause()
            name = clean(os.path.basename(key))
            for opened in ("enter", "l", "r"):
                await press(pilot, opened)
                await until_shown(pilot, name[:20])
                await pilot.pause(0.05)
                assert_harmless(pilot)
                await press(pilot, "escape")
            await press(pilot, "y")
            assert_harmless(pilot)
            await press(pilot, "y")
            assert_harmless(pilot)
            assert isinstance(pilot.app.screen, RunsScreen)


async def test_the_sheet_and_its_checks_stay_text(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root) as pilot:
        key = str(hostile_root / "[@click=app.quit]click me[/]")
        pilot.app.screen.go_to_run(key)
        await press(pilot, "r")
        await until_shown(pilot, "[@click=app.quit]x[/]")
        await until(pilot, lambda: "checking" not in text_of(pilot.app), "an answer")
        await press(pilot, "d")
        assert_harmless(pilot)
        await press(pilot, "escape", "c", "escape", "question_mark", "escape")
        assert_harmless(pilot)
        await press(pilot, "R")
        await pilot.pause(0.2)
        assert_harmless(pilot)


async def test_the_palette_lists_runs_as_text(play: Play, hostile_root: Path) -> None:
    async with play(hostile_root) as pilot:
        await press(pilot, "ctrl+p", *"shout")
        await until_shown(pilot, "Go to [bold red]shout")
        assert_harmless(pilot)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, RunsScreen), "the list")
        await until(pilot, lambda: pilot.app.screen.cursor_run.name == "[bold red]shout", "the cursor on it")


async def test_the_log_shows_codes_and_markup_as_text(play: Play, root: Path) -> None:
    log = root / "run-2026-04-24_18-53-41" / "train.log"
    log.write_bytes(b"step=1 [/x] [@click=app.quit]q[/]\n\x1b[31mred\x1b[0m\x07 \xff\xfe\n" + "\u202eevil\n".encode())
    async with play(root) as pilot:
        await press(pilot, "l")
        await until_shown(pilot, "step=1 [/x] [@click=app.quit]q[/]")
        assert " red\\x07 " in text_of(pilot.app)
        assert_harmless(pilot)
        with log.open("a") as file:
            file.write("one more line [/]\n")
        await until_shown(pilot, "one more line [/]")
        await press(pilot, "f", "k", "g", "G", "f", "y", "escape")
        assert_harmless(pilot)


async def test_a_root_with_brackets_in_its_path(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "exp [bold red] [1 [@click=app.quit]x"
    runs.save(root / "run-2026-05-01_00-00-00", 1)
    async with play(root, size=LARGE) as pilot:
        assert "exp [bold red] [1 [@click=app.quit]x" in text_of(pilot.app)
        await press(pilot, "enter")
        await until_shown(pilot, "[@click=app.quit]x")
        assert_harmless(pilot)


async def test_numbers_that_no_axis_holds(play: Play, tmp_path: Path) -> None:
    """On the page of the curves, zoomed, averaged and on a log scale; then two such runs beside another."""
    odd = '"a": 1e308', '"a": -1e308', '"a": 1e-320', '"a": NaN', '"a": 2'
    steps = -1, 5, 5, 10**18, 7, 10**15, 10**400, -(10**18), 9
    lines = [f'{{"step": {step}, "loss": {3 + at}, {odd[at % 5]}}}' for at, step in enumerate(steps)]
    for name in ("run-2026-04-24_18-53-41", "run-2026-04-25_18-53-41"):
        runs.save(tmp_path / name, 1)
        (tmp_path / name / "metrics.jsonl").write_text(
            "\n".join(["NaN", *lines, '{"step": NaN, "loss": Infinity}', ""])
        )
    async with play(tmp_path, size=LARGE) as pilot:
        await press(pilot, "enter", "3")
        await until_shown(pilot, "1 of 2")
        for key in ("plus", "left", "plus", "left", "plus", "o", "a", "right", "minus", "m", "o", "plus", "left", "0"):
            await press(pilot, key)
            await pilot.pause(0.05)
            assert_harmless(pilot)
        await press(pilot, "escape", "space", "j", "space", "c")
        await until_shown(pilot, "by step")
        assert_harmless(pilot)


TEXTS = ("[/]", "[bold", "[[x]]", "\\[escaped]", "a[0:3]", "[link=http://127.0.0.1/]x[/link]", "{{braces}}", "%s %d")


def assert_no_link(pilot) -> None:
    """No cell of the screen holds an action or a link that a click would follow."""
    width, height = pilot.app.size
    for y in range(height):
        for x in range(width):
            style = pilot.app.screen.get_style_at(x, y)
            assert not style.link and not any("click" in name for name in style.meta), f"{x}, {y}"


@pytest.mark.long
async def test_every_page_of_a_living_run_with_brackets_everywhere(play: Play, tmp_path: Path) -> None:
    root, name = tmp_path / "checkpoints", "[@click=app.quit]stop me[x] [1 [bold"
    run = root / name
    runs.save(run, 1, model_cfg={f"k{at} {words}": words for at, words in enumerate(TEXTS)}, loss=float("inf"))
    runs.save(root / "run [/]", 1, loss=float("nan"), model_cfg={"act": "silu[fast]"})
    (run / "metrics.jsonl").write_text(
        "".join(f'{{"step": {step}, "loss": {loss}, "[/lr]": 3e-4}}\n'
                for step, loss in enumerate(("1.0", "NaN", "Infinity", "1e308", "-1e308", "1e999", "2.0"), 1))
    )  # fmt: skip
    argv = (
        sys.executable,
        "-c",
        "import time; print('[@click=app.quit]q[/] [/x]', flush=True); time.sleep(600)",
        "[/a]",
    )
    start(Launch(backend="local", argv=argv, cwd=str(tmp_path)), str(run))
    stop_words = "Stop [@click=app.quit]stop me[x] [1 [bold?"
    try:
        async with play(root, size=(120, 40)) as pilot:
            await until(pilot, lambda: any(one.is_alive for one in pilot.app.runs), "the run alive")
            pilot.app.screen.go_to_run(str(run))
            await pilot.pause()
            for keys, shown in (
                (("x",), stop_words), (("escape", "y"), "Copy of [@click"), (("escape", "enter"), "[1 Overview]"),
                (("2", "enter"), "[link=http://127.0.0.1/]x[/link]"), (("slash", *"[/]"), "k0 [/]"),
                (("escape", "escape", "3"), "of "), (("M",), "[/lr]"), (("4",), "rows read"), (("5",), "supervisor"),
                (("7",), "launched"), (("6",), "[@click=app.quit]q[/] [/x]"), (("slash", *"[/x]", "enter"), "“[/x]”"),
                (("escape", "escape", "escape", "slash", *"zz[/x]"), "No run matches zz[/x]"),
                (("escape", "g", "space", "space", "c"), "compare  2 runs"), (("G",), "silu[fast]"),
                (("escape", "escape", "D"), "stop me[x]"),
                (("escape", "question_mark"), "The list of runs"),
            ):  # fmt: skip
                await press(pilot, *keys)
                await until_shown(pilot, shown)
                assert_harmless(pilot)
                assert_no_link(pilot)
    finally:
        stop(str(run), KILL)
