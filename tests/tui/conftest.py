"""The real app on real directories: how the screens' tests start it, wait for it and read it."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.message_pump import MessagePump
from textual.pilot import Pilot

from lavender_tui.tui.app import LavenderApp
from tests.tui import runs

SMALL, LARGE = (80, 24), (200, 60)
CELL = 12.2  # the width of a cell in Textual's SVG
_TEXT = re.compile(r'<text[^>]*? x="([0-9.]+)"[^>]*?clip-path="url\(#[^"]*-line-(\d+)\)"[^>]*>(.*?)</text>', re.S)


def lines_of(app: LavenderApp) -> list[str]:
    """What is on the screen, line by line, from the picture that the app makes of itself."""
    width, height = app.size
    grid = [[" "] * width for _ in range(height)]
    for x, line, body in _TEXT.findall(app.export_screenshot()):
        words = html.unescape(body).replace("\xa0", " ")
        start = round(float(x) / CELL)
        for offset, char in enumerate(words):
            if int(line) < height and start + offset < width:
                grid[int(line)][start + offset] = char
    return ["".join(row).rstrip() for row in grid]


def still_lines_of(app: LavenderApp) -> list[str]:
    """The screen without its numbers: the clock and the ages go on while a test looks twice."""
    return [re.sub(r"[ <]*\d+( (?:s|min|h)\b)?", "0", line) for line in lines_of(app)]


def text_of(app: LavenderApp) -> str:
    return "\n".join(lines_of(app))


async def until(pilot: Pilot[Any], condition: Callable[[], object], what: str = "", seconds: float = 20.0) -> object:
    """Wait for a condition, the app running on; fails with what is on the screen."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"waited {seconds:g} s in vain for {what or condition}:\n{text_of(pilot.app)}")  # type: ignore[arg-type]
        await pilot.pause(0.02)
    return value


async def until_shown(pilot: Pilot[Any], words: str, seconds: float = 20.0) -> None:
    await until(pilot, lambda: words in text_of(pilot.app), repr(words), seconds)  # type: ignore[arg-type]


async def press(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
        await quiet(pilot)


async def quiet(pilot: Pilot[Any]) -> None:
    """Until no part of the app has been told anything for some turns of the loop, and what changed is laid out.

    Textual's pause ends when the process uses little time: also where a busy machine gives it none.
    """
    app = pilot.app
    for _ in range(2):
        left = 10
        for _ in range(5_000):
            if not left or not app.is_running:
                break
            await asyncio.sleep(0)
            is_typed_to = getattr(app, "is_typed_to", False)
            left = left - 1 if not is_typed_to and all(map(_is_at_rest, [app, *app._registry])) else 10
        if app.is_running and app.screen_stack:
            app.screen._on_timer_update()


def _is_at_rest(pump: MessagePump) -> bool:
    return not (pump.message_queue_size or pump._pending_message or pump._next_callbacks)


Play = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]


@pytest.fixture
def play() -> Play:
    """`async with play(root, size=…) as pilot`: the app, its list complete, the cursor on the first row.

    `as_opened`: the cursor where the app itself puts it.
    """

    @asynccontextmanager
    async def started(
        root: Path | Sequence[Path],
        *,
        size: tuple[int, int] = (120, 40),
        complete: bool = True,
        as_opened: bool = False,
        **options: Any,
    ) -> AsyncIterator[Pilot[Any]]:
        roots = [root] if isinstance(root, Path) else list(root)
        app = LavenderApp([str(one) for one in roots], **options)
        async with app.run_test(size=size, notifications=True) as pilot:
            if complete:
                await until(pilot, lambda: app.snapshot is not None and app.snapshot.is_complete, "all runs read")
                await pilot.pause()
                if not as_opened:
                    await press(pilot, "g")  # type: ignore[arg-type]
            yield pilot

    return started


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root of five runs."""
    return runs.small_root(tmp_path)


@pytest.fixture
def hostile_root(tmp_path: Path) -> Path:
    """The same, and a run for each hostile name."""
    return runs.small_root(tmp_path, hostile=True)


@pytest.fixture
def one_run(tmp_path: Path) -> Path:
    """A root with one failed run, which nothing was resumed from."""
    root, name = tmp_path / "checkpoints", "run-2026-04-24_18-53-41"
    for count in (58, 59, 60):
        runs.save(root / name, count, each=2 * count, age_seconds=3600 + 60 * (60 - count))
    runs.launched(root / name, runs.script(tmp_path))
    runs.ended(root / name, code=1)
    return root
