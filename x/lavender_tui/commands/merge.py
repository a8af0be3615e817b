"""`lavender-tui merge STATE… -o FILE`: rank states of one save into one state."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lavender_tui.commands.printing import say
from lavender_tui.errors import UsageError


def run(states: Sequence[str], *, output: str, world_size: int | None = None) -> int:
    if not output.endswith((".pt", ".json")):
        raise UsageError("the merged state is written as FILE.pt or FILE.json", where=output)
    from lavender_tui.resume import merge_files

    out = os.path.abspath(os.path.expanduser(output))
    merged = merge_files([os.path.abspath(os.path.expanduser(path)) for path in states], out, world_size=world_size)
    consumed = sum(merged["samples_consumed_per_split"])
    say(f"merged: {merged['num_splits']} splits, {consumed:,} samples consumed of dataset epoch {merged['epoch']}")
    print(out)
    return 0
