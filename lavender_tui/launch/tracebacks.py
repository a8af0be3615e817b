"""Reads tracebacks out of what a training printed: which is its last, and whether it is near the end of the output.

Lines of several ranks may be mixed, coloured, rewritten by progress bars, or stand behind a logger's prefix. No line is
looked at more than a few times: a hostile output costs no more than another. Standard library only.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

TOP = "Traceback (most recent call last):"
LONGEST = 400  # characters of a message from a training
MOST_LINES = 60
FEW_LINES = 40  # that may follow the traceback that ended a process: what others print meanwhile, a message's own lines
_MOST_FOREIGN = 50  # lines between a traceback's own ones
_MOST_MESSAGE_LINES = 20
_LONGEST_NAME = 1000
_LONGEST_PREFIX = 100
_LONGEST_BAR = 4000

_MARK = r"(?:\[rank[0-9]+\]: ?|\[(?!rank[0-9])[A-Za-z_]+[0-9]+\]:)"
# torchrun puts "[default0]:" before a line of rank 0, torch itself "[rank0]: ".
# srun's label stands before that where several nodes print into one log.
_MARKS = re.compile(rf"(?:[ \t]*[0-9]{{1,5}}: (?=\[[A-Za-z_]+[0-9]+\]:))?(?:{_MARK})+")
_MARKS_AT_END = re.compile(rf"(?:{_MARK})+\Z")
_TORCHS_MARK = re.compile(r"\[rank[0-9]+\]:")  # it stands before a traceback, not before other lines
_CONTROLS = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)")
_DIGIT = re.compile(r"[0-9]")
# "ValueError: x", "a.b.MyError", "zlib.error: x"; not "WARNING:root:x" of a thread that prints meanwhile.
_ERROR_LINE = re.compile(
    r"(?!(?:DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL)\b)"
    r"(?:(?:[A-Za-z_]\w*|<locals>)\.)*"
    r"(?:_*[A-Z]\w*|(?<=\.)\w*(?:error|exception|timeout|interrupt|exit|failure|fault|warning))(?::(?=\s)|:?\Z)"
)
_NAME_ALONE = re.compile(r"\S+:\s*\Z")
_SYNTAX_FILE = re.compile(r'  File "[^"]+", line [0-9]+\Z')
_SYNTAX_ERROR = re.compile(r"(?:SyntaxError|IndentationError|TabError)(?::|\Z)")
_USAGE_ERROR = re.compile(r"[\w./-]+(?: [\w./-]+)*: error: \S")
_GROUP_LINE = re.compile(r" *[|+]")
# Before a traceback that Python prints on the way out, or of a thread beside the main one.
_NOISE = re.compile(
    r"Exception ignored (?:in|on)\b|Error in atexit\.|Error in sys\.excepthook|Exception in thread |"
    r"Exception in Tkinter callback"
)
_CHAINED = ("During handling of the above exception, another", "The above exception was the direct cause of")
# What is printed of an end after its traceback: by torch, C++, Python, the loggers' libraries, Slurm.
_AFTERMATH = re.compile(
    r"\[?[EWFI][01][0-9][0-3][0-9] |\[(?:rank[0-9]+|[EWFI])\b|(?:frame )?#[0-9]+:? |"
    r"terminate called|Exception raised from|Fatal Python error|"
    r"(?:Current thread|Thread) 0x|Extension modules|<unknown function>|\*\*\*|[=-]{20}|"
    r"NCCL|(?:\[[^\]]*\] )?[\w.-]+:[0-9]+:[0-9]+ \[|(?:wandb|swanlab|srun|slurmstepd): |"
    r"\S+\.(?:py:[0-9]+: \w*Warning|(?:cuh?|cpp|h):[0-9]+:)|Aborted|Segmentation fault|Killed|Terminated|"
    r"\[lavender-tui supervisor\] "
)
_BAR = re.compile(r"^[^|]*%\|.*?\d(?:it/s|s/it)[^\]]*\]")  # what is printed next may stand right behind it
_LAUNCHERS = "torch.distributed.elastic."


@dataclass(slots=True)
class Traceback:
    """One with its end; `head` is its error in one line, with what its message goes on with."""

    head: str = ""
    lines: list[str] = field(default_factory=list)
    is_noise: bool = False  # printed on the way out, or by a thread beside
    followed_by: int = 0  # other lines of the same process
    last_words: str = ""  # the last of these

    @property
    def is_near_the_end(self) -> bool:
        return self.followed_by <= FEW_LINES

    def shown(self) -> tuple[str, ...]:
        return shown(self.lines)


def shown(lines: Sequence[str]) -> tuple[str, ...]:
    """At most so many lines, those at the end, none very long."""
    return tuple(line.rstrip()[:LONGEST] for line in lines[-MOST_LINES:])


def short(text: str) -> str:
    """On one line, not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def lines_of(text: str) -> list[str]:
    """Its lines as Python's tracebacks have them: `str.splitlines` would cut a message at U+2028 and others."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def last_lines(text: str, count: int) -> str:
    return "\n".join(text.removesuffix("\n").split("\n")[-count:])


def last_traceback(text: str, *, skip_launcher: bool = False) -> str | None:
    """The error of the last traceback in `text`; torchrun's own, that only says that a worker failed, left out."""
    found = last(text, skip_launcher=skip_launcher)
    return found.head if found is not None else None


def last(text: str, *, skip_launcher: bool = False) -> Traceback | None:
    """The last one that is near the end and was not printed on the way out; else what comes closest to that."""
    best, rank = None, -1
    for one in tracebacks(text):
        if skip_launcher and one.head.startswith(_LAUNCHERS):
            continue
        value = 2 * one.is_near_the_end + (not one.is_noise)
        if value >= rank:
            best, rank = one, value
    return best


def tracebacks(text: str) -> list[Traceback]:
    """All of them, in the order of their ends."""
    if "Traceback (most recent call last)" not in text and "Error" not in text:
        return []
    reader = _Reader()
    for line, is_overwritten in _printed(text):
        reader.feed(line, is_overwritten)
    return reader.finish()


def usage_error(text: str) -> str | None:
    """ "train.py: error: …", where the output ends with that and the usage before it, as `argparse` prints them."""
    printed = (line[_marks_of(line)[1] :] for line, _ in _printed(last_lines(text, 200)))
    lines = [line for line in printed if line.strip() and not _AFTERMATH.match(line[:_LONGEST_NAME])]
    for at in range(len(lines) - 1, max(-1, len(lines) - 6), -1):
        if _USAGE_ERROR.match(lines[at][:_LONGEST_NAME]) and any(line.startswith("usage: ") for line in lines[:at]):
            return short(lines[at])
    return None


def last_words(text: str) -> str | None:
    """The last line that a script printed itself, as `sys.exit("no corpus")` does; neither a bar nor an aftermath."""
    for line, is_overwritten in reversed(list(_printed(last_lines(text, 200)))):
        body = _BAR.sub("", line[_marks_of(line)[1] :][:_LONGEST_BAR]).strip()
        if body and not is_overwritten and not _is_bar(body) and not _AFTERMATH.match(body):
            return short(body)
    return None


def _printed(text: str) -> Iterator[tuple[str, bool]]:
    """Each line without its colours, and whether the next one was printed over it, as by a progress bar."""
    for line in (_CONTROLS.sub("", text) if "\x1b" in text else text).split("\n"):
        if "\r" not in line:
            yield line, False
            continue
        *before, last_part = line.rstrip("\r").split("\r")
        for part in before:
            yield part, True
        yield last_part, False


def _marks_of(line: str) -> tuple[str, int]:
    """The rank's marks before a line, and where what it printed begins."""
    found = _MARKS.match(line) if line[:1] in "[ \t0123456789" else None
    return ("".join(found[0].split()), found.end()) if found else ("", 0)


def _process(marks: str) -> str:
    return _TORCHS_MARK.sub("", marks) if marks else ""


def _is_bar(body: str) -> bool:
    return "%|" in body or (body.endswith("]") and ("it/s" in body or "s/it" in body))


@dataclass(slots=True)
class _Open:
    """A traceback whose end is not seen yet, or whose message may go on once it has a `head`."""

    traceback: Traceback
    prefix: str = ""  # what a logger puts before each line, its digits as zeros
    is_group: bool = False
    is_syntax: bool = False
    foreign: int = 0
    head: str = ""
    more: list[str] = field(default_factory=list)  # the message's other lines; a group's exceptions
    others: int = 0  # lines that its process had printed when it ended


class _Reader:
    """Puts together what each rank printed."""

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._found: list[tuple[Traceback, str, int]] = []
        self._before: dict[str, str] = {}  # the last line of each that isn't empty
        self._noise: dict[str, bool] = {}  # was its last traceback?
        self._others: dict[str, int] = defaultdict(int)  # lines that are no part of a traceback
        self._last_other: dict[str, str] = {}

    def feed(self, line: str, is_overwritten: bool) -> None:
        key, at = _marks_of(line)
        body = line[at:] if at else line
        open_ = self._open.get(key)
        if open_ is not None and self._goes_on(open_, body):
            open_.others = self._others[_process(key)]
        else:
            if open_ is not None:
                self._close(key)
            if not self._begins(key, body) and not is_overwritten:
                self._count(_process(key), body)
        if body and not body.isspace():
            self._before[key] = body

    def finish(self) -> list[Traceback]:
        for key in list(self._open):
            self._close(key)
        for one, process, others in self._found:
            one.followed_by, one.last_words = self._others[process] - others, self._last_other.get(process, "")
        return [one for one, _, _ in self._found]

    def _begins(self, key: str, body: str) -> bool:
        if body.endswith(TOP):  # a progress bar without a line end may stand before it, and before the rank's mark
            before = body[: -len(TOP)]
            if found := _MARKS_AT_END.search(before[-_LONGEST_PREFIX:]):
                before, key = before[: -len(found[0])], key + "".join(found[0].split())
            is_group = before.strip(" |+") == "Exception Group"
            has_prefix = bool(before.strip()) and len(before) <= _LONGEST_PREFIX and not is_group
            prefix = _DIGIT.sub("0", before) if has_prefix else ""
            one = _Open(Traceback(lines=[body if is_group else TOP]), prefix, is_group)
        elif _SYNTAX_FILE.match(body):
            one = _Open(Traceback(lines=[body]), is_syntax=True)
        elif body.lstrip().startswith("╭") and "Traceback (most recent call last)" in body:  # rich's
            one = _Open(Traceback(lines=[body]))
        else:
            return False
        before = self._before.get(key, "")
        is_chained = before.lstrip(" |").startswith(_CHAINED)
        one.traceback.is_noise = self._noise.get(key, False) if is_chained else _NOISE.search(before) is not None
        self._noise[key] = one.traceback.is_noise
        self._open[key] = one
        return True

    def _goes_on(self, open_: _Open, body: str) -> bool:
        """Is the line a part of it, or one that may stand between its own?"""
        if open_.prefix and _DIGIT.sub("0", body[: len(open_.prefix)]) == open_.prefix:
            body = body[len(open_.prefix) :]
        if open_.is_group:
            return self._group_goes_on(open_, body)
        if open_.head:
            return self._message_goes_on(open_, body)
        if body.endswith(TOP) or body.startswith("╭"):
            return False
        if not body or body[0].isspace() or body[0] in "│╰":
            open_.traceback.lines.append(body)
            return True
        pattern = _SYNTAX_ERROR if open_.is_syntax else _ERROR_LINE
        if pattern.match(body[:_LONGEST_NAME]):
            open_.head = body
            open_.traceback.lines.append(body)
            return True
        open_.foreign += 1
        return not open_.is_syntax and open_.foreign <= _MOST_FOREIGN

    @staticmethod
    def _message_goes_on(open_: _Open, body: str) -> bool:
        """The lines below the error that are indented; any line where its own says nothing yet."""
        text = body.strip()
        says_nothing = not open_.more and _NAME_ALONE.match(open_.head[-_LONGEST_NAME:]) and not _AFTERMATH.match(body)
        is_more = bool(text) and (body[0].isspace() or says_nothing)
        is_other = text.startswith('File "') or body.endswith(TOP) or _is_bar(body)
        if not is_more or is_other or len(open_.more) >= _MOST_MESSAGE_LINES:
            return False
        open_.more.append(body)
        open_.traceback.lines.append(body)
        return True

    @staticmethod
    def _group_goes_on(open_: _Open, body: str) -> bool:
        if not _GROUP_LINE.match(body):
            return False
        open_.traceback.lines.append(body)
        text = body.lstrip(" ")[2:]  # behind "| "
        if not text.endswith(TOP) and _ERROR_LINE.match(text[:_LONGEST_NAME]):
            if not open_.head:
                open_.head = text
            elif len(open_.more) < _MOST_MESSAGE_LINES:
                open_.more.append(text)
        return True

    def _close(self, key: str) -> None:
        open_ = self._open.pop(key)
        if not open_.head:
            return
        more = f"– {'; '.join(open_.more)}" if open_.is_group and open_.more else " ".join(open_.more)
        open_.traceback.head = short(f"{open_.head} {more}")
        self._found.append((open_.traceback, _process(key), open_.others))

    def _count(self, process: str, body: str) -> None:
        if body and not body[0].isspace() and not _is_bar(body) and not _AFTERMATH.match(body[:_LONGEST_NAME]):
            self._others[process] += 1
            self._last_other[process] = body
