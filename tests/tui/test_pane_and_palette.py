"""The pane's reason, the names in the list, the palette's entries, notices and the hint: words that are not cut off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.command import CommandInput
from textual.containers import VerticalScroll

from lavender_tui.demo.guide import BEGIN as HINT
from lavender_tui.model.plan import Batch, Launch, Policy, ResumePlan, Source, Start
from lavender_tui.model.run import EndFacts, Lineage
from lavender_tui.model.state import RunFacts, decide_state
from lavender_tui.tui import keys
from lavender_tui.tui.consequences import launched_words
from lavender_tui.tui.lineup import arrange
from lavender_tui.tui.listing import View
from lavender_tui.tui.palette import _brief
from lavender_tui.tui.screens.help import sections
from lavender_tui.tui.widgets.hint import fitting
from lavender_tui.tui.widgets.inks import fit
from tests.model.build import checkpoint, run
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, still_lines_of, text_of, until, until_shown

FAILED = "run-2026-04-24_18-53-41"
REASON = "rank 2: RuntimeError: the size of tensor a (4096) must match the size of tensor b (2048) at dimension 1"


@pytest.mark.parametrize("size", [SMALL, (100, 30), (120, 40)], ids=str)
async def test_the_pane_wraps_the_reason(play: Play, tmp_path: Path, size: tuple[int, int]) -> None:
    run_dir = tmp_path / "checkpoints" / FAILED
    runs.save(run_dir, 1)
    runs.launched(run_dir, ["python"])
    runs.ended(run_dir, code=1, error=REASON)
    async with play(tmp_path / "checkpoints", size=size) as pilot:
        shown = " ".join(text_of(pilot.app).split())
        assert REASON in shown and "resumes from pretrain 0001" in shown


def test_a_signal_is_named_once() -> None:
    end = EndFacts(signal="SIGKILL", error="killed by signal 9 that nobody here sent (an administrator)")
    assert decide_state(RunFacts(now=0, end=end))[1] == end.error
    other = EndFacts(signal="SIGKILL", error="rank 2: out of memory")
    assert decide_state(RunFacts(now=0, end=other))[1] == "killed by SIGKILL: rank 2: out of memory"


def family(*edges: tuple[str, str]):
    return [run(name, checkpoint(1), resumed_from=Lineage(run=f"/runs/{of}") if of else None) for name, of in edges]


def test_branches_are_drawn_and_only_the_last_one_ends() -> None:
    runs_ = family(
        ("run-2026-01-01_00-00-00", ""), *((f"run-2026-01-0{n}_00-00-00", "run-2026-01-01_00-00-00") for n in (2, 4))
    )
    runs_ += family(("run-2026-01-03_00-00-00", "run-2026-01-02_00-00-00"))
    assert [row.lead for row in arrange(runs_, View())] == ["", "  ├ ", "  │ └ ", "  └ "]


def test_long_names_keep_their_end() -> None:
    assert fit("run-2026-04-29_18-17-27", 19, elide="middle") == "run-…04-29_18-17-27"
    assert fit("run-2026-04-29_18-17-27", 23, elide="middle") == "run-2026-04-29_18-17-27"


async def test_deep_lineages_stay_apart_at_80_columns(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    before = None
    for second in range(5):
        run_dir = root / f"run-2026-04-24_18-53-4{second}"
        runs.save(run_dir, 1)
        runs.launched(run_dir, ["python"], source=before)
        before = run_dir
    async with play(root, size=SMALL) as pilot:
        rows = [line for line in lines_of(pilot.app)[2:7] if "0001" in line]
        assert [line.split("18-53-4")[1][0] for line in rows] == ["0", "1", "2", "3", "4"]
        await pilot.resize_terminal(100, 30)
        await until(pilot, lambda: sum("run-2026-04-24_18-53-4" in line for line in lines_of(pilot.app)[:8]) >= 5)


async def test_light_and_dark_find_the_themes(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        for typed, wanted in (("light", "lavender-light"), ("dark", "lavender")):
            await press(pilot, "ctrl+p")
            await until_shown(pilot, "what to do, a run, a theme")
            pilot.app.screen.query_one(CommandInput).value = f"{typed}"
            await until_shown(pilot, f"Theme: {wanted} ({typed})")
            await press(pilot, "escape")


async def test_a_theme_that_is_chosen_says_how_to_keep_it(
    play: Play, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAVENDER_TUI_CONFIG", "/home/ada/config.toml")
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "ctrl+p")
        await until_shown(pilot, "what to do, a run, a theme")
        pilot.app.screen.query_one(CommandInput).value = "colour-blind"
        await until_shown(pilot, "Theme: colour-blind (dark)")
        await press(pilot, "enter")
        await until_shown(pilot, 'until you quit; to keep it write theme = "colour-blind"')
        assert pilot.app.theme == "colour-blind" and "/home/ada/config.toml" in text_of(pilot.app)


@pytest.mark.parametrize("place", keys.PLACES)
def test_the_palette_says_more_than_a_name(place: str) -> None:
    bound = [
        key
        for key in keys.of_place(place)
        if key.id not in ("palette", "move", "move.ends", "move.half", "log.aside", "log.place")
    ]
    names = [key.name for key in bound]
    assert all(names) and len(names) == len(set(names))
    assert all(key.name != key.help for key in bound)


def test_what_a_launch_did_in_one_line() -> None:
    source = Source(
        run="/runs/r", checkpoint="/runs/r/pretrain-10-00-00-0008.pt", size=1, mtime_ns=1, stage="pretrain",
        save_count=8, epoch=4, epochs=9, epoch_complete=False, loss=None,
    )  # fmt: skip
    plan = ResumePlan(
        source=source, world_size_previous=2, world_size=4, data=None, run_dir="/runs/new",
        start=Start(policy=Policy.EXACT, epoch=4, scheduler_steps=None, samples_replayed=0),
        dataset={"samples_consumed_per_split": [336] * 4}, batch=Batch(global_size=None, per_rank=None, num_workers=0),
        launch=Launch(backend="local", argv=("python",), cwd="/"),
    )  # fmt: skip
    assert launched_words(plan) == "on 4 ranks, from pretrain 0008, epoch 4, row 1,344"


@given(st.text(st.characters(codec="utf-8", categories=["L", "P", "Zs"]), max_size=120), st.integers(0, 130))
def test_a_hint_is_cut_at_the_end_of_a_clause(words: str, width: int) -> None:
    shown = fitting(words, width)
    assert words.startswith(shown)
    assert cell_len(shown) <= width or not any(char in ",.:;" for char in words[: width + 1])


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_the_demo_says_first_how_it_ends(width: int) -> None:
    assert fitting(HINT, width - 3).startswith("q ends the demo")


async def test_a_notice_hides_nothing(play: Play, root: Path) -> None:
    async with play(root, size=SMALL, hint=lambda runs, cursor: HINT) as pilot:
        before = still_lines_of(pilot.app)
        await press(pilot, "y", "y")
        await until_shown(pilot, "clipboard")
        during = still_lines_of(pilot.app)
        assert "r resume" in during[-1] and "q quit" in during[-1] and "q ends the demo" in during[-2]
        rule = next(at for at, line in enumerate(before) if line.startswith("───"))
        said = [at for at, line in enumerate(during) if line and line not in before]
        assert said and during[rule:] == before[rule:]  # the pane and the bars stand where they stood
        assert during[: said[0]] == before[: said[0]] and not any(before[at] for at in said)  # in the list's free lines
        await until(pilot, lambda: still_lines_of(pilot.app) == before, "the notice gone")


async def test_notices_gather_and_an_older_one_gives_way(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        for number in range(9):
            pilot.app.notify(f"[red]{number}[/x]", title="word\x1b[31m" if number == 8 else "", timeout=30)
        await until_shown(pilot, "[red]8[/x]")
        lines = lines_of(pilot.app)
        assert [line for line in lines if "[/x]" in line] == [
            *(f" · [red]{number}[/x]" for number in (5, 6, 7)), " · word\\x1b[31m  [red]8[/x]"
        ]  # fmt: skip
        at = next(number for number, line in enumerate(lines) if "[red]8" in line)
        await pilot.click("#announcements", offset=(5, 3))
        await until(pilot, lambda: "[red]8" not in text_of(pilot.app), "the clicked one gone")
        assert "[red]4" in text_of(pilot.app) and at
        pilot.app.clear_notifications()
        await until(pilot, lambda: "[red]" not in text_of(pilot.app), "all gone")


async def test_a_notice_under_a_dialog_waits_for_it(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "question_mark")
        pilot.app.notify("something happened", timeout=2.5)
        await pilot.pause(2.6)
        pilot.app.pop_screen()
        await until_shown(pilot, "something happened")
        await until(pilot, lambda: "something happened" not in text_of(pilot.app), "gone then")


async def test_news_of_a_run_goes_along_to_the_next_page(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        pilot.app.notify("", title="said in the list", timeout=60, everywhere=True)
        await until_shown(pilot, "said in the list")
        for key in ("enter", "escape", "D", "escape", "l"):
            await press(pilot, key)
            await until(pilot, lambda: text_of(pilot.app).count("said in the list") == 1, key)
        pilot.app.clear_notifications()
        await press(pilot, "escape")
        await until(pilot, lambda: pilot.app.screen.PLACE == "list" and "r resume" in text_of(pilot.app), "the list")
        assert "said in the list" not in text_of(pilot.app)


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_the_palette_is_in_groups_with_the_keys(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root, size=size) as pilot:
        await press(pilot, "ctrl+p")
        await until_shown(pilot, "this run   r     Resume")

        def rows() -> list[str]:
            lines = [line.partition("│")[2] for line in lines_of(pilot.app)]
            return [line for line in lines if re.match(r" (this run|the list|) +\S+ +[A-Z]", line)]

        await until(pilot, lambda: len(rows()) >= 12, "each on one line")
        assert [row.split()[0] for row in rows() if row[1] != " "][:2] == ["this", "the"]
        assert "what to do, a run, a theme" in text_of(pilot.app) and "Search for" not in text_of(pilot.app)
        await press(pilot, *"disk")
        await until_shown(pilot, "the list   D     Disk")
        await press(pilot, "enter")
        await until_shown(pilot, "of each run and stage")


async def test_the_help_says_how_it_scrolls_and_how_far_it_is(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "question_mark")
        await until_shown(pilot, "tab heading  g G ends  esc back  0 %")
        await press(pilot, "j", "j", "space")
        await until(pilot, lambda: re.search(r"esc back  [1-9][0-9]? %", text_of(pilot.app)), "further")
        await press(pilot, "G")
        await until_shown(pilot, "esc back  100 %")
        assert "The disk" in text_of(pilot.app)
        await press(pilot, "g")
        await until_shown(pilot, "esc back  0 %")
        for heading in ("On every page", "States", "Elsewhere"):
            await press(pilot, "tab")
            if heading != "Elsewhere":  # there is less below it than a screen
                await until(pilot, lambda one=heading: one in lines_of(pilot.app)[3], heading)
        await press(pilot, "shift+tab", "shift+tab")
        await until(pilot, lambda: "On every page" in lines_of(pilot.app)[3], "back")
        await pilot.resize_terminal(200, 200)
        await until(pilot, lambda: "j k line" not in text_of(pilot.app), "all of it, nothing to scroll")


@pytest.mark.parametrize(
    "places", [(place,) for place in keys.PLACES if place != keys.EVERYWHERE] + [(keys.CURVE, keys.RUN)]
)
def test_the_help_begins_with_the_page_and_names_no_key_twice(places: tuple[str, ...]) -> None:
    own, others = sections(places)
    said = [key.id for _, found in (*own, *others) for key in found]
    assert len(said) == len(set(said))
    here = {key.id for key in keys.of_places(places)}
    assert {key.id for _, found in own for key in found} == here
    assert here.isdisjoint(key.id for _, found in others for key in found)
    missing = {key.id for key in keys.TABLE} - set(said)
    assert missing <= set(keys.COMMON)  # such as "up and down" for a page that has no rows
    assert own[0][0] == keys.PLACES[places[0]] and own[-1][0] == "On every page"
    assert all(key.name for _, found in others for key in found)


async def test_the_help_of_the_list_fits_on_six_small_screens(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "question_mark")
        scroll = pilot.app.screen.query_one("#words", VerticalScroll)
        await until(pilot, lambda: scroll.max_scroll_y > 0, "laid out")
        assert scroll.virtual_size.height < 6 * scroll.size.height


@pytest.mark.parametrize("place", keys.PLACES)
def test_at_80_columns_the_palette_says_whole_clauses(place: str) -> None:
    room = int(80 * 0.96) - 5 - 11 - 6 - 20 - 1
    for key in (key for key in keys.of_place(place) if keys.commands(key)):
        brief = _brief(key.help, room)
        assert brief and cell_len(brief) <= room, key.id
        assert key.help[len(brief) :].startswith((",", ".", ":", ";", " and ")) or brief == key.help, key.id
        assert all(cell_len(name) <= 20 for name, _ in keys.commands(key)), key.id


async def test_the_bar_names_the_palette_beside_the_help_where_there_is_room(play: Play, root: Path) -> None:
    async with play(root, size=LARGE) as pilot:
        await until(pilot, lambda: lines_of(pilot.app)[-1].endswith("^p commands  ? help  q quit"), "the palette's key")
        await pilot.resize_terminal(*SMALL)
        await until(pilot, lambda: lines_of(pilot.app)[-1].endswith("? help  q quit"), "the bar on 80 cells")
