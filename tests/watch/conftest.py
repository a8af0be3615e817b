"""Watchers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.watch.observe import Watcher
from tests.watch.watching import Seen


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
def watch(seen: Seen) -> Iterator[Callable[..., Watcher]]:
    watchers: list[Watcher] = []

    def begin(*roots: Path, **settings: float) -> Watcher:
        watcher = Watcher([str(root) for root in roots], seen, **settings)
        watchers.append(watcher)
        watcher.start()
        return watcher

    yield begin
    for watcher in watchers:
        watcher.close()
        watcher.join(10)
