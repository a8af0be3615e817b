"""Why a training ended badly, in one sentence: from its ranks' error files, torchrun's own report, or its traceback.

torchrun exits with 1 whatever happened, so the exit code alone says nothing. Everything read here was written by the
training: it is text to be shown escaped, nothing more. Standard library only; the supervisor imports it at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from lavender_tui.launch import tracebacks
from lavender_tui.launch.files import LOG, RANKS, open_regular, read_document
from lavender_tui.launch.tracebacks import Traceback, last_traceback, lines_of, short
from lavender_tui.model.failure import Failure, brief

TAIL_BYTES = 256 * 1024
LONG_TAIL_BYTES = 8 * 1024 * 1024  # for an exception that prints a whole tensor, or each key of a state_dict
LONGEST_WORDS = 200
LAST_LINES = 100  # of an output: a traceback in them is its end, whatever torch prints after it
_ERROR_FILE = "error.json"
_ATTEMPT = re.compile(r"attempt_([0-9]{1,9})")
_ENTRY = re.compile(r"^[ \t]*\[[0-9]+\]:", re.MULTILINE)
_TORCH_RANK = re.compile(r"^\[rank([0-9]{1,9})\]:", re.MULTILINE)
# What a rank says when another one is gone: never the cause.
_SECONDARY = re.compile(
    r"[Cc]onnection (?:closed|reset) by peer|remote process exited|communicator was aborted|[Bb]roken pipe"
    r"|connectFullMesh failed|SignalException|Timed out waiting|operation timeout|Connection refused"
)
_ROOT_CAUSE = "Root Cause (first observed failure)"
_LABEL = re.compile(r"[ \t]*[0-9]{1,5}: ")


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The failure that torchrun saw first; a negative exit code is a signal.

    `time` is torchrun's own text, which sorts; `error_file` the end of the path that it names.
    """

    rank: int
    local_rank: int | None
    exit_code: int | None
    pid: int | None = None
    time: str = ""
    error_file: str | None = None


@dataclass(frozen=True, slots=True)
class ErrorFile:
    """What `@record` wrote for one rank; `order` sorts by when, `is_secondary`: it only lost its neighbour."""

    path: str
    local_rank: int
    rank: int | None
    exception: str
    traceback: tuple[str, ...]
    order: tuple[int, int]
    is_secondary: bool

    def is_of(self, failure: RankFailure) -> bool:
        """Ranks of several nodes have the same number on their node."""
        if failure.error_file is not None:
            return _end_of(self.path) == failure.error_file
        if self.rank is not None:
            return self.rank == failure.rank
        return self.local_rank == failure.local_rank


@dataclass(frozen=True, slots=True)
class MemoryKills:
    """What the kernel's memory killer did while the training ran; see `launch.memory_kills`.

    `counted` is how often, for `group` (the training's control group) and `machine`; `named` the pids in the kernel's
    log; `leader` the pid of the training's first process.
    """

    counted: Mapping[str, int] = field(default_factory=dict)
    named: Set[int] = frozenset()
    leader: int | None = None


def find(run_dir: str, code: int, *, memory_kills: MemoryKills | None = None, orphans: int = 0) -> str | None:
    """One sentence on why the leader ended with `code` (negative: by that signal), or None where nothing tells.

    `orphans` is how many processes the leader left behind.
    """
    failure = examine(run_dir, code, memory_kills=memory_kills, orphans=orphans)
    return failure.words if failure is not None else None


def examine(
    run_dir: str, code: int | None, *, memory_kills: MemoryKills | None = None, orphans: int = 0
) -> Failure | None:
    """As `find`, with the rank, its exception, the traceback and the file that it stands in.

    `code` is None where nobody saw the end: then a traceback in the output counts only where the output ends with it.
    """
    kills = memory_kills or MemoryKills()
    if code is not None and code < 0:
        told = describe_signal(-code, kills, kills.leader)
        told = f"{told}; the {orphans} processes that it left were told to save and end" if orphans else told
        return Failure(words=told)
    seen = rank_failures(run_dir)
    files = newest_error_files(run_dir)
    told_by = [one for one in files if not any(one.is_of(rank) and _is_killed(run_dir, rank, files) for rank in seen)]
    first = _first(run_dir, seen, told_by)
    if first is not None and first.exit_code is not None and _is_killed(run_dir, first, files):
        words = f"rank {first.rank} was {describe_signal(-first.exit_code, kills, first.pid)}"
        return Failure(words=words, rank=first.rank, where=_output_of(run_dir, first))
    if first is None and told_by:
        # torchrun itself had no time to report: the file that was written first.
        return _told(run_dir, None, told_by[0])
    if first is not None and (own := next((one for one in told_by if one.is_of(first)), None)):
        return _told(run_dir, first, own)
    if first is None and code is None:
        return _by_last_lines(run_dir)
    return _by_traceback(run_dir, first, code)


def _by_last_lines(run_dir: str) -> Failure | None:
    """The error that the output of a rank, or the log, ends with."""
    outputs = list(_find(os.path.join(run_dir, RANKS), "stderr.log"))
    newest = max(map(_attempt_of, outputs), default=-1)
    for path in [*(one for one in outputs if _attempt_of(one) == newest), os.path.join(run_dir, LOG)]:
        found = _ending(path, skip_launcher=True, last_lines=LAST_LINES)
        if found is None or not found.is_near_the_end or _SECONDARY.search(found.head):
            continue
        local_rank = os.path.basename(os.path.dirname(path))
        whose = f"the output of local rank {local_rank}" if local_rank.isdecimal() and path in outputs else "its log"
        return Failure(
            words=f"{whose} ends with {brief(found.head)}",
            exception=found.head,
            traceback=found.shown(),
            where=os.path.relpath(path, run_dir),
        )
    return None


# What torchrun sends to all others when a rank is gone, and what the libraries' threads make of an exception.
_AFTERWARDS = (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGABRT)


def _is_killed(run_dir: str, one: RankFailure, files: Sequence[ErrorFile]) -> bool:
    """Did a signal end it, and not an error of its own, on the way out from which it got one?"""
    if one.exit_code is None or one.exit_code >= 0:
        return False
    if one.exit_code in _AFTERWARDS and any(file.is_of(one) for file in files):
        return False
    return one.exit_code != -signal.SIGABRT or not _ends_with_traceback(run_dir, one)


def _ends_with_traceback(run_dir: str, one: RankFailure) -> bool:
    found = _last_traceback_of(run_dir, one, own_alone=True)
    return found is not None and found.is_surely_why


def _first(run_dir: str, seen: Sequence[RankFailure], told_by: Sequence[ErrorFile]) -> RankFailure | None:
    """The failure that the others followed from.

    torchrun compares whole seconds, and on several nodes each agent only its own ranks, so that what it calls the root
    cause may be a rank that only lost its neighbour. A rank that died of a signal that torchrun didn't send, or that
    raised an error of its own first, comes before it.
    """

    def is_secondary(one: RankFailure) -> bool:
        if (file := next((file for file in told_by if file.is_of(one)), None)) is not None:
            return file.is_secondary
        if one.exit_code == -signal.SIGTERM:
            return True
        found = _last_traceback_of(run_dir, one) if one.exit_code == 1 else None
        return found is not None and found.is_surely_why and _SECONDARY.search(found.traceback.head) is not None

    if not seen:
        return None
    root = seen[0]
    killed = [one for one in seen if one.exit_code != -signal.SIGTERM and _is_killed(run_dir, one, told_by)]
    if killed and is_secondary(root):
        return killed[0]
    if told_by and not told_by[0].is_of(root) and not told_by[0].is_secondary:
        return next((one for one in seen if told_by[0].is_of(one)), root)
    return next((one for one in seen if not is_secondary(one)), root)


def _told(run_dir: str, failure: RankFailure | None, file: ErrorFile) -> Failure:
    """As the rank's own error file has it; the same traceback in its output, where it is there, can be gone to."""
    rank = failure.rank if failure is not None else file.rank
    if rank is None and len(_names(os.path.join(run_dir, RANKS))) == 1:
        rank = file.local_rank  # one agent: the rank on its node is the rank
    output = os.path.join(os.path.dirname(file.path), "stderr.log")
    where = output if last_traceback(_tail(output)) else file.path
    who = f"rank {rank}" if rank is not None else f"local rank {file.local_rank}"
    return Failure(
        words=f"{who}: {brief(file.exception)}",
        rank=rank,
        exception=file.exception,
        traceback=file.traceback,
        where=os.path.relpath(where, run_dir),
    )


def _by_traceback(run_dir: str, failure: RankFailure | None, code: int | None) -> Failure | None:
    """The last traceback of the failed rank's output, else of the log.

    Only where the exit code is Python's for one: what a script printed before it ended with a code of its own need not
    be why.
    """
    exit_code = failure.exit_code if failure is not None and failure.exit_code is not None else code
    found = _last_traceback_of(run_dir, failure) if exit_code in (1, -signal.SIGABRT) else None
    usage = _usage_error(run_dir, failure) if exit_code == 2 else None
    said = _last_words(run_dir, failure) if exit_code == 1 and found is None else None
    rank, who = (failure.rank, f"rank {failure.rank}: ") if failure is not None else (None, "")
    if found is not None and found.is_surely_why:
        one = found.traceback
        return Failure(
            words=who + brief(one.head), rank=rank, exception=one.head, traceback=one.shown(), where=found.where
        )
    if found is not None:
        return Failure(words=who + found.words_where_unsure(), rank=rank, where=found.where)
    if (told := usage or said) is not None:
        return Failure(words=who + told[0], rank=rank, where=told[1])
    if failure is None:
        return None
    ended = f"ended with exit code {exit_code}" if failure.exit_code else "failed"
    return Failure(words=f"rank {rank} {ended}", rank=rank, where=_output_of(run_dir, failure))


def describe_signal(number: int, kills: MemoryKills | None = None, pid: int | None = None) -> str:
    """`killed by signal 9 (…)`: for SIGKILL with what can be known of the memory killer.

    "Out of memory" only where the kernel names the process or counted a kill in its control group.
    """
    kills = kills or MemoryKills()
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    if number != signal.SIGKILL:
        return f"killed by signal {number} ({name})"
    if pid is not None and pid in kills.named:
        return "killed by signal 9: out of memory (the kernel's log names it)"
    if kills.counted.get("group", 0) > 0:
        return "killed by signal 9: out of memory (the kernel's memory killer struck in its control group)"
    if kills.counted.get("machine", 0) > 0:
        return "killed by signal 9, perhaps by the kernel's memory killer: it struck on this machine meanwhile"
    return "killed by signal 9 that nobody here sent (an administrator, or the memory killer of a container)"


def rank_failure(run_dir: str) -> RankFailure | None:
    """The root cause in the table that torchrun prints when a worker failed."""
    return next(iter(rank_failures(run_dir)), None)


def rank_failures(run_dir: str) -> list[RankFailure]:
    """Every rank in that table, the root cause first; of the agents of several nodes the earliest root cause."""
    tables = [_table(text) for text in _agents(_tail(os.path.join(run_dir, LOG)))]
    roots = sorted((table[0] for table in tables if table), key=lambda one: one.time)
    return [*roots, *(one for table in tables for one in table[1:])]


def _agents(text: str) -> list[str]:
    """What each agent printed, where `srun --label` says which did; else all of it."""
    agents: dict[str, list[str]] = {}
    for line in lines_of(text):
        if label := _LABEL.match(line):
            agents.setdefault(label[0], []).append(line[label.end() :])
    found = ["\n".join(agents[label]) for label in sorted(agents)]
    return [one for one in found if f"\n{_ROOT_CAUSE}" in f"\n{one}"] or [text]


def _table(text: str) -> list[RankFailure]:
    others, found, root = text.rpartition(_ROOT_CAUSE)
    if not found:
        return []
    _, found, others = others.rpartition("Failures:")
    failures = [_failure(part) for part in (root, *(_ENTRY.split(others) if found else ()))]
    return [one for one in failures if one is not None]


def _failure(entry: str) -> RankFailure | None:
    rank = re.search(r"rank\s*:\s*([0-9]{1,9})(?:\s*\(local_rank:\s*([0-9]{1,9})\))?", entry)
    code = re.search(r"exitcode\s*:\s*(-?[0-9]{1,9})(?:\s*\(pid:\s*([0-9]{1,9})\))?", entry)
    began, path = re.search(r"time\s*:\s*(\S+)", entry), re.search(r"error_file\s*:\s*(/.*)", entry)
    if not rank:
        return None
    return RankFailure(
        rank=int(rank[1]),
        local_rank=int(rank[2]) if rank[2] else None,
        exit_code=int(code[1]) if code else None,
        pid=int(code[2]) if code and code[2] else None,
        time=began[1] if began else "",
        error_file=_end_of(path[1].rstrip()) if path else None,
    )


def _end_of(path: str) -> str:
    """Agent, attempt, rank and name: the run may have been moved since."""
    return os.sep.join(path.split(os.sep)[-4:])


# What the ranks wrote


def newest_error_files(run_dir: str) -> list[ErrorFile]:
    """The error files of the newest attempt, the one that came first at the front; `@record` writes them.

    What only lost its neighbour comes after what failed by itself. An older attempt's error was got over by a restart.
    """
    attempts: dict[int, list[str]] = {}
    for where, directories, names in os.walk(os.path.join(run_dir, RANKS)):
        directories.sort()
        if attempt := _ATTEMPT.fullmatch(os.path.basename(os.path.dirname(where))):
            paths = attempts.setdefault(int(attempt[1]), [])
            paths += [os.path.join(where, _ERROR_FILE)] if _ERROR_FILE in names else []
    newest = attempts[max(attempts)] if attempts else []
    found = [one for path in newest if (one := _error_file(path)) is not None]
    return sorted(found, key=lambda one: (one.is_secondary, one.order))


def _error_file(path: str) -> ErrorFile | None:
    document, _ = read_document(path)
    local_rank = os.path.basename(os.path.dirname(path))
    if document is None or not local_rank.isdecimal():
        return None
    exception, callstack, timestamp = _contents(document)
    if not exception:
        return None
    try:
        written = os.stat(path).st_mtime_ns
    except OSError:
        return None
    ranks = _ranks_in(os.path.join(os.path.dirname(path), "stderr.log"))
    return ErrorFile(
        path=path,
        local_rank=int(local_rank),
        rank=ranks.pop() if len(ranks) == 1 else None,
        exception=exception,
        traceback=tracebacks.shown(lines_of(callstack.rstrip())),
        # torch writes whole seconds; within one of them the file's own time tells more.
        order=(timestamp if timestamp is not None else written // 1_000_000_000, written),
        is_secondary=_SECONDARY.search(exception) is not None,
    )


def _contents(document: dict[str, object]) -> tuple[str | None, str, int | None]:
    """(exception, callstack, unix seconds) in the shapes that torch's versions write."""
    told = document.get("message")
    if isinstance(told, str):
        # Some torch versions put JSON into the text.
        try:
            told = json.loads(told) if told.startswith("{") else told
        except (ValueError, RecursionError):
            return short(str(told)), "", None
    more = told.get("extraInfo") if isinstance(told, dict) else document
    told = told.get("message") if isinstance(told, dict) else told
    more = more if isinstance(more, dict) else {}
    callstack, stamp = more.get("py_callstack"), str(more.get("timestamp", ""))
    seconds = int(stamp) if stamp.isascii() and stamp.isdigit() and len(stamp) < 12 else None
    return short(told) if isinstance(told, str) else None, callstack if isinstance(callstack, str) else "", seconds


@dataclass(frozen=True, slots=True)
class _Found:
    """A traceback in a file of the run."""

    traceback: Traceback
    where: str

    @property
    def is_surely_why(self) -> bool:
        """One that a training printed long before it ended was got over: then something else ended it."""
        return self.traceback.is_near_the_end

    def words_where_unsure(self) -> str:
        last_words = short(self.traceback.last_words)[:LONGEST_WORDS]
        return f'the output ends with "{last_words}", long after {self.traceback.head}'


def _outputs_of(run_dir: str, failure: RankFailure | None) -> list[str]:
    """The failed rank's own outputs, newest attempt first."""
    if failure is None:
        return []
    found = [path for path in _find(os.path.join(run_dir, RANKS), "stderr.log") if _is_of(path, failure)]
    return sorted(found, key=_attempt_of, reverse=True)


def _last_traceback_of(run_dir: str, failure: RankFailure | None, *, own_alone: bool = False) -> _Found | None:
    """The last traceback in the failed rank's own output, newest attempt first; then in the log."""
    for path in [*_outputs_of(run_dir, failure), *(() if own_alone else (os.path.join(run_dir, LOG),))]:
        found = _ending(path, skip_launcher=failure is not None or path.endswith(LOG))
        if found is not None:
            return _Found(found, os.path.relpath(path, run_dir))
    return None


def _usage_error(run_dir: str, failure: RankFailure | None) -> tuple[str, str] | None:
    """What `argparse` said of the arguments, and in which file."""
    for path in [*_outputs_of(run_dir, failure)[:1], os.path.join(run_dir, LOG)]:
        if (words := tracebacks.usage_error(_tail(path))) is not None:
            return words, os.path.relpath(path, run_dir)
    return None


def _last_words(run_dir: str, failure: RankFailure | None) -> tuple[str, str] | None:
    """What a script said at its end without a traceback, and in which file; of ranks only their own outputs tell."""
    if failure is None and os.path.isdir(os.path.join(run_dir, RANKS)):
        return None
    for path in _outputs_of(run_dir, failure)[:1] if failure is not None else (os.path.join(run_dir, LOG),):
        if (words := tracebacks.last_words(_tail(path))) is not None:
            return f'the output ends with "{words[:LONGEST_WORDS]}"', os.path.relpath(path, run_dir)
    return None


def _output_of(run_dir: str, failure: RankFailure) -> str | None:
    """The rank's own output in its newest attempt, where it holds anything."""
    newest = next(iter(_outputs_of(run_dir, failure)), None)
    return os.path.relpath(newest, run_dir) if newest is not None and _tail(newest) else None


def _is_of(path: str, failure: RankFailure) -> bool:
    """By the rank on its node; where the output says which rank it is of all, by that as well."""
    if os.path.basename(os.path.dirname(path)) != str(failure.local_rank):
        return False
    told = _ranks_in(path)
    return not told or failure.rank in told


def _ranks_in(path: str) -> set[int]:
    return {int(rank) for rank in _TORCH_RANK.findall(_tail(path))}


def _attempt_of(path: str) -> int:
    attempt = _ATTEMPT.fullmatch(os.path.basename(os.path.dirname(os.path.dirname(path))))
    return int(attempt[1]) if attempt else -1


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _find(directory: str, name: str) -> Iterator[str]:
    """Every file `name` below `directory`, in the order of the names; links are not followed."""
    for where, directories, names in os.walk(directory):
        directories.sort()
        if name in names:
            yield os.path.join(where, name)


def _ending(path: str, *, skip_launcher: bool, last_lines: int = 0) -> Traceback | None:
    """The last traceback of the file, which may be far from its end where an exception prints a whole tensor."""
    text = ""
    for size in (TAIL_BYTES, LONG_TAIL_BYTES):
        before, text = len(text), _tail(path, size)
        if len(text) == before:  # that was the whole file
            break
        looked_at = tracebacks.last_lines(text, last_lines) if last_lines else text
        if (found := tracebacks.last(looked_at, skip_launcher=skip_launcher)) is not None:
            return found
    return None


def _tail(path: str, size: int = TAIL_BYTES) -> str:
    try:
        descriptor = open_regular(path)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        file.seek(max(0, os.fstat(descriptor).st_size - size))
        return file.read(size).decode("utf-8", "replace")
