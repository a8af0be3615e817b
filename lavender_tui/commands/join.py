"""`lavender-tui join RUN`: this host takes part in a run that was launched for several."""

from __future__ import annotations

import os

from lavender_tui.commands import places
from lavender_tui.commands.printing import put_json, say
from lavender_tui.model import text


def run(run: str, *, root: str | None, as_json: bool) -> int:
    from lavender_tui.launch.joining import join

    run_dir = places.resolve_run(run, root)
    record = join(run_dir)
    if as_json:
        put_json({"run_dir": text.utf8(run_dir), "node_dir": text.utf8(record.run_dir), **record.identity})
        return 0
    print(record.run_dir, flush=True)
    say(f"{os.path.basename(record.run_dir)} of {os.path.basename(run_dir)} has started")
    return 0
