"""10,000 runs: what a key costs, what one changed run costs, and how long the first list takes.

Times are of the processor, of the thread that the loop runs in: what other programs on the machine do isn't in them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events
from textual.keys import _character_to_key as character_to_key

from lavender_tui.model.checkpoint import Checkpoint, FileFacts, Wholeness
from lavender_tui.model.run import EndFacts, Lineage, LossPoint, Run, RunState
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.feed import RunsChanged
from lavender_tui.tui.widgets.run_table import RunTable
from lavender_tui.watch.index import Index
from lavender_tui.watch.observe import Snapshot
from lavender_tui.watch.scan import scan

MANY = 10_000
GOAL_MS = 30.0
NOW = time.time()
KEYS = ["j"] * 60 + ["k"] * 20 + ["pagedown"] * 25 + ["pageup"] * 10 + ["G", "g"] * 5 + ["ctrl+d"] * 10 + ["space"] * 10
SHAPES = ["s"] * 24 + ["S"] * 10 + ["t"] * 10 + ["left"] * 10
CURVE = tuple(LossPoint(step=step, loss=3.0 - step / 100) for step in range(100))
TYPED = "state:failed loss<2"  # then deleted, letter by letter

pytestmark = pytest.mark.bench


def a_run(number: int) -> Run:
    """One in four was resumed from the run before; every state, ten saves, a curve of 100 points."""
    started = NOW - 60.0 * (MANY - number)
    name = time.strftime("run-%Y-%m-%d_%H-%M-%S", time.localtime(started))
    path = f"/runs/{name}-{number}"
    state = list(RunState)[number % 6]
    saves = tuple(
        Checkpoint(
            path=f"{path}/pretrain-00-00-00-{count:04d}.pt",
            format="lavender",
            facts=FileFacts(dev=1, inode=number * 10 + count, size_bytes=4096, mtime_ns=int(started * 1e9), ctime_ns=0),
            wholeness=Wholeness.WHOLE,
            name_stage="pretrain",
            name_save_count=count,
            save_count=count,
            stage="pretrain",
            epoch=1,
            epochs=3,
            step=100 * count,
            loss=3.0 - (number % 200) / 100,
            world_size=4,
        )
        for count in range(1, 11)
    )
    return Run(
        path=path,
        root="/runs",
        name=name,
        format="lavender",
        state=state,
        state_reason=f"as run {number} is",
        checkpoints=saves,
        newest=saves[-1],
        started_at=started,
        last_save_at=started + 10,
        world_size=4,
        resumed_from=Lineage(run=a_path(number - 1)) if number % 4 == 3 else None,
        end=EndFacts(exit_code=1) if state is RunState.FAILED else None,
        losses=CURVE,
    )


def a_path(number: int) -> str:
    started = NOW - 60.0 * (MANY - number)
    return f"/runs/{time.strftime('run-%Y-%m-%d_%H-%M-%S', time.localtime(started))}-{number}"


@pytest.fixture(scope="module")
def runs() -> tuple[Run, ...]:
    return tuple(a_run(number) for number in reversed(range(MANY)))


def snapshot(runs: tuple[Run, ...], sequence: int, changed: frozenset[str] = frozenset()) -> Snapshot:
    return Snapshot(runs=runs, sequence=sequence, mode="inotify", notes=(), scanned_at=NOW, changed=changed)


class Loop:
    """The app on these runs, and what its loop is at."""

    def __init__(self, app: LavenderApp, pilot) -> None:
        self.app, self.pilot = app, pilot
        self.begun, self.painted_ms = 0.0, list[float]()

    def watch_rows(self) -> None:
        """Note from now on how long after the key its new rows were on the screen, by the clock."""
        table = self.app.screen.query_one(RunTable)
        show = table.show

        def shown(*args) -> None:
            begun = self.begun
            show(*args)
            table.call_after_refresh(lambda: self.painted_ms.append((time.perf_counter() - begun) * 1000))

        table.show = shown  # type: ignore[method-assign]

    async def cost_ms(self, act: Callable[[], object]) -> float:
        """Loop time from an act until all that follows from it is handled and painted, in milliseconds."""
        await self.rest()
        self.begun, begun = time.perf_counter(), time.thread_time()
        act()
        await self.rest()
        return (time.thread_time() - begun) * 1000

    async def rest(self) -> None:
        """Until all is handled and painted, an order that a thread works out too."""
        await self.pilot.pause()
        while self.app.screen_stack[0]._arranger.is_busy:
            await asyncio.sleep(0.02)
        await self.pilot.pause()

    async def key_ms(self, key: str, character: str | None = None) -> float:
        character = key if len(key) == 1 else character
        return await self.cost_ms(lambda: self.app.post_message(events.Key(key, character)))


@contextmanager
def without_feed(app: LavenderApp) -> Iterator[None]:
    """No watcher: the runs are given."""
    app.feed.close()
    yield


def told(what: str, costs: list[float]) -> tuple[float, str]:
    ordered = sorted(costs)
    p99 = ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
    middle, worst = ordered[len(ordered) // 2], ordered[-1]
    return p99, f"{what}: p50 {middle:.1f} ms, p99 {p99:.1f} ms, worst {worst:.1f} ms over {len(ordered)}"


async def play(runs: tuple[Run, ...], part: Callable) -> None:
    app = LavenderApp(["/runs"])
    with without_feed(app):
        async with app.run_test(size=(120, 40)) as pilot:
            loop = Loop(app, pilot)
            first = await loop.cost_ms(lambda: app.post_message(RunsChanged(snapshot(runs, 1))))
            print(f"\nfirst list of {len(runs):,} runs: {first:.0f} ms")
            await part(loop)


def test_key_to_paint(runs: tuple[Run, ...], record_property) -> None:
    async def part(loop: Loop) -> None:
        costs: dict[str, list[float]] = {}
        await asyncio.sleep(0.5)
        idle = min([await loop.cost_ms(lambda: None) for _ in range(5)])
        for key in KEYS:
            costs.setdefault(key, []).append(await loop.key_ms(key) - idle)
        loop.watch_rows()
        for key in SHAPES:
            costs.setdefault(key, []).append(await loop.key_ms(key) - idle)
        await loop.key_ms("slash", "/")
        for letter in TYPED:
            costs.setdefault("typed", []).append(await loop.key_ms(character_to_key(letter), letter) - idle)
        for _ in TYPED:
            costs.setdefault("backspace", []).append(await loop.key_ms("backspace") - idle)
        for key, found in costs.items():
            print(told(f"  {key}", found)[1])
        p99, words = told("key to paint, 10,000 runs", [one for found in costs.values() for one in found])
        moves = [one for key, found in costs.items() if key in KEYS for one in found]
        record_property("key_to_paint", words)
        _, words_moves = told("of these the cursor's and marks", moves)
        record_property("cursor_to_paint", words_moves)
        print(words, words_moves, sep="\n")
        _, words_painted = told("a new order or a letter on the screen, by the clock", loop.painted_ms)
        record_property("rows_on_the_screen", words_painted)
        print(words_painted)
        assert p99 < GOAL_MS, words

    asyncio.run(play(runs, part))


def test_one_changed_run_a_tick(runs: tuple[Run, ...], record_property) -> None:
    async def part(loop: Loop) -> None:
        now, costs = list(runs), []
        for tick in range(60):
            at = tick * 37 % 60 if tick % 2 else tick * 161 % MANY
            run = now[at]
            now[at] = replace(run, state_reason=f"changed {tick}", world_size=tick)
            shown = snapshot(tuple(now), 2 + tick, frozenset({run.path}))
            costs.append(await loop.cost_ms(lambda shown=shown: loop.app.post_message(RunsChanged(shown))))
        p99, words = told("one changed run of 10,000", costs)
        record_property("one_changed", words)
        print(words)
        assert p99 < GOAL_MS, words

    asyncio.run(play(runs, part))


def test_first_list_of_a_real_root(tmp_path: Path, record_property) -> None:
    for number in range(MANY):
        run = tmp_path / time.strftime("run-%Y-%m-%d_%H-%M-%S", time.gmtime(1_700_000_000 + 60 * number))
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"step": 1, "loss": 2.5}\n')
    from lavender_tui.tui.first_look import names_under

    begun, cpu = time.perf_counter(), time.thread_time()
    names = names_under([str(tmp_path)])
    named, named_cpu = time.perf_counter() - begun, time.thread_time() - cpu
    begun, cpu = time.perf_counter(), time.thread_time()
    found = scan([str(tmp_path)], index=Index())
    whole, whole_cpu = time.perf_counter() - begun, time.thread_time() - cpu
    words = (
        f"{len(names.runs):,} names in {named * 1000:.0f} ms ({named_cpu * 1000:.0f} ms of processor), "
        f"{len(found):,} runs listed in {whole:.2f} s ({whole_cpu:.2f} s of processor)"
    )
    record_property("first_list", words)
    print("\n" + words)
    assert len(names.runs) == len(found) == MANY
