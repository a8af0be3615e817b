"""Finds the errors in a training's output: whole tracebacks, errors of CUDA, NCCL and the kernel, torchrun's report.

Lines of several ranks may be mixed: each rank's traceback is put together by the mark before its lines. What only
speaks of errors ("0 errors", "error: 0", a loss that is called mean_squared_error) is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from lavender_tui.model.failure import peer_gone
from lavender_tui.model.log_text import plain, prefix_of
from lavender_tui.model.text import plural

LONGEST_BLOCK_LINES = 5000  # a traceback that goes on longer is no traceback
LONGEST_HEAD = 400
_LONGEST_LINE = 4000  # characters of a line that are looked at
_TRACEBACK = re.compile(r"[ |+]*(?:Exception Group )?Traceback \(most recent call last\):")
_TOP = "Traceback (most recent call last):"
_CHAINED = ("During handling of the above exception, another", "The above exception was the direct cause of")
_CHILD_FAILED = "ChildFailedError:"
_RULE = re.compile(r"={20,}\s*")
_NAMED = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Timeout)"
_GROUP = re.compile(r"[ |]*\|\s*[A-Za-z_][\w.]*(?:Group|Error|Exception)\b")
_LAST_LINE = re.compile(r"(?:[A-Za-z_][\w.<>]*)(?::.*)?")
# A number after a name of an error is a metric: "MeanSquaredError: 0.25".
_NUMBER = r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_METRIC = rf"(?!\s*[-+]?(?:{_NUMBER}|nan|inf|none|null|false|true|tensor\()\b)"


class Kind(StrEnum):
    """What an error is about."""

    TRACEBACK = "traceback"
    ERROR = "error"
    CUDA = "CUDA"
    NCCL = "NCCL"
    MEMORY = "out of memory"
    KILLED = "killed"
    CRASH = "crash"
    TORCHRUN = "torchrun"


# In this order: the first that matches says what a line is.
_RULES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (Kind.MEMORY, re.compile(r"[Oo]ut of memory\b|\boom[-_]kill|OutOfMemoryError|\bOOM\b|CUBLAS_STATUS_ALLOC_FAILED")),
    (Kind.NCCL, re.compile(r"NCCL error|\bnccl(?:System|Internal|UnhandledCuda|Remote|InvalidUsage)\w*Error|"
                           r"NCCL WARN .{0,500}(?:[Ff]ail|[Ee]rror)|caught collective operation timeout|"
                           r"NCCL communicator .{0,500}(?:abort|timeout)")),
    (Kind.CUDA, re.compile(r"CUDA error\b(?!s?\s*[:=]\s*(?:0|none)\b)|CUDA out of|device-side assert|cuDNN error|"
                           r"CUBLAS_STATUS_(?!SUCCESS)|Assertion `.{0,1000}['`] failed")),
    (Kind.CRASH, re.compile(r"Segmentation fault|Bus error|core dumped|Fatal Python error|terminate called|"
                            r"Floating point exception|Illegal instruction|stack smashing|double free or corruption|"
                            r"^Aborted\b|\(SIG(?:SEGV|ABRT|BUS|FPE|ILL)\)")),
    (Kind.KILLED, re.compile(r"(?:^|\s)Killed(?:$|\s+(?:process\b|\S+/|\S+\.sh\b|python))|"
                             r"slurmstepd: error: .{0,500}CANCELLED|"
                             r"\(SIGKILL\)|DUE TO (?:TIME LIMIT|PREEMPTION|NODE FAILURE)")),
    (Kind.ERROR, re.compile(rf"(?:^|[\s(\[]){_NAMED}:{_METRIC}\s*\S|^\s*{_NAMED}$")),
    (Kind.ERROR, re.compile(rf"\b(?:ERROR|CRITICAL|FATAL)\b(?!\S*[/%])(?:\W*$|(?=\W){_METRIC}"
                            r"(?!\W*(?<![0-9.])[0-9.]+\s*$)(?!\s*(?:[:=]\s*)?(?:0|no|none)\b))")),
    (Kind.ERROR, re.compile(rf"(?:^|[\w.)\]]: |\s)(?:fatal )?error:{_METRIC}\s+\S")),
    # glog's lines: "E1129 17:00:00.000000 123 torch/…] …"; "F" is fatal.
    (Kind.ERROR, re.compile(r"(?:^|\[)[EF][01][0-9][0-3][0-9] [0-9]{2}:[0-9]{2}:[0-9]{2}")),
)  # fmt: skip
# How a process goes that a thread of a library ends; a fault of memory is another matter, whatever came before.
_ABORT = re.compile(
    r"terminate called|Fatal Python error: (?!Segmentation|Bus|Illegal|Floating)|^Aborted\b|\(SIGABRT\)|core dumped"
)
_AFTERMATH_BYTES, _AFTERMATH_ERRORS = 1 << 16, 1000  # so near behind the exception
_NO_LEVEL = re.compile(r"\b(?:no|0|zero|without|NO)\s+(?:\w+\s+)?(?:errors?|ERRORS?)\b")


@dataclass(slots=True)
class ErrorBlock:
    """An error with every line of it, from offset `start` to `end`; `head` is its last line, or what sums it up."""

    start: int
    end: int
    kind: Kind
    head: str
    mark: str = ""  # what stands before its lines: "[default1]:"
    last_line: int = field(default=0, compare=False)  # offset of the line that `head` is

    @property
    def rank(self) -> int | None:
        """As torchrun, torch or srun marked it; None where nothing did."""
        digits = re.findall(r"[0-9]+", self.mark)
        return int(digits[-1]) if digits else None

    @property
    def is_consequence(self) -> bool:
        """Does it only tell that another rank went away?"""
        return peer_gone(self.head) is not None

    @property
    def words(self) -> str:
        """ "rank 1: RuntimeError: boom"; "a consequence: rank 0: … Connection closed by peer"."""
        words = self.head if self.rank is None else f"rank {self.rank}: {self.head}"
        return f"a consequence: {words}" if self.is_consequence else words


class _Open:
    """A traceback whose end is not seen yet."""

    __slots__ = ("blanks", "block", "has_last_line", "is_group", "lines", "rules", "table")

    def __init__(self, block: ErrorBlock) -> None:
        self.block, self.lines, self.blanks = block, 0, 0
        self.has_last_line = self.is_group = False
        self.rules = 0
        self.table: list[str] = []


class ErrorFinder:
    """Takes a file's lines in their order; gives out each error once its end is known."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._before: ErrorBlock | None = None  # the last error line: the next line may belong to it

    @property
    def is_inside(self) -> bool:
        """Does a traceback go on, or could the next line belong to an error?"""
        return bool(self._open) or self._before is not None

    def feed(self, offset: int, line: str, length: int) -> Iterator[ErrorBlock]:
        """The next line, where it begins and how many bytes it takes; yields the errors that are complete now."""
        if len(line) > _LONGEST_LINE:
            line = line[-_LONGEST_LINE:] if "\r" in line else line[:_LONGEST_LINE]
        line = plain(line)
        mark = prefix_of(line)
        body = line[len(mark) :].strip("\r") if mark else line
        open_ = self._open.get(mark)
        if open_ is not None:
            if self._goes_on(open_, body, offset, offset + length):
                return
            yield self._close(mark)
        if _TRACEBACK.match(body) or body.endswith(_TOP):  # a bar without a line end may stand before it
            yield from self._begin(mark, offset, offset + length)
            return
        kind = kind_of(body)
        before = self._before
        if (
            before is not None
            and kind is not None
            and (before.mark, before.kind) == (mark, kind)
            and (kind is Kind.CUDA or before.head == body.strip()[:LONGEST_HEAD])
        ):
            before.end = offset + length
            return
        if before is not None:
            yield before
        self._before = None
        if kind is not None:
            head = body.strip()[:LONGEST_HEAD]
            self._before = ErrorBlock(offset, offset + length, kind, head, mark, last_line=offset)

    def finish(self) -> Iterator[ErrorBlock]:
        """What is still open when there are no more lines."""
        if self._before is not None:
            yield self._before
            self._before = None
        for mark in list(self._open):
            yield self._close(mark)

    def _begin(self, mark: str, offset: int, end: int) -> Iterator[ErrorBlock]:
        """A line of a log right before a traceback (`logging.exception`) belongs to it."""
        before, self._before = self._before, None
        if before is not None and before.mark == mark and before.end == offset:
            offset = before.start
        elif before is not None:
            yield before
        self._open[mark] = _Open(ErrorBlock(offset, end, Kind.TRACEBACK, "", mark, last_line=offset))

    def _goes_on(self, open_: _Open, body: str, offset: int, end: int) -> bool:
        open_.lines += 1
        if open_.lines > LONGEST_BLOCK_LINES:
            return False
        if open_.rules or open_.block.head.endswith(_CHILD_FAILED):
            return self._table_goes_on(open_, body, end)
        text = body.rstrip()
        if not text.strip(" |"):
            open_.blanks += 1
            return open_.blanks < 3
        is_group = text.lstrip()[:1] in ("|", "+")
        open_.is_group |= is_group
        if _TRACEBACK.match(body) or text.lstrip(" |").startswith(_CHAINED):
            open_.has_last_line, open_.blanks = False, 0
        elif open_.has_last_line and not is_group:
            return False
        elif not body[0].isspace() and not is_group:
            if open_.is_group or not _LAST_LINE.match(text):
                return False
            open_.has_last_line, open_.blanks = True, 0
            open_.block.head, open_.block.last_line = text[:LONGEST_HEAD], offset
        elif is_group and not open_.block.head and _GROUP.match(text):
            open_.block.head, open_.block.last_line = text.strip(" |+")[:LONGEST_HEAD], offset
        open_.block.end = end
        return True

    def _table_goes_on(self, open_: _Open, body: str, end: int) -> bool:
        """torchrun's report stands between lines of `=`."""
        if _RULE.fullmatch(body.strip() or "-"):
            open_.rules += 1
        elif not open_.rules:
            return not body.strip()
        open_.table.append(body)
        open_.block.end = end
        open_.block.kind = Kind.TORCHRUN
        return open_.rules < 2 or (open_.rules == 2 and not _RULE.fullmatch(body.strip()))

    def _close(self, mark: str) -> ErrorBlock:
        open_ = self._open.pop(mark)
        if open_.table:
            open_.block.head = report_words(open_.table) or open_.block.head
        open_.block.head = open_.block.head or "a traceback without an end"
        return open_.block


def report_words(table: list[str]) -> str | None:
    """The root cause in torchrun's report: "torchrun: rank 1 failed first, exit code 1"."""
    text = "\n".join(table)
    _, found, cause = text.rpartition("Root Cause (first observed failure)")
    rank = re.search(r"rank\s*:\s*([0-9]{1,9})", cause)
    code = re.search(r"exitcode\s*:\s*(-?[0-9]{1,9})(?: \((SIG\w+)\))?", cause)
    if not found or not rank:
        return None
    return f"torchrun: rank {rank[1]} failed first{_ending_words(code[1], code[2]) if code else ''}"


def _ending_words(code: str, signal: str | None) -> str:
    """torchrun writes a signal as the exit code -9."""
    if signal:
        return f", {signal}"
    return f", killed by signal {code[1:]}" if code.startswith("-") else f", exit code {code}"


def kind_of(body: str) -> Kind | None:
    """What error one line (without its rank's mark) tells of, if any."""
    for kind, pattern in _RULES:
        if pattern.search(body):
            return None if kind is Kind.ERROR and _NO_LEVEL.search(body) else kind
    return None


def is_aftermath(errors: Sequence[ErrorBlock], at: int) -> bool:
    """Did that one of a file's errors, in their order, only happen on the way out? What a library's threads abort with
    after an exception of their own process is not why it ended."""
    one = errors[at]
    if one.kind is not Kind.CRASH or not _ABORT.search(one.head):
        return False
    return any(
        before.kind is Kind.TRACEBACK
        and one.start - before.end < _AFTERMATH_BYTES
        and (one.mark.startswith(before.mark) or before.mark.startswith(one.mark))
        for before in errors[max(0, at - _AFTERMATH_ERRORS) : at]
    )


def reasons_in(errors: Sequence[ErrorBlock]) -> list[ErrorBlock]:
    """Those of a file's errors, in their order, that neither another rank's end, nor its own, nor torchrun made."""
    return [
        one
        for at, one in enumerate(errors)
        if not one.is_consequence and one.kind is not Kind.TORCHRUN and not is_aftermath(errors, at)
    ]


def cause_of(errors: Sequence[ErrorBlock]) -> ErrorBlock | None:
    """The one to be named first, of those of a file in their order: the first that isn't what some end did.

    Where all of them are, torchrun's report, which names the rank that went first; without one the first of all.
    """
    reports = [one for one in errors if one.kind is Kind.TORCHRUN and one.head.startswith("torchrun: rank ")]
    return next(iter([*reasons_in(errors), *reports, *errors]), None)


def last_reason(errors: Sequence[ErrorBlock], exception: str | None = None) -> ErrorBlock | None:
    """The one that matters most at the end of a file: what is known to have ended the run, where `exception` is that;
    else the last that isn't what some end did; where all are, the one that says which rank went first."""
    own = reasons_in(errors)
    told = (exception or "").removesuffix("…")
    known = [one for one in own if told and _is_told_by(" ".join(one.head.split()), told)]
    return known[-1] if known else own[-1] if own else cause_of(errors)


def _is_told_by(head: str, told: str) -> bool:
    """Either may have more of the message: `told` its further lines, `head` what was too long for that."""
    return head.startswith(told) or told.startswith(f"{head} ")


def summary(count: int, first: str, *, is_whole: bool = True) -> str:
    """ "3 errors, first: rank 1 RuntimeError: boom"; "3 errors so far" until the whole file was seen."""
    so_far = "" if is_whole else " so far"
    if not count:
        return f"no error{so_far}"
    return f"{plural(count, 'error')}{so_far}, first: {first}" if count > 1 else f"1 error{so_far}: {first}"
