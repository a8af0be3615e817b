"""Which command starts the training again, and how it is made to fit another world_size. No shell sees it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lavender_tui import config
from lavender_tui.errors import UsageError
from lavender_tui.launch import local, rendezvous, slurm, torchrun
from lavender_tui.launch.arguments import Command, Kind, parse, set_world_size
from lavender_tui.launch.engine import Engine, Topology
from lavender_tui.launch.living import RUN_DIR, RUN_ID
from lavender_tui.launch.record import new_run_id
from lavender_tui.launch.sources import CommandSource, find_command
from lavender_tui.model import command_line, script_words
from lavender_tui.model.plan import Launch

__all__ = [
    "BACKENDS", "PLACEHOLDERS", "CommandSource", "Hosts", "build", "fill", "find_command", "notes", "set_world_size",
]  # fmt: skip

RESUME_PLAN = "LAVENDER_RESUME_PLAN"
PLACEHOLDERS = ("checkpoint", "plan", "state", "run_dir", "world_size", "stage", "start_epoch")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
# A path or a stage may hold anything; numbers can do no harm.
_FROM_DISK = re.compile(r"\{(checkpoint|plan|state|run_dir|stage)\}")
_ENGINES: dict[str, Engine] = {local.NAME: local, torchrun.NAME: torchrun, slurm.NAME: slurm}
BACKENDS = tuple(_ENGINES)


def startable() -> tuple[str, ...]:
    """The backends that can be used from this machine, from the largest to the smallest."""
    return (*((slurm.NAME,) if shutil.which("sbatch") else ()), torchrun.NAME, local.NAME)


def fill(words: Sequence[str], placeholders: Mapping[str, object]) -> tuple[str, ...]:
    """Put the values in the place of `{checkpoint}`, `{plan}`, …, literally and once; other braces stay as they are.

    Raises UsageError for a placeholder that has no value here.
    """
    return tuple(_PLACEHOLDER.sub(lambda match: _value(match[1], placeholders), word) for word in words)


def _refuse_misplaced(words: Sequence[str], where: str) -> None:
    """Raises UsageError for a path or a stage in what is read as a program, or may be: a part of it would be run."""
    if (found := script_words.misplaced(words, _FROM_DISK)) is None:
        return
    place = f"{{{found.name}}}"
    what = f"{place} stands in what {found.reader} reads as a program: a part of its name could be run"
    if not found.is_sure:
        what = f"{place} is given to {found.reader} where it may be read as a program: a part of its name could be run"
    example = f"sh -c 'python train.py --from \"$1\"' _ {place}"
    raise UsageError(what, where=where, hint=f"Give it as a word of its own: {example}")


def _refuse_code_variables(env: Mapping[str, str], where: str) -> None:
    """Raises UsageError for a path or a stage in a variable that a shell or another program runs."""
    for name, value in env.items():
        if (found := _FROM_DISK.search(value)) and script_words.reads_code(name):
            what = f"{{{found[1]}}} stands in {name}, which is read as a program: a part of its name could be run"
            raise UsageError(what, where=where, hint="Give it as a word of the command")


def _value(name: str, placeholders: Mapping[str, object]) -> str:
    value = placeholders.get(name)
    if value is None:
        raise UsageError(
            f"the command asks for {{{name}}}, and this resume has none",
            hint="Take it out of the command, or choose a checkpoint that has it",
        )
    return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosts:
    """How many hosts share the ranks, where they meet ("" takes a free port of this one), and how often all restarts.

    `max_restarts` None: as the command says.
    """

    nodes: int = 1
    endpoint: str = ""
    max_restarts: int | None = None

    def meeting_point(self, run_id: str) -> str:
        """The endpoint, chosen where none is given. Raises UsageError for what is no address."""
        if self.nodes == 1:
            return ""
        if not self.endpoint:
            return rendezvous.choose(run_id)
        rendezvous.split(self.endpoint)
        return self.endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """A command with its values in place, its engine chosen."""

    command: Command
    engine: Engine
    topology: Topology
    env: dict[str, str] = field(default_factory=dict)


def build(
    command: CommandSource | Sequence[str],
    *,
    world_size: int,
    run_dir: str,
    backend: str | None = None,
    plan_path: str | None = None,
    checkpoint: str | None = None,
    state_path: str | None = None,
    stage: str | None = None,
    start_epoch: int | None = None,
    run_id: str | None = None,
    cwd: str | None = None,
    grace: float | None = None,
    environ: Mapping[str, str] | None = None,
    cores: int | None = None,
    attempt: int = 1,
    hosts: Hosts | None = None,
) -> Launch:
    """The launch of `world_size` processes: words, working directory, and the variables to set.

    Without `backend`: torchrun for a torchrun command and for more than one process, else local. `grace` (seconds;
    default: the setting) is what torchrun may let its ranks take to save. Raises UsageError where the command can't be
    made to fit.
    """
    run_id = run_id or new_run_id(run_dir)
    values = {
        "checkpoint": checkpoint,
        "plan": plan_path,
        "state": state_path,
        "run_dir": run_dir,
        "world_size": world_size,
        "stage": stage,
        "start_epoch": start_epoch,
    }
    source = _source(command, cwd)
    fitted = _fit(
        source, backend, world_size, run_dir, values, grace=grace, environ=environ, cores=cores, run_id=run_id,
        attempt=attempt, hosts=hosts,
    )  # fmt: skip
    engine, topology = fitted.engine, fitted.topology
    env = {"PYTHONUNBUFFERED": "1", **source.remembered, **engine.environment(fitted.command, topology), **fitted.env}
    env |= {RUN_ID: run_id, RUN_DIR: run_dir}
    if plan_path is not None:
        env[RESUME_PLAN] = plan_path
    launch = Launch(backend=engine.NAME, argv=engine.argv(fitted.command, topology), cwd=source.cwd, env=env)
    if engine is not slurm:
        return launch
    script = slurm.script(fitted.command, topology, env, source.cwd)
    return replace(launch, script=script, max_restarts=topology.max_restarts)


def notes(
    command: CommandSource | Sequence[str],
    *,
    world_size: int,
    backend: str | None = None,
    cwd: str | None = None,
    hosts: Hosts | None = None,
) -> tuple[str, ...]:
    """What `build` changes of the command, in sentences for people."""
    source = _source(command, cwd)
    values = dict.fromkeys(PLACEHOLDERS, "")
    fitted = _fit(source, backend, world_size, "", {**values, "world_size": world_size}, hosts=hosts)
    told = fitted.engine.notes(fitted.command, fitted.topology)
    kept = [f"{name}={value}" for name, value in source.remembered.items() if name not in fitted.env]
    return (*told, f"set as in the run before, for this shell doesn't: {', '.join(kept)}") if kept else told


def _source(command: CommandSource | Sequence[str], cwd: str | None) -> CommandSource:
    if isinstance(command, CommandSource):
        return command if cwd is None else replace(command, cwd=os.path.abspath(cwd))
    return CommandSource(argv=tuple(command), cwd=os.path.abspath(cwd or os.getcwd()), where="given")


def _fit(
    source: CommandSource,
    backend: str | None,
    world_size: int,
    run_dir: str,
    values: Mapping[str, object],
    *,
    grace: float | None = None,
    environ: Mapping[str, str] | None = None,
    cores: int | None = None,
    run_id: str = "",
    attempt: int = 1,
    hosts: Hosts | None = None,
) -> _Fitted:
    hosts = hosts or Hosts()
    if world_size < 1:
        raise UsageError(f"world_size {world_size} makes no sense", hint="It is 1 or more")
    if not source.argv:
        raise UsageError("the command is empty", where=source.where, hint="Give one after `--`")
    is_in_command = any("{world_size}" in word for word in source.argv)
    _refuse_misplaced(source.argv, source.where)
    _refuse_code_variables(source.env, source.where)
    parsed = parse(fill(source.argv, values))
    env = dict(zip(source.env, fill(tuple(source.env.values()), values), strict=True))
    topology = Topology(
        world_size=world_size,
        run_dir=run_dir,
        cwd=source.cwd,
        grace=config.load()[0].grace_seconds if grace is None else grace,
        cores=cores or len(os.sched_getaffinity(0)),
        environ={**(os.environ if environ is None else environ), **source.remembered, **env},
        is_in_command=is_in_command,
        run_id=run_id,
        slurm=_slurm_settings(source),
        attempt=attempt,
        nodes=hosts.nodes,
        endpoint=hosts.meeting_point(run_id),
        max_restarts=hosts.max_restarts,
    )
    engine = _engine(parsed, backend or source.backend, topology)
    if engine.NAME == slurm.NAME and (hosts.nodes > 1 or attempt > 1):  # a job that goes on has the nodes that it has
        topology = replace(topology, nodes=1, slurm=replace(topology.slurm, nodes=hosts.nodes))
    elif hosts.nodes > 1 and engine.NAME != torchrun.NAME:
        what = f"the {engine.NAME} backend starts processes on one host, not on {hosts.nodes}"
        raise UsageError(what, hint="Take the torchrun backend, or --nodes 1")
    return _Fitted(command=parsed, engine=engine, topology=topology, env=env)


def _slurm_settings(source: CommandSource) -> config.SlurmSettings:
    """Those of the person, and over them those of the project. Raises UsageError for one that can't be."""
    settings, bad = config.overlay(config.load()[0].slurm, source.slurm, where=source.where)
    if bad:
        raise UsageError(bad[0].removeprefix(f"{source.where}: "), where=source.where, hint="Correct [slurm] there")
    return settings


def _engine(command: Command, backend: str | None, topology: Topology) -> Engine:
    if backend is not None and backend not in _ENGINES:
        raise UsageError(f"there is no backend {backend!r}", hint=f"Choose one of: {', '.join(_ENGINES)}")
    if command.kind is Kind.OTHER and backend != torchrun.NAME:
        if topology.world_size != 1 and not topology.is_in_command:
            raise UsageError(
                f"how this command is started with {topology.world_size} processes is not known",
                where=command_line.beginning(command.script, 200),
                hint="Write {world_size} where it takes their number, or give `python SCRIPT …` or `torchrun SCRIPT …`",
            )
        return slurm if backend == slurm.NAME else local
    if backend is not None:
        return _ENGINES[backend]
    is_many = topology.world_size > 1 or topology.nodes > 1 or bool(topology.max_restarts)
    return torchrun if command.kind is Kind.TORCHRUN or is_many else local
