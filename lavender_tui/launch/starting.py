"""Start a training through its supervisor, and know what became of it before returning."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any

from lavender_tui.config import load
from lavender_tui.errors import AlreadyRunning, LaunchFailed, ResumedAlready
from lavender_tui.launch import environment, identity, journal, living, rendezvous, slurm
from lavender_tui.launch.arguments import parse
from lavender_tui.launch.files import EXIT, LAUNCH, LOCK, LOG, encode
from lavender_tui.launch.followers import is_resumed_from, noted_as_resumed_from, places_beside
from lavender_tui.launch.record import LaunchRecord, examine_launch, new_run_id, read_launch, record_mode
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Lineage

# What a start that failed may have left in the run's directory.
OUR_NAMES = (LAUNCH, EXIT, LOCK, LOG)
# Executed by its path, so that nothing of this environment is imported.
ENTRY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "supervise.py")
_REPORT_BYTES = 64 * 1024
SETTLING_SECONDS = 5.0


def start(
    launch: Launch,
    run_dir: str,
    *,
    run_id: str | None = None,
    resumed_from: Lineage | None = None,
    world_size: int | None = None,
    command: Sequence[str] = (),
    grace: float | None = None,
    again: bool = False,
    log_mb: float | None = None,
    node_of: str | None = None,
) -> LaunchRecord:
    """Start the training of `run_dir` in a session of its own, and return its record once its program runs.

    Nobody's end ends it: not that of this process, of the terminal, or of the supervisor. `command` is what was asked
    for, placeholders unfilled; a later resume begins with it. `log_mb` (default: the setting) is how large a log may
    become before its older part is moved aside; 0: without limit. `grace` (seconds; default: the setting) is how long
    it may take to save and end. `node_of` is the run whose further node this is: its processes are that run's, and
    `run_dir` holds only this node's records. Raises AlreadyRunning where the directory was used for a start before, or
    (unless `again`) another resume of the same run lives; LaunchFailed where nothing could be started.
    """
    run_dir = os.path.abspath(run_dir)
    run_id = run_id or launch.env.get(living.RUN_ID) or new_run_id(run_dir)
    if resumed_from is not None and not again:
        refuse_second_resume(resumed_from.run, [os.path.dirname(run_dir)], but=run_dir)
    facts: dict[str, Any] = {
        "run_id": run_id,
        "resumed_from": resumed_from,
        "world_size": world_size,
        "command": command,
        "grace": load()[0].grace_seconds if grace is None else grace,
    }
    order = _order(launch, run_dir, log_mb=log_mb, node_of=node_of, **facts)
    _check(order)
    if launch.backend == slurm.NAME:
        return _noted(slurm.submit(launch, run_dir, **facts), run_dir, None)
    if node_of is None and order.get("rdzv"):
        rendezvous.refuse_taken(order["rdzv"]["endpoint"])
    return _noted(_begin(run_dir, order), run_dir, node_of)


def _order(
    launch: Launch,
    run_dir: str,
    *,
    run_id: str,
    resumed_from: Lineage | None,
    world_size: int | None,
    command: Sequence[str],
    grace: float,
    log_mb: float | None,
    node_of: str | None,
) -> dict[str, Any]:
    """What the supervisor is told; see `start`."""
    env = {**launch.env, living.RUN_ID: run_id, living.RUN_DIR: node_of or run_dir}
    came_from = None if resumed_from is None else {"run": resumed_from.run, "checkpoint": resumed_from.checkpoint}
    return {
        "run_id": run_id,
        "backend": launch.backend,
        "argv": list(launch.argv),
        "command": list(command),
        "cwd": os.path.abspath(launch.cwd),
        "env": env,
        "recorded_env": environment.set_by_us(env),
        "world_size": world_size if world_size is not None else _processes(launch),
        "resumed_from": came_from,
        "grace": grace,
        "log_bytes": int((load()[0].log_mb if log_mb is None else log_mb) * 1e6),
        "record_mode": record_mode((*launch.argv, *command)),
        "facts": {"environment": environment.recorded(environment.clean_environment()), "started_by": journal.person()},
        **_of_several_nodes(launch, node_of or run_dir),
    }


def _begin(run_dir: str, order: dict[str, Any]) -> LaunchRecord:
    """Start the supervisor; the record, once the program runs."""
    report = _run_supervisor(run_dir, order)
    record, reason = examine_launch(run_dir)
    if not report and record is not None and _runs_without_supervisor(record):
        return record
    _raise_unless_started(report, run_dir)
    if record is None:
        raise LaunchFailed(f"the launch record {reason or 'is gone'}", where=os.path.join(run_dir, LAUNCH))
    return record


def _noted(record: LaunchRecord, run_dir: str, node_of: str | None) -> LaunchRecord:
    """The record, its start noted in the root's journal."""
    node = {"node": os.path.basename(run_dir)} if node_of is not None else {}
    run_dir = node_of or run_dir
    came_from = record.resumed_from
    facts = {**record.identity, "world_size": record.world_size, "backend": record.backend, **node}
    if came_from is None:
        journal.note(journal.root_of(run_dir), "launched", run=run_dir, **facts)
        return record
    facts |= {"from": came_from.run, "checkpoint": came_from.checkpoint}
    # In the old run's journal, too: whoever deletes checkpoints there must know what was resumed elsewhere.
    for root in places_beside(came_from.run, (journal.root_of(run_dir),)):
        journal.note(root, "resumed", run=run_dir, **facts)
    return record


def _of_several_nodes(launch: Launch, run_dir: str) -> dict[str, Any]:
    """What the supervisor of one node of several is told besides; nothing for a run of one host."""
    command = parse(launch.argv)
    nnodes, endpoint = command.option("--nnodes"), command.option("--rdzv-endpoint")
    if nnodes is None or endpoint is None or nnodes in ("1", "1:1"):
        return {}
    rdzv = {"endpoint": endpoint, "id": command.option("--rdzv-id") or "none", "nnodes": nnodes}
    may_come_back = ":" in nnodes or command.option("--max-restarts") not in (None, "0")
    return {"run": run_dir, "waits": may_come_back, "nodes": _most(nnodes), "rdzv": rdzv}


def _processes(launch: Launch) -> int | None:
    """How many ranks the words say, where they say it."""
    command = parse(launch.argv)
    each, nodes = command.option("--nproc-per-node"), command.option("--nnodes")
    if each is None:
        return 1 if launch.backend == "local" else None
    ranks, hosts = _most(each), _most(nodes or "1")
    return ranks * hosts if ranks is not None and hosts is not None else None


def _most(told: str) -> int | None:
    """The larger number of torchrun's `4` or `1:4`; None for its words (gpu, auto)."""
    number = told.rpartition(":")[2]
    return int(number) if number.isascii() and number.isdigit() and len(number) < 8 else None


def _check(order: dict[str, Any]) -> None:
    """What the kernel would refuse without a word of what it was."""
    if not order["argv"] or not order["argv"][0]:
        raise LaunchFailed("the command is empty", hint="Give one after `--`")
    for text in (*order["argv"], order["cwd"], *order["env"], *order["env"].values()):
        if "\0" in text:
            raise LaunchFailed("a command can't hold a NUL character", hint="Check the command and its environment")


def _run_supervisor(run_dir: str, order: dict[str, Any]) -> dict[str, Any]:
    """Start the supervisor detached and return what it reports; an empty report means that it died before it could."""
    if not sys.executable:
        raise LaunchFailed(
            "the Python interpreter that runs this program is not known", hint="Start it by its full path"
        )
    try:
        reads, writes = os.pipe()
    except OSError as error:
        raise _no_supervisor(error) from error
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", ENTRY, run_dir, "--detach", "--report", str(writes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=(writes,),
            env=environment.outside_of_runs(),
        )
    except OSError as error:
        os.close(reads)
        raise _no_supervisor(error) from error
    finally:
        os.close(writes)
    with open(reads, "rb") as report:
        process.communicate(encode(order))
        told = report.read(_REPORT_BYTES)
    try:
        return json.loads(told) if told else {}
    except ValueError:
        return {}


def _no_supervisor(error: OSError) -> LaunchFailed:
    return LaunchFailed(f"the supervisor can't be started ({error.strerror or error})", where=sys.executable)


def _runs_without_supervisor(record: LaunchRecord) -> bool:
    """The supervisor was killed in the instant of the start: did its child become the training, or did it end too?

    Only what was executed has the run's id in the environment that the kernel shows.
    """
    mark = os.fsencode(f"{living.RUN_ID}={record.run_id}")
    deadline = time.monotonic() + SETTLING_SECONDS
    leader = record.leader
    while leader is not None and leader.is_alive and time.monotonic() < deadline:
        if mark in identity.raw_environment(leader.pid):
            return True
        time.sleep(0.005)
    return False


def _raise_unless_started(report: dict[str, Any], run_dir: str) -> None:
    if report.get("ok"):
        return
    if not report:
        raise LaunchFailed("the supervisor died while it started the training", where=run_dir)
    hint = report.get("hint") or None
    if report.get("error") == "taken":
        raise AlreadyRunning(report["what"], hint=hint)
    raise LaunchFailed(report["what"], hint=hint)


def refuse_second_resume(old_run: str, roots: Iterable[str], *, but: str | None = None) -> None:
    """Raise ResumedAlready where a live run was resumed from it: under one of the `roots`, beside the old run however
    that is called, or in another root as the journal has it."""
    for run_dir in _beside(old_run, roots):
        if but is not None and os.path.realpath(run_dir) == os.path.realpath(but):
            continue
        if is_resumed_from(run_dir, old_run) and living.is_alive(run_dir):
            record = read_launch(run_dir)
            who = record.known_as if record is not None else "another user's"
            raise ResumedAlready(
                f"this run is resumed already, as {os.path.basename(run_dir)} ({who}), which lives",
                where=old_run,
                hint="Stop that one first, or resume from it",
            )


def _beside(old_run: str, roots: Iterable[str]) -> list[str]:
    """The directories that may be a resume of `old_run`, each once."""
    found = dict.fromkeys(noted_as_resumed_from(old_run), True)
    for root in places_beside(old_run, roots):
        try:
            with os.scandir(root) as entries:
                for entry in entries:
                    if entry.is_dir():
                        found[entry.path] = True
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
                raise LaunchFailed(f"can't be read ({error.strerror})", where=root) from error
    return list(found)
