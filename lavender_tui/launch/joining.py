"""A further host takes part in a run: the same command under a supervisor of its own, its records in `node-<k>/`."""

from __future__ import annotations

import os

from lavender_tui.errors import AlreadyRunning, LaunchFailed, NotFound, UsageError
from lavender_tui.launch import environment, nodes, torchrun
from lavender_tui.launch.record import LaunchRecord, examine_launch, read_exit
from lavender_tui.launch.run_dir import remove_if_untouched
from lavender_tui.launch.starting import OUR_NAMES, start
from lavender_tui.model import text
from lavender_tui.model.plan import Launch

TRIES = 10_000


def join(run_dir: str) -> LaunchRecord:
    """Start this host's part of a run that was launched for several, and return its record once its agent runs.

    The run's directory is shared, and has the same path here. Raises NotFound for what is no such run, UsageError for
    one of a single host or another path, AlreadyRunning where it is over or every node is there, LaunchFailed.
    """
    run_dir = os.path.abspath(run_dir)
    first = _first_node(run_dir)
    env = _environment(first)
    node_dir = _take_place(run_dir, first)
    launch = Launch(backend=first.backend, argv=torchrun.joining(first.argv, node_dir), cwd=first.cwd, env=env)
    try:
        return start(
            launch,
            node_dir,
            run_id=first.run_id,
            world_size=first.world_size,
            command=first.command,
            grace=first.grace_seconds or 30.0,
            node_of=run_dir,
        )
    except LaunchFailed:
        remove_if_untouched(node_dir, OUR_NAMES)
        raise


def _first_node(run_dir: str) -> LaunchRecord:
    record, reason = examine_launch(run_dir)
    if record is None:
        raise NotFound(f"its launch record {reason}" if reason else "there is no launch record", where=run_dir)
    if record.rdzv is None or not record.nodes or record.slurm is not None:
        raise UsageError("this run was started on one host", where=run_dir, hint="Resume with --nodes to use several")
    if os.path.realpath(record.run_dir) != os.path.realpath(run_dir):
        what = f"it was started as {text.clean(record.run_dir)}: its plan and logs are named by that path"
        raise UsageError(what, where=run_dir, hint="Mount it at the same path here")
    if (ended := read_exit(run_dir)) is not None:
        how = f": {text.clean(ended.error, 200)}" if ended.error else ""
        raise AlreadyRunning(f"the run has ended{how}", where=run_dir, hint="Resume it, and join the new run")
    if record.is_here and not record.is_alive:
        raise AlreadyRunning("its first node is gone", where=run_dir, hint="Resume it, and join the new run")
    return record


def _environment(first: LaunchRecord) -> dict[str, str]:
    """What was set for the first node; a secret that no record keeps is taken from this shell."""
    secret = environment.not_recorded(first.env)
    missing = [name for name in secret if name not in os.environ]
    if missing:
        raise UsageError(
            f"{', '.join(missing)} was set for the first node and is kept in no record", hint="Set it in this shell"
        )
    return {name: value for name, value in first.env.items() if name not in secret}


def _take_place(run_dir: str, first: LaunchRecord) -> str:
    """A directory for this node, made exclusively: mkdir decides between two that join at once."""
    assert first.nodes is not None
    for number in range(1, TRIES):
        path = os.path.join(run_dir, f"node-{number}")
        present = [place for _, place in nodes.directories(run_dir) if read_exit(place) is None]
        if len(present) >= first.nodes - 1:
            raise AlreadyRunning(f"all {first.nodes} nodes are there", where=run_dir)
        try:
            os.mkdir(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise LaunchFailed(f"can't be made ({error.strerror or error})", where=path) from error
        return path
    raise LaunchFailed(f"{TRIES:,} nodes have come and gone", where=run_dir)
