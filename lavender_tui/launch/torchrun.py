"""The engine for several processes on one node: torch.distributed.run, with its files in the run's directory."""

from __future__ import annotations

import glob
import importlib.util
import os
import sys
from collections.abc import Sequence
from functools import lru_cache

from lavender_tui.errors import UsageError
from lavender_tui.launch import rendezvous
from lavender_tui.launch.arguments import Command, Kind, parse, without, words_of
from lavender_tui.launch.engine import Topology
from lavender_tui.launch.files import RANKS
from lavender_tui.model import command_line, text

NAME = "torchrun"
TAKES_SAVE_SIGNAL = False  # USR1 is a death signal for the agent
MODULE = "torch.distributed.run"
SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1"
KILL_BEFORE_OURS_SECONDS = 5  # torchrun's own SIGKILL comes this long before the supervisor's

# One node and a port that nobody else has: these would say something else.
_RENDEZVOUS = frozenset(
    [
        "--standalone",
        "--nnodes",
        "--node-rank",
        "--rdzv-backend",
        "--rdzv-endpoint",
        "--rdzv-id",
        "--rdzv-conf",
        "--master-addr",
        "--master-port",
        "--local-addr",
    ]
)
_FIXED_PLACES = ("--rdzv-endpoint", "--master-addr", "--master-port")
_REPLACED = _RENDEZVOUS | {
    "--nproc-per-node",
    "--log-dir",
    "--redirects",
    "--tee",
    "--shutdown-timeout",
    "--signals-to-handle",
}


def argv(
    command: Command, topology: Topology, *, meet: Sequence[str] | None = None, ranks: int | None = None
) -> tuple[str, ...]:
    """The words to execute on each node; raises UsageError for a command that torchrun can't start.

    `meet` says how the nodes find each other, `ranks` how many there are on each; both as the topology has it.
    """
    if command.kind is Kind.OTHER or command.runs == "code":
        raise UsageError(
            "torchrun can't start this command: it starts a Python script or module",
            where=command_line.beginning(command.script, 200),
            hint="Give `python SCRIPT …` or `torchrun … SCRIPT …`, or take {world_size} into the command and use local",
        )
    interpreter = topology.interpreter(command)
    head = _head(command, interpreter)
    meet = _meeting(topology) if meet is None else meet
    options = _options(command, topology, interpreter, meet, ranks or topology.ranks_here)
    return (*head, *options, *command.script)


def environment(command: Command, topology: Topology) -> dict[str, str]:
    found = {}
    ranks = topology.ranks_here
    if topology.world_size > 1 and "OMP_NUM_THREADS" not in topology.environ:
        # torchrun would say 1; the ranks share the cores that this process may use.
        found["OMP_NUM_THREADS"] = str(max(1, topology.cores // ranks))
    if _restarts(command, topology) != "0":
        # A restarted gloo group reads its predecessor's keys from a shared store and fails or hangs (torch #135712).
        found["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    return found


def notes(command: Command, topology: Topology) -> tuple[str, ...]:
    told = []
    if command.kind is Kind.PYTHON:
        told.append(f"torchrun starts the script {topology.world_size} times, once a rank")
        if set(command.interpreter_options) - {"-u"}:
            told.append("the ranks start without the interpreter's options " + " ".join(command.interpreter_options))
    fixed = [name for name in _FIXED_PLACES if command.option(name) is not None]
    if topology.nodes > 1:
        each = text.plural(topology.ranks_here, "rank")
        told.append(f"{each} on each of {topology.nodes} nodes: on every further host `lavender-tui join` the new run")
        return tuple(told)
    if fixed:
        taken = _why_taken(command)
        told.append(f"{' and '.join(fixed)} left out{taken}: the ranks meet on a free port of this node")
    if command.option("--nnodes") not in (None, "1", "1:1"):
        told.append(f"the command was for {command.option('--nnodes')} nodes; all ranks start on this one")
    return tuple(told)


def _why_taken(command: Command) -> str:
    """In brackets, where the port that the command names is somebody's now."""
    named = command.option("--master-port") or (command.option("--rdzv-endpoint") or "").rpartition(":")[2]
    is_port = named.isascii() and named.isdigit() and 0 < int(named[:6]) < 65_536
    taken = rendezvous.why_taken(int(named)) if is_port else None
    return f" ({taken})" if taken else ""


def _head(command: Command, interpreter: str) -> tuple[str, ...]:
    if command.kind is Kind.PYTHON:
        return (*command.wrapper, interpreter, "-m", MODULE)
    if command.interpreter is None and command.wrapper:
        return (*command.wrapper, *command.launcher)  # `uv run torchrun`: only the wrapper knows the interpreter
    # torchrun by its module: the script of that name on the PATH may be another interpreter's.
    launcher = command.launcher if command.launcher[0] == "-m" else ("-m", MODULE)
    return (*command.wrapper, interpreter, *command.interpreter_options, *launcher)


def passes_usr1_on(command: Command, topology: Topology) -> bool:
    """Does that torchrun know how to pass SIGUSR1 on to its ranks? An older one dies of it, and leaves them alone."""
    if command.interpreter is None and command.wrapper:
        return False
    interpreter = topology.interpreter(command)
    return "--signals-to-handle" in _known_options(topology.find(interpreter) or interpreter)


def _options(command: Command, topology: Topology, interpreter: str, meet: Sequence[str], ranks: int) -> list[str]:
    words = [*meet, "--nproc-per-node", str(ranks)]
    replaced = _REPLACED - {"--rdzv-conf"} if topology.nodes > 1 else _REPLACED
    if topology.max_restarts is not None:
        words += ["--max-restarts", str(topology.max_restarts)]
        replaced |= {"--max-restarts"}
    words += words_of(without(command.options, replaced | {"--module"}))
    # Tee: a line goes to the rank's own file, and with the rank before it into the run's log.
    words += ["--log-dir", os.path.join(topology.run_dir, RANKS), "--tee", "3"]
    # Behind a wrapper (`uv run torchrun`) only the wrapper knows which torch it is.
    is_known = command.interpreter is not None or not command.wrapper
    known = _known_options(topology.find(interpreter) or interpreter) if is_known else frozenset()
    if "--shutdown-timeout" in known:
        words += ["--shutdown-timeout", str(max(1, int(topology.grace) - KILL_BEFORE_OURS_SECONDS))]
    if "--signals-to-handle" in known:
        words += ["--signals-to-handle", SIGNALS]
    if command.runs == "module":
        words.append("-m")  # last, beside the module that it is about
    return words


def _meeting(topology: Topology) -> list[str]:
    """How the agents find each other: one alone takes a free port of its own."""
    if topology.nodes == 1:
        return ["--standalone"]
    words = ["--nnodes", str(topology.nodes), "--rdzv-backend", "c10d", "--rdzv-endpoint", topology.endpoint]
    return [*words, "--rdzv-id", topology.run_id, *_local_address(topology.endpoint)]


def _local_address(endpoint: str) -> list[str]:
    address = rendezvous.local_address(endpoint)
    return ["--local-addr", address] if address is not None else []


def joining(argv: Sequence[str], node_dir: str) -> tuple[str, ...]:
    """The words of a first node as a further one starts them: its own address, its own directory of logs."""
    command = parse(argv)
    endpoint = command.option("--rdzv-endpoint")
    assert command.kind is Kind.TORCHRUN and endpoint is not None
    head = (*command.wrapper, *([command.interpreter] if command.interpreter else ()), *command.interpreter_options)
    module = [option for option in command.options if option.name == "--module"]
    options = without(command.options, {"--log-dir", "--local-addr", "--module"})
    ours = [*_local_address(endpoint), "--log-dir", os.path.join(node_dir, RANKS), *words_of(module)]
    return (*head, *command.launcher, *words_of(options), *ours, *command.script)


def _restarts(command: Command, topology: Topology) -> str:
    """How often the ranks may be started again, as a word."""
    if topology.max_restarts is not None:
        return str(topology.max_restarts)
    return command.option("--max-restarts") or "0"


@lru_cache(maxsize=64)
def _known_options(interpreter: str) -> frozenset[str]:
    """Which of the newer options that interpreter's torch has, by its source: nothing is imported or run."""
    for path in _sources(interpreter):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        return frozenset(name for name in ("--shutdown-timeout", "--signals-to-handle") if f'"{name}"' in text)
    return frozenset()  # not found: torchrun's defaults are safe, an option that it doesn't have is not


def _sources(interpreter: str) -> list[str]:
    inside = os.path.join("torch", "distributed", "run.py")
    if os.path.dirname(interpreter) == os.path.dirname(sys.executable):
        spec = importlib.util.find_spec("torch")  # finds the package, imports nothing of it
        if spec is not None and spec.origin is not None:
            return [os.path.join(os.path.dirname(spec.origin), "distributed", "run.py")]
    prefix = os.path.dirname(os.path.dirname(interpreter))
    patterns = (f"{glob.escape(prefix)}/lib*/python3*/{kind}-packages/{inside}" for kind in ("site", "dist"))
    return [path for pattern in patterns for path in sorted(glob.glob(pattern), reverse=True)]
