"""`lavender-tui logs RUN`."""

from __future__ import annotations

from lavender_tui.commands import places
from lavender_tui.commands.printing import say

FOLLOWED_FAILED, FOLLOWED_STOPPED = 100, 103


def run(run: str, *, root: str | None, follow: bool, rank: int | None, lines: int) -> int:
    run_dir = places.resolve_run(run, root)
    if follow:
        return follow_to_the_end(run_dir, rank=rank, lines=lines)
    from lavender_tui.launch.logs import tail

    for line in tail(run_dir, rank=rank, lines=lines):
        print(line)
    return 0


def follow_to_the_end(run_dir: str, *, rank: int | None, lines: int) -> int:
    """Print output until the run ends; the exit code says how. Ctrl-C ends the watching, never the training."""
    from lavender_tui.launch.logs import follow
    from lavender_tui.launch.record import end_facts

    try:
        for line in follow(run_dir, rank=rank, lines=lines):
            print(line, flush=True)
    except KeyboardInterrupt:
        say("no longer following; the training goes on")
        return 130
    end = end_facts(run_dir)
    if end is None:
        return 0
    if end.stop_requested:
        return FOLLOWED_STOPPED
    return FOLLOWED_FAILED if end.exit_code or end.signal else 0
