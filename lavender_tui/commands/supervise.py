"""`lavender-tui supervise`: keep a run alive. Prints the directory of each run that it starts; words go to stderr."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from lavender_tui.commands import places
from lavender_tui.commands.plan import options_of, target_of
from lavender_tui.config import Config
from lavender_tui.errors import NotFound, UsageError
from lavender_tui.model import text

if TYPE_CHECKING:
    from lavender_tui.resume.keeper import Limits


def run(
    *, command: tuple[str, ...], target: str | None, tries: int | None, backoff: float | None,
    world_sizes: tuple[int, ...] | None, detach: bool,
) -> int:  # fmt: skip
    run_dir = _run_of(target)
    limits = _limits(places.settings(), tries, backoff, world_sizes)
    if detach:
        from lavender_tui.resume.detached import keep_detached

        started = keep_detached(run_dir, limits, command)
        if started.code is not None:
            _say(started.said)
            return started.code
        _say(f"kept alive by pid {started.pid}; its words go to {text.clean(started.log)}")
        return 0
    from lavender_tui.resume.keeper import keep

    return keep(run_dir, limits, options_of(command), say=_say, on_started=_print)


def _limits(settings: Config, tries: int | None, backoff: float | None, world_sizes: tuple[int, ...] | None) -> Limits:
    from lavender_tui.resume.keeper import Limits

    kept = Limits.of(settings.supervise)
    return Limits(
        tries=kept.tries if tries is None else tries,
        backoff_seconds=kept.backoff_seconds if backoff is None else backoff,
        world_sizes=kept.world_sizes if world_sizes is None else world_sizes,
    )


def _run_of(target: str | None) -> str:
    """The run that was named, or the newest one of the root. Raises NotFound, UsageError for a file."""
    from lavender_tui.model.choosing import run_order
    from lavender_tui.watch.scan import scan

    path = target_of(target).paths[0]
    if not os.path.isdir(path):
        raise UsageError("this is a file: what is kept alive is a run", where=path, hint="Name its directory")
    runs = scan((path,), deadline=time.monotonic())
    named = next((run for run in runs if os.path.realpath(run.path) == os.path.realpath(path)), None)
    newest = named or max(runs, key=run_order, default=None)
    if newest is None:
        hint = "Start one first: `lavender-tui resume --latest ROOT -- COMMAND`"
        raise NotFound("there is no run", where=path, hint=hint)
    return newest.path


def _say(message: str) -> None:
    """A sentence with its time. On a terminal that went away nobody reads it any more: the journal tells."""
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} lavender-tui: {text.clean(message)}"
    try:
        print(line, file=sys.stderr, flush=True)
    except OSError:
        _go_silent()


def _print(run_dir: str) -> None:
    try:
        print(run_dir, flush=True)
    except OSError:
        _go_silent()


def _go_silent() -> None:
    """From now on words go nowhere, instead of ending a keeper that a training depends on."""
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    os.close(null)
