"""The list: what it shows, how it changes while somebody looks, and that the cursor stays where it was put."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from lavender_tui.model.run import Run, RunState
from lavender_tui.tui import views
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.listing import SORTINGS, ListRow, View
from lavender_tui.tui.screens.ask import AskName
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.start import Look
from lavender_tui.tui.widgets.line_table import Cell
from lavender_tui.tui.widgets.run_table import KNOWN, RunTable
from lavender_tui.tui.widgets.top_bar import count_choices
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, lines_of, press, quiet, text_of, until, until_shown

FAILED, AGAIN = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07"


def table(pilot) -> RunTable:
    return pilot.app.screen_stack[0].query_one(RunTable)


@pytest.mark.parametrize("size", [SMALL, LARGE, (120, 40)], ids=str)
async def test_every_run_is_listed_with_its_state(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root, size=size) as pilot:
        lines = lines_of(pilot.app)
        rows = {name: next(line for line in lines[1:] if name in line) for name in (FAILED, AGAIN)}
        assert "✗ failed" in rows[FAILED] and "0060" in rows[FAILED] and "2.4000" in rows[FAILED]
        assert "3 h ago" in rows[FAILED]
        assert f"└ {AGAIN}" in rows[AGAIN] and "■ stopped" in rows[AGAIN]
        assert any("✓ finished" in line for line in lines)
        assert "5 runs" in lines[0]
        assert max(map(len, lines)) <= size[0]


async def test_ages_grow_where_nothing_lives_and_nothing_is_written(play: Play, tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    runs.save(root / "run-2026-03-01_00-00-00", 1, age_seconds=112.0)
    async with play(root) as pilot:
        await until_shown(pilot, "2 min ago", seconds=60)


async def test_small_screens_drop_columns_and_cut_no_title(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        head = next(line for line in lines_of(pilot.app) if "STATE" in line)
        assert head.split() == ["RUN", "↓", "STATE", "EPOCH", "SAVES", "LOSS", "SAVED"]
        await pilot.resize_terminal(200, 60)
        await until_shown(pilot, "WHY")
        head = next(line for line in lines_of(pilot.app) if "STATE" in line)
        assert " ".join(head.split()) == "RUN ↓ STATE STAGE EPOCH SAVES LOSS TREND SAVED LEFT WORLD PID WHY"


@pytest.mark.parametrize("size", [(1, 1), (200, 2), (3, 100), (40, 10), (300, 60)], ids=str)
async def test_any_size_survives(play: Play, root: Path, size: tuple[int, int]) -> None:
    async with play(root) as pilot:
        for key in (None, "enter", "escape", "r", "escape", "question_mark"):
            if key:
                await press(pilot, key)
            await pilot.resize_terminal(*size)
            await pilot.pause(0.05)
            await pilot.resize_terminal(120, 40)
            await pilot.pause(0.05)
        assert pilot.app.is_running


async def test_the_pane_says_why_and_where_a_resume_starts(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        shown = text_of(pilot.app)
        assert "rank 2: out of memory" in shown
        assert "resumes from pretrain 0060" in shown
        assert "epoch 1, exactly where it stopped, after 960 rows" in shown
        assert "world_size 4 → 1 2 4 8" in shown
        assert f"resumed as {AGAIN}" in shown
        await press(pilot, "j", "j")
        await until_shown(pilot, "passed over")
        assert "0019.pt" in text_of(pilot.app)


async def test_a_new_save_changes_its_row_and_the_cursor_stays(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "j", "j")
        under = table(pilot).cursor_key
        runs.save(root / AGAIN, 5, loss=2.1111, each=140, world_size=2, age_seconds=0)
        await until_shown(pilot, "2.1111")
        assert table(pilot).cursor_key == under
        row = next(line for line in lines_of(pilot.app)[2:] if f"└ {AGAIN}" in line)
        assert "0005" in row


async def test_a_new_run_above_the_cursor_moves_the_row_and_not_the_choice(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "G")
        under = table(pilot).cursor_key
        runs.save(root / "run-2026-05-01_00-00-00", 1, loss=3.3333)
        await until_shown(pilot, "run-2026-05-01_00-00-00")
        assert table(pilot).cursor_key == under
        shutil.rmtree(root / "run-2026-05-01_00-00-00")
        await until(pilot, lambda: "run-2026-05-01_00-00-00" not in text_of(pilot.app), "the run to go")
        assert table(pilot).cursor_key == under


async def test_the_cursor_goes_where_keys_and_clicks_say(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        keys = list(table(pilot).keys)
        for pressed, index in (("j", 1), ("down", 2), ("k", 1), ("G", 4), ("g", 0), ("ctrl+d", 4), ("ctrl+u", 0)):
            await press(pilot, pressed)
            assert table(pilot).cursor_key == keys[index], pressed
        await pilot.click(RunTable, offset=(8, 4))
        assert table(pilot).cursor_key == keys[2]


async def test_sorting_keeps_the_choice_and_marks_the_column(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        under = table(pilot).cursor_key
        await press(pilot, "s")
        assert any("STATE ↑" in line for line in lines_of(pilot.app))
        await press(pilot, "s", "s", "s", "s")
        assert any("LOSS ↑" in line for line in lines_of(pilot.app))
        order = [key.rsplit("/", 1)[-1] for key in table(pilot).keys]
        assert order[0] == "run-2026-04-20_22-41-55" and order[-1] == "run-2026-04-18_08-00-00"
        await press(pilot, "S")
        assert any("LOSS ↓" in line for line in lines_of(pilot.app))
        assert [key.rsplit("/", 1)[-1] for key in table(pilot).keys][-1] == "run-2026-04-18_08-00-00", "unknown: last"
        assert table(pilot).cursor_key == under


@pytest.mark.parametrize("marks", ["↓↑", "v^"], ids=["usual", "ascii"])
async def test_every_sorted_column_is_seen_with_a_mark_apart(play: Play, root: Path, marks: str) -> None:
    async with play(root, size=SMALL, look=Look(columns=KNOWN, ascii=marks.isascii())) as pilot:
        for size in (SMALL, (60, 20), LARGE):
            await pilot.resize_terminal(*size)
            for sorting in SORTINGS:
                title = next(column.title for column in table(pilot).columns() if column.key == sorting.column)
                for is_reversed in (False, True):
                    pilot.app.screen.view = View(sorting=sorting, is_reversed=is_reversed)
                    await until_shown(pilot, f"{title} {marks[sorting.newest_first == is_reversed]}")


async def test_filter_by_text_pattern_and_its_inverse(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        for typed, count in (("sft", 1), ("FAILED", 1), ("2[05]_", 2), ("!idle", 3), ("[", 0)):
            await press(pilot, "slash")
            pilot.app.screen.query_one("#filter").value = typed
            await until(pilot, lambda count=count: len(table(pilot).keys) == count, typed)
            await press(pilot, "enter", "escape")
            assert len(table(pilot).keys) == 5
        await press(pilot, "slash", *"zzz")
        await until_shown(pilot, "No run matches zzz")
        await press(pilot, "escape")
        assert len(table(pilot).keys) == 5 and not pilot.app.screen.has_class("-filtering")


async def test_fold_hides_the_lineage_and_flat_has_none(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "left")
        assert f"▸ {FAILED}" in text_of(pilot.app) and len(table(pilot).keys) == 4
        await press(pilot, "right")
        assert f"└ {AGAIN}" in text_of(pilot.app)
        await press(pilot, "t")
        assert "└" not in text_of(pilot.app).split("───")[0] and len(table(pilot).keys) == 5


async def test_a_query_is_completed_and_kept(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "slash", *"sta", "tab")
        line = pilot.app.screen.query_one("#filter")
        assert line.value == "state:"
        await press(pilot, *"fa", "tab")
        assert line.value == "state:failed" and [key.rsplit("/", 1)[-1] for key in table(pilot).keys] == [FAILED]
        await press(pilot, "enter", "slash")
        assert pilot.app.screen.query_one("#filter").value == "state:failed"
        await press(pilot, *" loss<1")
        assert not table(pilot).keys


async def test_views_are_saved_and_gone_through(play: Play, root: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    async with play(root, look=Look(views=("sft: stage=sft",))) as pilot:
        await press(pilot, "slash", *"loss<1", "enter", "V")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskName), "the question")
        await press(pilot, *"good", "enter")
        await until(pilot, lambda: "good" in pilot.app.screen_stack[0]._views, "the views with it")
        await until_shown(pilot, "Saved good")
        await press(pilot, "escape")
        for query in ("stage=sft", "loss<1", ""):
            await press(pilot, "v")
            assert pilot.app.screen.view.query == query
    async with play(root) as pilot:  # it is there the next time
        await until(pilot, lambda: pilot.app.screen._views, "the views read")
        await press(pilot, "v")
        assert pilot.app.screen.view.query == "loss<1"


async def test_a_view_is_the_filter_that_was_to_be_saved(play: Play, root: Path) -> None:
    """Also where a launched run, which isn't among those asked for, clears it while the name is being typed."""
    async with play(root) as pilot:
        await press(pilot, "slash", *"loss<1", "enter", "V")
        await until(pilot, lambda: isinstance(pilot.app.screen, AskName), "the question")
        await pilot.app.screen_stack[0].action_clear_filter()
        await press(pilot, *"good", "enter")
        await until_shown(pilot, "Saved good")
        assert views.load() == {"good": "loss<1"}


def test_views_that_are_saved_at_once_are_all_there() -> None:
    threads = [threading.Thread(target=views.save, args=(f"view {at}", f"loss<{at}")) for at in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert views.load() == {f"view {at}": f"loss<{at}" for at in range(8)}


async def test_columns_come_from_the_settings_in_their_order(play: Play, root: Path) -> None:
    async with play(root, look=Look(columns=("loss", "state", "step", "no such", "host"))) as pilot:
        head = next(line for line in lines_of(pilot.app) if "RUN" in line)
        assert head.split() == ["RUN", "↓", "LOSS", "STATE", "STEP", "HOST"]
        await press(pilot, "s")
        assert any("LOSS ↑" in line for line in lines_of(pilot.app))


@pytest.mark.parametrize("size", [SMALL, (120, 40)], ids=str)
async def test_clocks_that_differ_are_said_in_both_tables(play: Play, root: Path, size: tuple[int, int]) -> None:
    run = root / "run-2026-05-01_00-00-00"
    for count, seconds in ((1, time.time()), (2, -7200.0), (3, -5400.0)):
        runs.save(run, count, age_seconds=seconds)
    async with play(root, size=size) as pilot:
        row = next(line for line in lines_of(pilot.app)[1:] if run.name in line)
        assert "clock differs" in row and "0003" in row
        await press(pilot, "enter", "2")
        await until(pilot, lambda: text_of(pilot.app).count("clock differs") >= 2, "both odd ones")
        shown = text_of(pilot.app)
        assert "in future" not in shown and "d a…" not in shown


async def test_copy_goes_to_the_terminal(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        await press(pilot, "y", "y")
        assert pilot.app.clipboard == str(root / FAILED)


async def test_no_runs_yet_is_friendly_and_ends_by_itself(play: Play, tmp_path: Path) -> None:
    missing = tmp_path / "checkpoints"
    async with play(missing) as pilot:
        await until_shown(pilot, "checkpoints doesn't exist")
        assert "lavender-tui demo" in text_of(pilot.app) and "No such file" not in text_of(pilot.app)
        await press(pilot, "r", "R", "x", "l", "enter", "y", "s", "space")
        assert isinstance(pilot.app.screen, RunsScreen)
        runs.save(missing / "run-2026-05-01_00-00-00", 1)
        await until_shown(pilot, "run-2026-05-01_00-00-00")


async def test_the_hint_is_shown_as_text(play: Play, root: Path) -> None:
    async with play(root, hint=lambda runs, cursor: "press r, then ⏎ [/x]") as pilot:
        assert "→ press r, then ⏎ [/x]" in text_of(pilot.app)


async def test_the_hint_knows_the_run_under_the_cursor(play: Play, root: Path) -> None:
    def hint(runs: Sequence[Run], cursor: Run | None) -> str:
        return f"newest {runs[0].name}, here {cursor.name}" if runs and cursor else ""

    async with play(root, size=SMALL, hint=hint) as pilot:
        newest = pilot.app.runs[0].name
        for _ in range(3):
            here = pilot.app.screen.cursor_run.name
            await until_shown(pilot, f"→ newest {newest}, here {here}")
            await press(pilot, "j")
            assert pilot.app.screen.cursor_run.name != here


def _run(number: int, loss: float = 1.0) -> Run:
    return Run(
        path=f"/r/run-{number:05d}", root="/r", name=f"run-{number:05d}", format="lavender", state=RunState.IDLE,
        state_reason="", checkpoints=(), newest=None, last_save_at=float(number), world_size=int(loss),
    )  # fmt: skip


class _Counting(RunTable):
    drawn = 0

    def _draw_row(self, *args):  # what a repaint of one line costs
        self.drawn += 1
        return super()._draw_row(*args)


class _TableApp(App[None]):
    CSS = "RunTable { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield _Counting()


async def test_only_changed_lines_are_drawn_again() -> None:
    async with _TableApp().run_test(size=(120, 40)) as pilot:
        table = pilot.app.query_one(_Counting)
        rows = [ListRow(_run(number)) for number in range(10_000)]
        table.set_rows(rows, View())
        await quiet(pilot)
        assert 30 <= table.drawn <= 60
        table.drawn = 0
        rows[5] = ListRow(_run(5, 7.0))
        table.set_rows(list(rows), View())
        await quiet(pilot)
        assert table.drawn == 1
        table.drawn = 0
        rows[9_000] = ListRow(_run(9_000, 7.0))
        table.set_rows(list(rows), View())
        await quiet(pilot)
        assert table.drawn == 0, "a row that is not on the screen costs nothing"
        await pilot.press("j")
        await quiet(pilot)
        assert table.drawn == 2, "the line the cursor left and the one it came to"


async def test_of_a_line_that_stays_only_the_changed_cells_are_painted() -> None:
    """Over ssh a line is half a kilobyte, and in a list at rest all that changes is an age here and there."""
    painted: list[tuple[int, int, int]] = []

    class Watched(_Counting):
        def refresh(self, *regions, **options):
            painted.extend((one.x, one.y, one.width) for one in regions)
            return super().refresh(*regions, **options)

    class Watching(App[None]):
        CSS = "RunTable { height: 1fr; }"

        def compose(self) -> ComposeResult:
            yield Watched()

    async with Watching().run_test(size=(120, 40)) as pilot:
        table = pilot.app.query_one(Watched)
        rows = [ListRow(_run(number)) for number in range(100)]
        table.set_rows(rows, View())
        await quiet(pilot)
        lines = [table.render_line(y).text for y in range(table.size.height)]
        painted.clear()
        rows[5] = rows[5]._replace(run=replace(rows[5].run, pid=4711))
        table.set_rows(list(rows), View())
        (cell,) = painted
        await quiet(pilot)
        after = [table.render_line(y).text for y in range(table.size.height)]
        assert [at for at, one in enumerate(lines) if one != after[at]] == [6]
        assert cell[1:] == (6, 7) and after[6][cell[0] : cell[0] + 7] == "   4711"


async def test_ten_thousand_rows_scroll() -> None:
    async with _TableApp().run_test(size=(120, 40)) as pilot:
        table = pilot.app.query_one(_Counting)
        table.set_rows([ListRow(_run(number)) for number in range(10_000)], View())
        await pilot.press("G")
        await quiet(pilot)
        assert table.cursor_key == "/r/run-09999"
        assert table.scroll_offset.y == 10_000 + 1 - table.size.height
        assert table.cells(9_999)["name"] == Cell("run-09999", elide="middle", lead="  ")
        await pilot.press("g")
        await quiet(pilot)
        assert table.scroll_offset.y == 0


async def test_the_cursor_is_back_on_its_run_when_a_filter_shows_that_again(play: Play, tmp_path: Path) -> None:
    """What is acted on is what it stands on; a letter more or less is no choice of another run."""
    root = tmp_path / "checkpoints"
    for number in range(9):
        runs.save(root / f"run-2026-03-01_00-0{number}-00", 1, epoch=number % 2 + 1, age_seconds=3600.0)
    async with play(root, size=SMALL) as pilot:
        await until(pilot, lambda: len(table(pilot).keys) == 9, "nine runs")
        await press(pilot, "g", "j", "j", "j")
        chosen = table(pilot).cursor_key
        assert chosen is not None and chosen.endswith("05-00")
        for query in ("epoch=1", "epoch=1x", "epoch=2"):
            pilot.app.screen.view = View(query=query)
            await quiet(pilot)
        assert table(pilot).cursor_key == chosen
        pilot.app.screen.view = View(query="epoch=1")
        await press(pilot, "j")
        other = table(pilot).cursor_key
        pilot.app.screen.view = View()
        await quiet(pilot)
        assert table(pilot).cursor_key == other != chosen


async def test_the_garbage_collector_works_again_with_the_first_rows(tmp_path) -> None:
    """It is off while the app starts; off for good, a watching app would grow."""
    import gc

    root = runs.small_root(tmp_path)
    gc.disable()
    try:
        app = LavenderApp([str(root)])
        async with app.run_test(size=(80, 24)) as pilot:
            for _ in range(200):
                if gc.isenabled():
                    break
                await pilot.pause(0.05)
            assert gc.isenabled()
    finally:
        gc.enable()


async def test_news_that_comes_while_the_app_ends_reaches_no_screen(play: Play, root: Path) -> None:
    async with play(root) as pilot:
        app, last = pilot.app, pilot.app.snapshot
    await app._dispatch_message(RunsChanged(replace(last, sequence=last.sequence + 100)))
    assert app.snapshot.sequence < last.sequence + 100


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_names_of_a_deep_chain_are_whole(play: Play, tmp_path: Path, size: tuple[int, int]) -> None:
    """Twelve generations and a branch: where branches leave a name no room, the depth is said in their place."""
    root, source = tmp_path / "runs", None
    for number in range(10, 23):
        run = root / f"run-2026-04-{number}_10-00-00"
        runs.launched(run, ["true"], source=source)
        source = run
    runs.launched(root / "run-2026-04-30_10-00-00", ["true"], source=root / "run-2026-04-16_10-00-00")
    async with play(root, size=size) as pilot:
        lines = lines_of(pilot.app)
        for number in (*range(10, 23), 30):
            assert any(f" run-2026-04-{number}_10-00-00 " in line for line in lines), number
        told = [line[: line.index("run-2026")] for line in lines if "_10-00-00 " in line and "run-2026" in line][:14]
        if size == SMALL:
            assert told[:5] == ["▌▾ ", "   └ ", "     └ ", "   ⋯3└ ", "   ⋯4└ "]
            assert told[7] == "   ⋯7├ " and told[12] == "  ⋯12└ " and told[13] == "   ⋯7└ "
        else:
            assert told[12] == " " * 15 + "│" + " " * 9 + "└ " and told[13] == " " * 15 + "└ "
        await press(pilot, "G", "space")
        await until_shown(pilot, "⋯7└◆run-2026-04-30_10-00-00" if size == SMALL else "└◆run-2026-04-30")


async def test_the_header_says_how_many_of_the_runs_are_shown_and_how_many_are_marked(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await until(pilot, lambda: "5 runs" in lines_of(pilot.app)[0], "all of them")
        await press(pilot, "slash", *"state:failed", "enter")
        await until(pilot, lambda: "1 of 5 runs  ✗ 1 failed" in lines_of(pilot.app)[0], "those that match")
        await press(pilot, "escape")
        await until(pilot, lambda: " 5 runs" in lines_of(pilot.app)[0] and " of " not in lines_of(pilot.app)[0], "all")
        await until(pilot, lambda: "␣ mark ↓" in lines_of(pilot.app)[-1], "the keys of the list")
        assert "c compare" not in lines_of(pilot.app)[-1]
        await press(pilot, "g", "space")
        await until(pilot, lambda: "◆ 1 marked" in lines_of(pilot.app)[0], "the mark is counted")
        await press(pilot, "space")
        await until(pilot, lambda: "◆ 2 marked" in lines_of(pilot.app)[0], "both are counted")
        await until(pilot, lambda: "c compare" in lines_of(pilot.app)[-1], "what two can be done with")


_TOTALS = st.lists(
    st.tuples(st.sampled_from(RunState), st.integers(1, 99_999)), unique_by=lambda one: one[0], min_size=1
)


@given(_TOTALS, st.integers(0, 9))
def test_no_word_of_the_header_is_cut_short(totals: list[tuple[RunState, int]], marked: int) -> None:
    whole = sum(count for _, count in totals)
    for spans in count_choices(totals, total=whole + 1, marked=marked):
        words = "".join(part for part, _ in spans)
        assert f"{whole:,} of {whole + 1:,} runs" in words and (f"{marked} marked" in words) == bool(marked)
        told = set(re.findall("[a-z]+", words)) - {"of", "runs", "marked"}
        assert told <= {state.value for state in RunState}


async def test_what_changed_in_news_that_newer_ones_replaced_is_shown(play: Play, root: Path) -> None:
    """On a busy loop a snapshot is replaced in the queue by the next one, which doesn't tell what that one changed."""
    async with play(root, size=LARGE) as pilot:
        last = pilot.app.snapshot
        *others, one, other = last.runs
        changed, also = replace(one, world_size=777), replace(other, world_size=778)
        first = replace(last, sequence=last.sequence + 1, runs=(*others, changed, other), changed=frozenset({one.key}))
        then = replace(last, sequence=last.sequence + 2, runs=(*others, changed, also), changed=frozenset({other.key}))
        for snapshot in (first, then):
            pilot.app.post_message(RunsChanged(snapshot))
        await until_shown(pilot, "778")
        assert "777" in text_of(pilot.app)
