"""`lavender-tui watch [ROOT…] --on failed='COMMAND'`: a line for each piece of news, and a person's command for it."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lavender_tui.commands import places
from lavender_tui.commands.printing import put_line, say
from lavender_tui.errors import UsageError
from lavender_tui.launch import hooks
from lavender_tui.model import text
from lavender_tui.model.notices import Event, Notice, news
from lavender_tui.model.run import Run

if TYPE_CHECKING:
    from lavender_tui.watch.observe import Snapshot


def run(roots: Sequence[str], *, on: Sequence[str] = (), as_json: bool = False) -> int:
    commands = {**configured(), **asked(on)}
    named = places.resolve_roots(roots)
    from lavender_tui.watch.observe import Watcher

    changes: queue.Queue[Snapshot] = queue.Queue()
    watcher = Watcher(named, changes.put)
    watcher.start()
    try:
        before: dict[str, Run] | None = None
        while True:
            snapshot = changes.get()
            if not snapshot.is_complete:
                continue
            if before is None:
                alive = sum(one.is_alive for one in snapshot.runs)
                say(f"watching {', '.join(named)}: {text.plural(len(snapshot.runs), 'run')}, {alive} alive")
            for notice in news(before, snapshot.runs) if before is not None else ():
                _tell(notice, as_json)
                if command := commands.get(notice.event):
                    hooks.start(command, notice, say)
            before = {one.key: one for one in snapshot.runs}
    finally:
        watcher.close()


def configured() -> dict[Event, tuple[str, ...]]:
    """The commands of the settings' table [notify]; what can't be one was said, and doesn't keep from watching."""
    notify = places.settings().notify
    return {event: hooks.parse(command) for event in Event if (command := getattr(notify, event.value))}


def asked(on: Sequence[str]) -> Mapping[Event, tuple[str, ...]]:
    """The commands of `--on EVENT=COMMAND`. Raises UsageError."""
    found = {}
    for one in on:
        event, equals, command = one.partition("=")
        if not equals or event not in set(Event):
            raise UsageError(f"--on {one}: it is EVENT=COMMAND, EVENT one of {', '.join(Event)}")
        found[Event(event)] = hooks.parse(command)
    return found


def _tell(notice: Notice, as_json: bool) -> None:
    if as_json:
        told = {"at": text.iso(time.time()), "event": notice.event.value, "run": notice.run.name}
        put_line({**told, "path": text.utf8(notice.run.path), "reason": notice.words})
        return
    name, words = text.clean(notice.run.title), text.clean(notice.words, 400)
    print(f"{time.strftime('%H:%M:%S')}  {name}  {notice.event.value}: {words}", flush=True)
