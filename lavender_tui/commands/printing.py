"""stdout is data, stderr is talk."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lavender_tui.errors import UsageError
from lavender_tui.model import text
from lavender_tui.model.plan import Check, Proposal, Verdict

_GAP = "  "  # between two columns
_USUAL, _LEAST = 24, 12  # cells of one that may be cut: of most runs' names, and what always stays
MARKS = {Verdict.PASS: "✓", Verdict.WARN: "!", Verdict.REFUSE: "✗"}


def say(message: str) -> None:
    """A sentence for people."""
    print(f"lavender-tui: {text.clean(message)}", file=sys.stderr)


def put_json(document: Any) -> None:
    """One strict JSON document on stdout, flushed."""
    print(text.strict_json(document, indent=2), flush=True)


def put_line(document: Any) -> None:
    """One strict JSON line on stdout, flushed: a reader at the other end of a pipe waits for it."""
    print(text.strict_json(document), flush=True)


def put_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[int] = (), narrow: Narrow | None = None
) -> None:
    """Aligned columns; those of `right` are right-aligned. `narrow` makes them fit a terminal; a pipe gets all."""
    from rich.cells import cell_len

    widths = [max([cell_len(title), *(cell_len(row[at]) for row in rows)]) for at, title in enumerate(head)]
    shown = list(range(len(head)))
    if narrow is not None and sys.stdout.isatty():
        shown = narrow.fit(widths, shutil.get_terminal_size().columns)
    for row in (head, *rows):
        cells = []
        for at in shown:
            cell = row[at] if cell_len(row[at]) <= widths[at] else _without_its_middle(row[at], widths[at])
            gap = " " * (widths[at] - cell_len(cell))
            cells.append(gap + cell if at in right else cell + gap)
        print(_GAP.join(cells).rstrip())


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrow:
    """What a table on a narrow terminal does without, by the columns' numbers.

    The columns of `spare` go first, as many as needed, in their order; then the cells of `cut` lose their middle, where
    they are longer than usual even before that; and last the columns of `last` go, in their order.
    """

    spare: Sequence[int]
    cut: Sequence[int]
    last: Sequence[int]

    def fit(self, widths: list[int], room: int) -> list[int]:
        """The columns that are shown; `widths` become theirs."""
        shown = list(range(len(widths)))
        for columns, most in ((self.spare, _USUAL), (self.last, _LEAST)):
            for at in columns:
                if _total([min(widths[one], most) if one in self.cut else widths[one] for one in shown]) > room:
                    shown.remove(at)
        while (over := _total([widths[one] for one in shown]) - room) > 0:
            cut = sorted((one for one in self.cut if one in shown), key=lambda one: widths[one], reverse=True)
            if not cut or widths[cut[0]] <= _LEAST:
                break
            level = widths[cut[1]] if len(cut) > 1 else 0
            widths[cut[0]] = max(_LEAST, widths[cut[0]] - over, min(widths[cut[0]] - 1, level))
        return shown


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * max(0, len(widths) - 1)


def _without_its_middle(cell: str, width: int) -> str:
    """So many cells at most, with … where the rest was."""
    from rich.cells import cell_len

    begin, end = 0, len(cell)
    room = width - 1
    while begin < end:
        is_heads_turn = cell_len(cell[:begin]) <= cell_len(cell[end:])
        room -= cell_len(cell[begin] if is_heads_turn else cell[end - 1])
        if room < 0:
            break
        begin, end = (begin + 1, end) if is_heads_turn else (begin, end - 1)
    return f"{cell[:begin]}…{cell[end:]}"


class Talk(StrEnum):
    """How much is said of checks that passed."""

    ALL = "each of them"
    FOLDED = "how many they are"
    NOTHING = "nothing"


def talk_of(*, quiet: bool, verbose: bool) -> Talk:
    """By the flags; without one a log, or cron's mail, gets only what somebody has to know. Raises UsageError."""
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    if verbose:
        return Talk.ALL
    return Talk.FOLDED if sys.stderr.isatty() and not quiet else Talk.NOTHING


def put_checks(proposal: Proposal) -> None:
    """The checks of a proposal, one a line, on stderr, what speaks against it first; evidence and remedy below that."""
    for verdict in (Verdict.REFUSE, Verdict.WARN, Verdict.PASS):
        for check in proposal.checks:
            if check.verdict is verdict:
                _put_check(check)


def put_findings(proposal: Proposal, talk: Talk) -> None:
    """What somebody who starts it has to know, what weighs most last. The first refusal isn't among it: that is the
    error which ends the command, and so its last line."""
    passed = [check for check in proposal.checks if check.verdict is Verdict.PASS]
    if talk is Talk.FOLDED and passed:
        more = "" if proposal.is_refused else " (-v shows them)"
        print(f" {MARKS[Verdict.PASS]} {text.plural(len(passed), 'check')} passed{more}", file=sys.stderr)
    refusals = [check for check in proposal.checks if check.verdict is Verdict.REFUSE]
    warnings = [check for check in proposal.checks if check.verdict is Verdict.WARN]
    for check in (*(passed if talk is Talk.ALL else ()), *warnings, *refusals[1:]):
        _put_check(check)


def _put_check(check: Check) -> None:
    print(f" {MARKS[check.verdict]} {text.clean(check.what)}", file=sys.stderr)
    if check.verdict is not Verdict.PASS:
        for more in (check.evidence, check.remedy):
            if more:
                print(f"   {text.clean(more)}", file=sys.stderr)


def is_terminal() -> bool:
    """Can a question be asked and its answer be read?"""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def ask(question: str) -> bool:
    """Ask on the terminal; no is the default. Without a terminal the answer is no."""
    if not is_terminal():
        return False
    print(f"{text.clean(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


class Counter:
    """How far something has come, on one line of a terminal, once it takes longer than a second; gone at the end."""

    def __init__(self, what: str) -> None:
        self._what, self._started, self._shown = what, time.monotonic(), 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now - self._started < 1.0 or now - self._shown < 0.1 or not sys.stderr.isatty():
            return
        self._shown = now
        print(
            f"\r{self._what}: {done * 100 // max(1, total)} % of {text.size(total)}",
            end="",
            file=sys.stderr,
            flush=True,
        )

    def __enter__(self) -> Counter:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
