"""`lavender-tui stop RUN`."""

from __future__ import annotations

import os

from lavender_tui.commands import places
from lavender_tui.commands.printing import ask, is_terminal, say


def run(run: str, *, root: str | None, kill: bool, grace: float | None, yes: bool) -> int:
    from lavender_tui.launch import stop

    run_dir = places.resolve_run(run, root)
    how = "Kill" if kill else "Stop"
    if not yes and is_terminal() and not ask(f"{how} {os.path.basename(run_dir)}?"):
        say("nothing was stopped")
        return 1
    outcome = stop(run_dir, kill=kill, grace=places.settings().grace_seconds if grace is None else grace)
    say(outcome.words)
    return 0 if outcome.has_ended else 1
