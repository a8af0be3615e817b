"""`lavender-tui logs RUN`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, TextIO

from lavender_tui.commands import places
from lavender_tui.commands.printing import say
from lavender_tui.errors import NotFound, UsageError
from lavender_tui.model.text import clean, plural

if TYPE_CHECKING:
    from lavender_tui.logs.follow import Line
    from lavender_tui.logs.pager import Pager
    from lavender_tui.logs.search import Query

FOLLOWED_FAILED, FOLLOWED_STOPPED = 100, 103
NOTHING_FOUND = 1
USUAL_LINES = 100
FROM_ITS_START = 1_000_000  # lines: all that a training has printed before somebody came to follow it


def run(
    run: str,
    *,
    root: str | None,
    follow: bool,
    rank: int | None,
    lines: int | None,
    errors: bool = False,
    grep: str | None = None,
    raw: bool = False,
) -> int:
    _refuse_nonsense(follow=follow, errors=errors, grep=grep, raw=raw)
    query = _query(grep)
    run_dir = places.resolve_run(run, root)
    if follow:
        many = USUAL_LINES if lines is None else lines
        return follow_to_the_end(run_dir, rank=rank, lines=many, query=query, raw=raw)
    files = files_of(run_dir, rank)
    if not files:
        what = "the run has no log" if rank is None else f"the run has no log of rank {rank}"
        raise NotFound(what, where=run_dir)
    if errors:
        return _put_errors(files, lines)
    if query is not None:
        return _put_matches(files, query, lines)
    return _put_tails(files, USUAL_LINES if lines is None else lines, raw=raw)


def _refuse_nonsense(*, follow: bool, errors: bool, grep: str | None, raw: bool) -> None:
    if raw and sys.stdout.isatty():
        raise UsageError(
            "--raw would hand a training's control codes to this terminal",
            hint="Pipe it (`| cat -v`), write it to a file, or leave --raw out",
        )
    if (errors and (follow or raw or grep is not None)) or (grep is not None and raw):
        raise UsageError("--errors goes with -n and --rank alone, --grep not with --raw")


def _query(grep: str | None) -> Query | None:
    from lavender_tui.logs.search import Query

    if not grep:
        return None
    try:
        return Query.of(grep)
    except ValueError as error:
        raise UsageError(f"--grep: {error}") from None


def files_of(run_dir: str, rank: int | None) -> list[tuple[str, str]]:
    """(label, path): the run's own log, where there is none Slurm's, else every rank's; or one rank's files."""
    from lavender_tui.logs.files import has_own_log, log_files

    files = log_files(run_dir)
    if rank is not None:
        of_rank = [(label, path) for label, path in files if f"rank {rank} " in f"{label} "]
        return of_rank or (
            [("rank 0", path) for _, path in files[:1]] if rank == 0 and _is_one_process(run_dir) else []
        )
    return files[:1] if has_own_log(files) or (files and "rank " not in files[0][0]) else files


def _is_one_process(run_dir: str) -> bool:
    """Is its rank 0 all of it, with no torchrun to give it a log of its own? Then the run's log is that rank's."""
    from lavender_tui.launch.record import read_launch

    record = read_launch(run_dir)
    return record is not None and record.world_size == 1 and record.backend != "torchrun"


# What is there


def _put_tails(files: list[tuple[str, str]], lines: int, *, raw: bool) -> int:
    from lavender_tui.logs.follow import raw_tail, tail

    for label, path in files:
        if raw:
            sys.stdout.flush()
            sys.stdout.buffer.write(raw_tail(path, lines))
            continue
        for line in tail(path, lines):
            put(label if len(files) > 1 else "", line)
    sys.stdout.flush()
    if not any(map(os.path.getsize, (path for _, path in files))):
        say(f"nothing is printed yet: {', '.join(clean(path) for _, path in files)}")
    return 0


def _put_matches(files: list[tuple[str, str]], query: Query, most: int | None) -> int:
    """Every line that matches, with its number, as grep -n does; exit code 1 where none does."""
    from lavender_tui.logs.matches import matching_rows
    from lavender_tui.logs.pager import Pager

    found = 0
    for label, path in files:
        pager = Pager(path)
        try:
            for number, row in matching_rows(pager, query, most):
                found += 1
                put(label if len(files) > 1 else "", f"{number}:{row.text}")
        finally:
            pager.close()
    return 0 if found else NOTHING_FOUND


def _put_errors(files: list[tuple[str, str]], most: int | None) -> int:
    """Each error with all its lines below a line that sums it up; what they are is on stderr."""
    from lavender_tui.logs.pager import Pager
    from lavender_tui.logs.survey import survey
    from lavender_tui.model.log_errors import cause_of, summary

    for label, path in files:
        pager = Pager(path)
        try:
            seen = survey(pager)
            blocks = seen.errors if most is None else seen.errors[len(seen.errors) - min(most, len(seen.errors)) :]
            for block in blocks:
                line = (seen.lines_before(block.start) or 0) + 1
                put("", f"{label} line {line:,}: {block.words}")
                _put_block(pager, block.start, block.end, block.mark)
            cause, hidden = cause_of(seen.errors), seen.error_count - len(blocks)
            left_out = f"; {plural(hidden, 'error')} left out" if hidden else ""
            say(f"{label}: {summary(seen.error_count, cause.words if cause is not None else '')}{left_out}")
        finally:
            pager.close()
    return 0


def _put_block(pager: Pager, start: int, end: int, mark: str) -> None:
    """The lines of one error; those of other ranks in between are theirs."""
    from lavender_tui.logs.pager import PAGE, lines_of
    from lavender_tui.model.log_text import plain, prefix_of

    for _, line in lines_of(start, pager.read(start, min(end - start, 16 * PAGE))):
        shown = plain(line)
        if prefix_of(shown) == mark:
            put("", f"    {shown}")
    put("", "")


# What comes


def follow_to_the_end(
    run_dir: str,
    *,
    rank: int | None,
    lines: int,
    out: TextIO | None = None,
    query: Query | None = None,
    raw: bool = False,
) -> int:
    """Print output until the run ends; the exit code says how. Ctrl-C ends the watching, never the training."""
    from lavender_tui.launch.living import is_alive
    from lavender_tui.launch.record import end_facts
    from lavender_tui.logs.follow import follow, follow_raw

    def is_over() -> bool:
        return not is_alive(run_dir)

    writer = _Writer(out or sys.stdout, with_labels=rank is not None)
    try:
        if raw:
            for data in follow_raw(lambda: files_of(run_dir, rank), lines=lines, is_over=is_over):
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
        else:
            for line in follow(lambda: files_of(run_dir, rank), lines=lines, is_over=is_over):
                if query is None or query.spans(line.text):
                    writer.put(line)
    except KeyboardInterrupt:
        writer.clear()
        say("no longer following; the training goes on")
        return 130
    end = end_facts(run_dir)
    if end is None:
        return 0
    if end.stop_requested:
        return FOLLOWED_STOPPED
    return FOLLOWED_FAILED if end.exit_code or end.signal else 0


class _Writer:
    """Lines one below the other; on a terminal a progress bar changes where it stands until it is done."""

    def __init__(self, out: TextIO, *, with_labels: bool) -> None:
        self._out, self._with_labels = out, with_labels
        self._is_changing = False

    def put(self, line: Line) -> None:
        label = line.label if self._with_labels else ""
        if line.is_final:
            self.clear()
            put(label, line.text, self._out)
        elif self._out.isatty():
            shown = f"{label}: {line.text}" if label else line.text
            # Our own codes: back to the line's begin, and away with what stands there. The text holds none.
            self._out.write(f"\r\033[K{_cut(clean(shown), _columns(self._out) - 1)}")
            self._out.flush()
            self._is_changing = True

    def clear(self) -> None:
        if self._is_changing:
            self._out.write("\r\033[K")
            self._is_changing = False


def _columns(out: TextIO) -> int:
    try:
        return os.get_terminal_size(out.fileno()).columns
    except (OSError, ValueError):
        return 80


def _cut(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    return set_cell_size(text, width).rstrip()


def put(label: str, line: str, out: TextIO | None = None) -> None:
    """A line, on stdout or `out`. Control codes are shown escaped wherever it goes: a pipe may end at a terminal."""
    out = out or sys.stdout
    shown = clean(f"{label}: {line}" if label else line)
    print(shown, file=out, flush=True)
