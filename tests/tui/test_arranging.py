"""Thousands of runs are put in order beside the loop: what stands meanwhile, what is dropped, where the cursor is."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.pilot import Pilot

from lavender_tui.model.run import Lineage, Run
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.arranging import AT_ONCE, Arranged, Arranger, ArrangingFailed
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.lineup import Lineup, arrange
from lavender_tui.tui.listing import SORTINGS, Sorting, View
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.widgets.run_table import RunTable
from lavender_tui.watch.observe import Snapshot
from tests.model.build import checkpoint, run
from tests.tui.conftest import lines_of, press, text_of, until, until_shown

MANY = AT_ONCE + 100
NOW = 1_800_000_000.0
BY_WORLD = next(one for one in SORTINGS if one.name == "world_size")


def many(count: int = MANY) -> tuple[Run, ...]:
    """Newest first; the newest has the most ranks."""
    return tuple(
        run(f"run-2026-01-{1 + at // 1000:02d}_{at // 60 % 24:02d}-{at % 60:02d}-00", world_size=at + 1)
        for at in reversed(range(count))
    )


class Gate:
    """A way to sort that doesn't come to its end before it is opened."""

    def __init__(self) -> None:
        self.is_reached, self.opened = threading.Event(), threading.Event()

    def open(self) -> None:
        self.opened.set()

    def sorting(self, name: str = "held") -> Sorting:
        def key(one: Run) -> Any:
            self.is_reached.set()
            assert self.opened.wait(30)
            return one.world_size

        return Sorting(name, "world", key)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open()


# The order itself


@st.composite
def runs_and_views(draw: st.DrawFn) -> tuple[list[Run], list[View]]:
    count = draw(st.integers(0, 12))
    runs = [
        run(
            f"run-2026-01-01_00-00-{at:02d}",
            checkpoint(save_count=draw(st.integers(1, 3)), loss=draw(st.sampled_from([1.0, 2.5]))),
            world_size=draw(st.sampled_from([None, 1, 2])),
            last_save_at=draw(st.sampled_from([None, NOW - 60, NOW - 7200])),
            resumed_from=draw(st.sampled_from([None, Lineage(run=f"/runs/run-2026-01-01_00-00-{at // 2:02d}")])),
        )
        for at in range(count)
    ]
    folded = st.frozensets(st.sampled_from([one.key for one in runs]), max_size=2) if runs else st.just(frozenset())
    typed = st.sampled_from(
        ["", "r", "ru", "run", "run-2", "RU", "r loss<2", "run loss<2", "run loss<", "!run", "u|x", "saved<1h", "pre",
         "pretrain", "loss<2 saved<1h", "r.n", "state:idle r"]
    )  # fmt: skip
    views = st.builds(View, st.sampled_from(SORTINGS), st.booleans(), typed, folded, st.booleans())
    return runs, draw(st.lists(views, min_size=1, max_size=6))


@given(runs_and_views())
@settings(max_examples=150, deadline=None)
def test_what_was_worked_out_before_changes_no_order(given_: tuple[list[Run], list[View]]) -> None:
    """One lineup that is asked for one view after another says what a fresh one says of each."""
    runs, views = given_
    lineup = Lineup(runs)
    for at, view in enumerate(views):
        now = NOW + 3000.0 * at
        assert lineup.rows(view, now) == arrange(runs, view, now)


def test_an_abandoned_order_leaves_nothing_wrong_behind() -> None:
    runs, view = many(2_000), View(sorting=BY_WORLD, query="run-2026-01-01 world>3")
    lineup, left = Lineup(runs), [0]

    def pause() -> None:
        left[0] -= 1
        if left[0] == 0:
            raise TimeoutError

    for pieces in range(1, 40):
        left[0] = pieces
        try:
            assert lineup.rows(view, NOW, pause) == arrange(runs, view, NOW)
            return
        except TimeoutError:
            continue
    pytest.fail("it never came to its end")


# The thread


@pytest.fixture
def asked() -> Iterator[tuple[Arranger, queue.Queue[Any]]]:
    posted: queue.Queue[Any] = queue.Queue()
    arranger = Arranger(posted.put)
    yield arranger, posted
    arranger.close()


def test_few_runs_are_arranged_at_once(asked: tuple[Arranger, queue.Queue[Any]]) -> None:
    arranger, posted = asked
    answer = arranger.ask(many(AT_ONCE), View())
    assert answer is not None and len(answer.rows) == AT_ONCE and posted.empty()
    assert arranger.is_busy and arranger.takes(answer.sequence) and not arranger.is_busy


def test_of_many_questions_only_the_newest_is_answered(asked: tuple[Arranger, queue.Queue[Any]], gate: Gate) -> None:
    arranger, posted = asked
    runs = many()
    assert arranger.ask(runs, View(sorting=gate.sorting())) is None
    assert gate.is_reached.wait(30)
    for query in ("r", "ru", "run"):
        assert arranger.ask(runs, View(query=query)) is None
    gate.open()
    answer = posted.get(timeout=30)
    assert isinstance(answer, Arranged) and answer.arrangement.view.query == "run"
    assert arranger.takes(answer.arrangement.sequence) and not arranger.is_busy
    assert not arranger.takes(answer.arrangement.sequence), "each is taken once"
    assert posted.empty()


def test_an_answer_that_a_newer_question_overtook_is_late(asked: tuple[Arranger, queue.Queue[Any]]) -> None:
    arranger, posted = asked
    runs = many()
    arranger.ask(runs, View())
    old = posted.get(timeout=30).arrangement
    arranger.ask(runs, View(query="run"))
    assert not arranger.takes(old.sequence) and arranger.is_busy
    few = arranger.ask(runs[:3], View(query="run"))
    assert few is not None and arranger.takes(few.sequence)
    while not posted.empty():  # it may have been whole before the list became short
        assert not arranger.takes(posted.get().arrangement.sequence)


def test_runs_that_change_all_the_time_do_not_put_off_their_order(
    asked: tuple[Arranger, queue.Queue[Any]], gate: Gate
) -> None:
    arranger, posted = asked
    runs, view = many(), View(sorting=gate.sorting())
    arranger.ask(runs, view)
    assert gate.is_reached.wait(30)
    changed = (replace(runs[0], world_size=MANY + 1), *runs[1:])
    arranger.ask(changed, view)
    gate.open()
    first, second = (posted.get(timeout=30).arrangement for _ in range(2))
    assert first.rows[-1].run is runs[0] and arranger.takes(first.sequence) and arranger.is_busy
    assert second.rows[-1].run is changed[0] and arranger.takes(second.sequence) and not arranger.is_busy


def test_an_order_that_fails_is_told_and_the_next_one_comes(asked: tuple[Arranger, queue.Queue[Any]]) -> None:
    arranger, posted = asked
    runs = many()
    arranger.ask(runs, View(sorting=Sorting("odd", "name", lambda one: [1, "a"][runs.index(one) % 2])))
    failed = posted.get(timeout=30)
    assert isinstance(failed, ArrangingFailed) and "TypeError" in failed.reason and arranger.takes(failed.sequence)
    arranger.ask(runs, View())
    assert len(posted.get(timeout=30).arrangement.rows) == MANY


def test_closed_in_the_middle_it_posts_nothing_and_its_thread_ends(gate: Gate) -> None:
    posted: queue.Queue[Any] = queue.Queue()
    arranger = Arranger(posted.put)
    arranger.ask(many(), View(sorting=gate.sorting()))
    assert gate.is_reached.wait(30)
    arranger.close()
    gate.open()
    assert arranger._thread is not None
    arranger._thread.join(30)
    assert not arranger._thread.is_alive() and posted.empty()


# In the app


@asynccontextmanager
async def listed(runs: tuple[Run, ...]) -> AsyncIterator[tuple[Pilot[Any], RunsScreen, RunTable]]:
    """The app on runs that are given to it, all in order."""
    app = LavenderApp(["/runs"])
    app.feed.close()
    async with app.run_test(size=(120, 40)) as pilot:
        tell(app, runs, 1)
        screen = app.screen_stack[0]
        assert isinstance(screen, RunsScreen)
        table = screen.query_one(RunTable)
        await until(pilot, lambda: len(table.keys) == len(runs), "the first order")
        yield pilot, screen, table


def tell(app: LavenderApp, runs: tuple[Run, ...], sequence: int, changed: frozenset[str] = frozenset()) -> None:
    shown = Snapshot(runs=runs, sequence=sequence, mode="inotify", notes=(), scanned_at=NOW, changed=changed)
    app.post_message(RunsChanged(shown))


async def test_the_rows_before_stand_until_the_new_ones_are_whole(gate: Gate) -> None:
    runs = many()
    async with listed(runs) as (pilot, screen, table):
        await press(pilot, "j", "j")
        before, chosen = list(table.keys), table.cursor_key
        screen.view = View(sorting=gate.sorting())
        await until(pilot, gate.is_reached.is_set, "the thread at work")
        await press(pilot, "j", "k", "space")
        assert list(table.keys) == before and "RUN ↓" in text_of(pilot.app), "neither rows nor arrow have changed"
        assert chosen in screen.marked and table.cursor_index == 3
        gate.open()
        await until(pilot, lambda: list(table.keys) != before, "the new order")
        assert list(table.keys) == [one.key for one in sorted(runs, key=lambda one: one.world_size or 0)]
        assert table.cursor_key == before[3], "the cursor stays on its run"
        await until(pilot, lambda: "RUN ↓" not in text_of(pilot.app), "the arrow in its new place")


async def test_a_filter_typed_while_rows_are_put_in_order(gate: Gate) -> None:
    runs = many()
    async with listed(runs) as (pilot, screen, table):
        shown: list[list[str]] = []
        show = table.show
        table.show = lambda *args: (shown.append(args[0].keys), show(*args))[1]  # type: ignore[method-assign,func-returns-value]
        screen.view = View(sorting=gate.sorting())
        await until(pilot, gate.is_reached.is_set, "the thread at work")
        await press(pilot, "slash", *"world<4")
        assert "world<4" in text_of(pilot.app) and len(table.keys) == MANY, "keys are taken, the rows wait"
        gate.open()
        await until(pilot, lambda: len(table.keys) == 3, "those that match")
        assert [len(keys) for keys in shown] == [3], "what was asked for before is never shown"
        assert table.keys == [one.key for one in reversed(runs[-3:])]


async def test_quitting_does_not_wait_for_an_order(gate: Gate) -> None:
    async with listed(many()) as (pilot, screen, _):
        screen.view = View(sorting=gate.sorting())
        await until(pilot, gate.is_reached.is_set, "the thread at work")
        begun = time.monotonic()
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running or pilot.app._exit, "the end")
    assert time.monotonic() - begun < 25 and not gate.opened.is_set()


async def test_news_that_come_while_rows_are_put_in_order_are_in_them(gate: Gate) -> None:
    runs = many()
    async with listed(runs) as (pilot, screen, table):
        screen.view = View(sorting=gate.sorting())
        await until(pilot, gate.is_reached.is_set, "the thread at work")
        new = run("run-2026-12-01_00-00-00", world_size=0)
        tell(pilot.app, (new, *runs), 2, frozenset({new.key}))
        await until_shown(pilot, f"{MANY + 1:,} runs")  # the counts don't wait
        gate.open()
        await until(pilot, lambda: len(table.keys) == MANY + 1, "the new run")
        assert table.keys[0] == new.key


@pytest.mark.parametrize("count", [3, MANY])
async def test_keys_move_the_cursor_of_runs_that_came_late(count: int) -> None:
    """While there is nothing to list, what says so stands in the table's place."""
    app = LavenderApp(["/runs"])
    app.feed.close()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = app.screen_stack[0]
        await until(pilot, lambda: screen.has_class("-empty") and screen.focused is None, "that it is looking")
        tell(app, many(count), 1)
        table = screen.query_one(RunTable)
        await until(pilot, lambda: table.has_focus and len(table.keys) == count, "the table with the keys")
        before = table.cursor_index
        await press(pilot, "j")
        assert table.cursor_index == before + 1


async def test_no_match_is_said_where_the_rows_were() -> None:
    async with listed(many()) as (pilot, _, table):
        columns = lines_of(pilot.app)[2].split()
        await press(pilot, "slash", *"zz[/x]")
        await until_shown(pilot, "No run matches zz[/x]")
        assert not table.keys and lines_of(pilot.app)[2].split() == columns != []
        await press(pilot, "escape")
        await until(pilot, lambda: len(table.keys) == MANY, "all of them again")
