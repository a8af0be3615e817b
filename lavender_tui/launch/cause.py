"""Why a training ended badly, in one sentence: from its ranks' error files, torchrun's own report, or its traceback.

torchrun exits with 1 whatever happened, so the exit code alone says nothing. Everything read here was written by the
training: it is text to be shown escaped, nothing more. Standard library only; the supervisor imports it at the end.
"""

from __future__ import annotations

import json
import os
import re
import signal
import stat
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from lavender_tui.launch.files import LOG, RANKS, read_document

TAIL_BYTES = 256 * 1024
LONGEST = 400  # characters of a message from a training
# torchrun puts "[default0]:" before a line of rank 0, torch itself "[rank0]:".
_PREFIXES = re.compile(r"^(?:\[[A-Za-z_]+[0-9]+\]:\s?)+")
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|[A-Z]\w+)\b.*")


@dataclass(frozen=True, slots=True)
class RankFailure:
    """The failure that torchrun saw first; a negative exit code is a signal."""

    rank: int
    local_rank: int | None
    exit_code: int | None
    pid: int | None = None


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
    kills = memory_kills or MemoryKills()
    if code < 0:
        told = describe_signal(-code, kills, kills.leader)
        return f"{told}; the {orphans} processes that it left were told to save and end" if orphans else told
    failure = rank_failure(run_dir)
    message = _error_file(run_dir, failure) or _traceback_of(run_dir, failure)
    if failure is None:
        return message
    who = f"rank {failure.rank}"
    if failure.exit_code is not None and failure.exit_code < 0:
        return f"{who} was {describe_signal(-failure.exit_code, kills, failure.pid)}"
    if message:
        return f"{who}: {message}"
    return f"{who} ended with exit code {failure.exit_code}" if failure.exit_code is not None else f"{who} failed"


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
    text = _tail(os.path.join(run_dir, LOG))
    _, found, table = text.rpartition("Root Cause (first observed failure)")
    if not found:
        return None
    rank = re.search(r"rank\s*:\s*([0-9]{1,9})(?:\s*\(local_rank:\s*([0-9]{1,9})\))?", table)
    code = re.search(r"exitcode\s*:\s*(-?[0-9]{1,9})(?:\s*\(pid:\s*([0-9]{1,9})\))?", table)
    if not rank:
        return None
    return RankFailure(
        rank=int(rank[1]),
        local_rank=int(rank[2]) if rank[2] else None,
        exit_code=int(code[1]) if code else None,
        pid=int(code[2]) if code and code[2] else None,
    )


def _error_file(run_dir: str, failure: RankFailure | None) -> str | None:
    """The message of the failed rank's `error.json`, else of the one written first."""
    dated = []
    for path in _find(os.path.join(run_dir, RANKS), "error.json"):
        document, _ = read_document(path)
        if document is not None and (message := _message(document)):
            is_the_one = failure is not None and os.path.basename(os.path.dirname(path)) == str(failure.local_rank)
            dated.append((not is_the_one, os.stat(path).st_mtime_ns, message))
    return min(dated)[2] if dated else None


def _message(document: dict[str, object]) -> str | None:
    told = document.get("message")
    if isinstance(told, str):
        # Some torch versions put JSON into the text.
        try:
            told = json.loads(told) if told.startswith("{") else told
        except (ValueError, RecursionError):
            return _short(told)
    if isinstance(told, dict):
        told = told.get("message")
    return _short(told) if isinstance(told, str) else None


def _traceback_of(run_dir: str, failure: RankFailure | None) -> str | None:
    """The last line of the last traceback, in the failed rank's own output first."""
    candidates = []
    if failure is not None:
        candidates = [
            path
            for path in _find(os.path.join(run_dir, RANKS), "stderr.log")
            if os.path.basename(os.path.dirname(path)) == str(failure.local_rank)
        ]
    for path in [*reversed(candidates), os.path.join(run_dir, LOG)]:
        if message := last_traceback(_tail(path), skip_launcher=failure is not None or path.endswith(LOG)):
            return message
    return None


def last_traceback(text: str, *, skip_launcher: bool = False) -> str | None:
    """The error line of the last traceback in `text`; torchrun's own, that only says that a worker failed, left out."""
    found, inside = None, False
    for raw in text.splitlines():
        line = _PREFIXES.sub("", raw)
        if line.startswith("Traceback (most recent call last):"):
            inside = True
        elif inside and line and not line[0].isspace() and _ERROR_LINE.match(line):
            inside = False
            if not (skip_launcher and line.startswith("torch.distributed.elastic.")):
                found = line
    return _short(found) if found else None


def _find(directory: str, name: str) -> Iterator[str]:
    """Every file `name` below `directory`, in the order of the names; links are not followed."""
    for where, directories, names in os.walk(directory):
        directories.sort()
        if name in names:
            yield os.path.join(where, name)


def _tail(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return ""
        file.seek(max(0, facts.st_size - TAIL_BYTES))
        return file.read(TAIL_BYTES).decode("utf-8", "replace")


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
