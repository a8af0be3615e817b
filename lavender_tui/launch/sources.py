"""Where the command of a resume comes from: the user, the project's settings, the run's record, its process."""

from __future__ import annotations

import os
import shlex
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from lavender_tui.errors import UsageError
from lavender_tui.launch import environment
from lavender_tui.launch.arguments import Kind, parse
from lavender_tui.launch.files import LAUNCH
from lavender_tui.launch.record import LaunchRecord, is_same_process, read_launch
from lavender_tui.launch.seen import Seen
from lavender_tui.launch.seen import read as read_seen
from lavender_tui.model import command_line
from lavender_tui.model.plan import PLAN_NAME
from lavender_tui.model.run import LiveProcess, Run

PYPROJECT, OWN_FILE, TABLE = "pyproject.toml", "lavender.toml", "lavender-tui"
SETTINGS = frozenset({"command", "cwd", "backend", "env", "slurm"})
_ROLES = ("agent", "process", "worker")  # whose command line starts the whole again, best first


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandSource:
    """A command with its placeholders unfilled, the directory that it starts in, and `where` it was found, in words.

    `env` is set whatever the shell says; `remembered` are variables of the run before that this shell doesn't set.
    """

    argv: tuple[str, ...]
    cwd: str
    where: str
    backend: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    remembered: Mapping[str, str] = field(default_factory=dict)
    slurm: Mapping[str, Any] = field(default_factory=dict)  # the project's table [slurm]


def find_command(run: Run | None, *, explicit: Sequence[str] = (), project_dir: str | None = None) -> CommandSource:
    """The first of: `explicit` (given after `--`), the project's settings, the run's launch record, its live process,
    and what is remembered of one that was started by hand.

    The settings are `[tool.lavender-tui]` in the training project's `pyproject.toml`, or a `lavender.toml` with the
    same keys: `command` (a text, split as a shell would, or a list), `cwd` (relative to that file), `backend`, `env` (a
    table of texts), `slurm` (a table, as in our own settings). The project is the nearest directory at or above
    `project_dir` (default: the current one), or above the run's recorded working directory, that has one of the two
    files or a `.git`. Raises UsageError where nothing is found.
    """
    record = read_launch(run.path) if run is not None else None
    seen = read_seen(run.path) if run is not None and record is None else None
    here = os.path.abspath(project_dir or os.getcwd())
    found = _first(run, record, seen, tuple(explicit), here)
    found = replace(found, slurm=found.slurm or _project_slurm(here, found.cwd))
    if seen is not None:
        return replace(found, remembered=environment.restored(seen))
    return found if run is None or record is None else replace(found, remembered=_remembered(run.path, record))


def _first(
    run: Run | None, record: LaunchRecord | None, seen: Seen | None, explicit: tuple[str, ...], here: str
) -> CommandSource:
    if explicit:
        return CommandSource(argv=explicit, cwd=here, where="given after --")
    searches: tuple[Callable[[], CommandSource | None], ...] = (
        lambda: _from_project(here),
        lambda: _from_project(started.cwd) if (started := record or seen) is not None else None,
        lambda: _from_record(record) if record is not None else None,
        lambda: _from_process(run) if run is not None else None,
        lambda: _from_seen(seen) if seen is not None else None,
    )
    for search in searches:
        if found := search():
            return found
    raise UsageError(
        "the command that starts this training is not known",
        where=run.path if run is not None else None,
        hint="Give it after `--` (-- python train.py), or as `command` in [tool.lavender-tui] of pyproject.toml",
    )


def _remembered(run_dir: str, record: LaunchRecord) -> dict[str, str]:
    """What the run before had in its environment. A stranger's record has no say in what a training is started with."""
    try:
        owner = os.stat(os.path.join(run_dir, LAUNCH)).st_uid
    except OSError:
        return {}
    return environment.restored(record) if owner in (0, os.getuid()) else {}


# The project's settings


def _from_project(directory: str) -> CommandSource | None:
    for path in _settings_files(directory):
        table = _table(path)
        source = _from_table(table, path) if table else None
        if source is not None:
            return source
    return None


def _project_slurm(*directories: str) -> Mapping[str, Any]:
    """The table [slurm] of the nearest project that has one, whatever says the command."""
    for path in (path for directory in directories for path in _settings_files(directory)):
        table = (_table(path) or {}).get("slurm")
        if isinstance(table, dict) and table:
            return table
    return {}


def _settings_files(directory: str) -> Iterator[str]:
    """The settings files of the nearest project at or above `directory`."""
    while True:
        found = [path for name in (OWN_FILE, PYPROJECT) if os.path.isfile(path := os.path.join(directory, name))]
        if found or os.path.exists(os.path.join(directory, ".git")):
            yield from found
            return
        parent = os.path.dirname(directory)
        if parent == directory:
            return
        directory = parent


def _table(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            owner = os.fstat(file.fileno())
            document = tomllib.load(file)
    except OSError:
        return None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"this is no valid TOML ({error})", where=path, hint="Correct the file") from error
    table = document if os.path.basename(path) == OWN_FILE else document.get("tool", {})
    if os.path.basename(path) == PYPROJECT:
        table = table.get(TABLE) if isinstance(table, dict) else None
    if not isinstance(table, dict) or not table:
        return None
    # What it says will be executed: a file that a stranger put above us (as in /tmp) has no say.
    if owner.st_uid not in (0, os.getuid()):
        return None
    return table


def _from_table(table: dict[str, Any], path: str) -> CommandSource | None:
    unknown = sorted(set(table) - SETTINGS)
    if unknown:
        known = ", ".join(sorted(SETTINGS))
        raise UsageError(f"there is no setting {unknown[0]!r}", where=path, hint=f"The settings are {known}")
    if "command" not in table:
        return None
    command, env = table["command"], table.get("env", {})
    try:
        words = shlex.split(command) if isinstance(command, str) else command
    except ValueError as error:
        raise UsageError(f"`command` can't be split into words ({error})", where=path) from error
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise UsageError("`command` must be a text or a list of texts, and not empty", where=path)
    if not isinstance(env, dict) or not all(isinstance(value, str) for value in env.values()):
        raise UsageError("`env` must be a table of texts", where=path)
    if not isinstance(table.get("slurm", {}), dict):
        raise UsageError("`slurm` must be a table", where=path)
    for key in ("cwd", "backend"):
        if not isinstance(table.get(key, ""), str):
            raise UsageError(f"`{key}` must be a text", where=path)
    return CommandSource(
        argv=tuple(words),
        cwd=os.path.normpath(os.path.join(os.path.dirname(path), table.get("cwd", ""))),
        where=path,
        backend=table.get("backend"),
        env=env,
        slurm=table.get("slurm", {}),
    )


# The run's record


def _from_record(record: LaunchRecord) -> CommandSource | None:
    argv = record.command or _unfilled(record)
    if not argv:
        return None
    return CommandSource(
        argv=argv,
        cwd=record.cwd,
        where=f"the launch record of {os.path.basename(record.run_dir)}",
        # What ran on a cluster's nodes is not started on the machine that somebody happens to be logged in to.
        backend=_backend(record),
    )


def _backend(record: LaunchRecord) -> str | None:
    """Also what trained in a job of somebody's own goes on as a job, where one can be submitted from here."""
    if record.is_job_by_hand:
        return "slurm" if shutil.which("sbatch") else None
    return record.backend if record.slurm is not None else None


def _unfilled(record: LaunchRecord) -> tuple[str, ...]:
    """The executed words with what belonged to that one launch taken back: its checkpoint, its plan, its directory."""
    known = {record.run_dir: "{run_dir}", os.path.join(record.run_dir, PLAN_NAME): "{plan}"}
    if record.resumed_from is not None and record.resumed_from.checkpoint:
        known[record.resumed_from.checkpoint] = "{checkpoint}"
    return tuple(_take_back(word, known) for word in record.argv)


def _take_back(word: str, known: Mapping[str, str]) -> str:
    """A word, or the value of `--option=value`, that is exactly one of the known paths."""
    name, equals, value = word.partition("=")
    if word in known:
        return known[word]
    return f"{name}={known[value]}" if equals and value in known else word


# Its live process


def _from_process(run: Run) -> CommandSource | None:
    for role in _ROLES:
        for process in run.processes:
            if process.role == role and (found := _of_process(process)):
                return found
    return None


def _of_process(process: LiveProcess) -> CommandSource | None:
    """The command line of the process, or of the torchrun agent above it; None where it is gone or not ours to read."""
    import psutil

    try:
        live = psutil.Process(process.pid)
        parent = live.parent()
        if parent is not None and parse(parent.cmdline()).kind is Kind.TORCHRUN:
            live = parent
        argv, cwd = live.cmdline(), live.cwd()
    except psutil.Error:
        return None
    # Looked at last: were the pid another's by now, all that was read would be too.
    if not argv or not is_same_process(process.pid, process.start_ticks):
        return None
    return CommandSource(argv=tuple(argv), cwd=cwd, where=f"the live process {live.pid}")


# Its process as it lived


def _from_seen(seen: Seen) -> CommandSource:
    when = datetime.fromtimestamp(seen.started_at)
    by = f" by `{command_line.shown(seen.shell)}`" if seen.shell else ""
    where = f"its process, as it was started by hand{by} on {when:%Y-%m-%d} at {when:%H:%M} and is remembered"
    return CommandSource(argv=seen.argv, cwd=seen.cwd, where=where)
