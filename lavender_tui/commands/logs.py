"""`lavender-tui logs RUN`."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from lavender_tui.commands import places
from lavender_tui.commands.printing import say
from lavender_tui.errors import NotFound
from lavender_tui.model.text import clean

FOLLOWED_FAILED, FOLLOWED_STOPPED = 100, 103


def run(run: str, *, root: str | None, follow: bool, rank: int | None, lines: int) -> int:
    run_dir = places.resolve_run(run, root)
    if follow:
        return follow_to_the_end(run_dir, rank=rank, lines=lines)
    from lavender_tui.launch.logs import tail

    files = files_of(run_dir, rank)
    if not files:
        what = "the run has no log" if rank is None else f"the run has no log of rank {rank}"
        raise NotFound(what, where=run_dir)
    for label, path in files:
        for line in tail(path, lines):
            put(label if len(files) > 1 else "", line)
    return 0


def follow_to_the_end(run_dir: str, *, rank: int | None, lines: int, out: TextIO | None = None) -> int:
    """Print output until the run ends; the exit code says how. Ctrl-C ends the watching, never the training."""
    from lavender_tui.launch.living import is_alive
    from lavender_tui.launch.logs import follow
    from lavender_tui.launch.record import end_facts

    try:
        for label, line in follow(lambda: files_of(run_dir, rank), lines=lines, is_over=lambda: not is_alive(run_dir)):
            put(label if rank is not None else "", line, out)
    except KeyboardInterrupt:
        say("no longer following; the training goes on")
        return 130
    end = end_facts(run_dir)
    if end is None:
        return 0
    if end.stop_requested:
        return FOLLOWED_STOPPED
    return FOLLOWED_FAILED if end.exit_code or end.signal else 0


def files_of(run_dir: str, rank: int | None) -> list[tuple[str, str]]:
    """(label, path): the run's own log, or one rank's files."""
    from lavender_tui.launch.logs import log_files

    files = log_files(run_dir)
    if rank is None:
        return files[:1] if files and os.path.basename(files[0][1]) == files[0][0] else files
    return [(label, path) for label, path in files if f"rank {rank} " in f"{label} "]


def put(label: str, line: str, out: TextIO | None = None) -> None:
    """A line as it was printed, to stdout or `out`; on a terminal its control codes are shown instead of obeyed."""
    out = out or sys.stdout
    shown = clean(line) if out.isatty() else line
    print(f"{label}: {shown}" if label else shown, file=out, flush=True)
