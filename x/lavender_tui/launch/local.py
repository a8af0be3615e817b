"""The engine for one process: the interpreter runs the script itself, without torchrun (1.6 s and 220 MB less)."""

from __future__ import annotations

from lavender_tui.errors import UsageError
from lavender_tui.launch.arguments import Command, Kind
from lavender_tui.launch.engine import Topology

NAME = "local"
TAKES_SAVE_SIGNAL = True  # USR1 reaches the training itself


def argv(command: Command, topology: Topology) -> tuple[str, ...]:
    """The words to execute; raises UsageError where one process is not what was asked for."""
    if command.kind is Kind.OTHER:
        return command.script
    if topology.world_size != 1 and not topology.is_in_command:
        raise UsageError(
            f"one process can't be {topology.world_size} ranks",
            hint="Use the torchrun backend, or world_size 1, or write {world_size} where your command takes it",
        )
    if command.runs == "program":
        return (*command.wrapper, *command.script)
    how = {"module": ("-m",), "code": ("-c",)}.get(command.runs, ())
    interpreter = topology.interpreter(command)
    return (*command.wrapper, interpreter, *_unbuffered(command.interpreter_options), *how, *command.script)


def environment(command: Command, topology: Topology) -> dict[str, str]:
    return {}


def notes(command: Command, topology: Topology) -> tuple[str, ...]:
    if command.kind is Kind.TORCHRUN:
        return ("the command was torchrun's; one process starts without it",)
    return ()


def _unbuffered(options: tuple[str, ...]) -> tuple[str, ...]:
    return options if "-u" in options else ("-u", *options)
