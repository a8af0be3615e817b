"""What every engine is given and gives: the words to execute, the environment, and what changed, in words."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lavender_tui.config import SlurmSettings
from lavender_tui.launch.arguments import Command
from lavender_tui.launch.rendezvous import ranks_per_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """How many processes, where, and what they may take. `environ` is the environment that ours is added to."""

    world_size: int
    run_dir: str
    cwd: str
    grace: float
    cores: int
    environ: Mapping[str, str]
    is_in_command: bool = False  # the command itself takes {world_size}
    run_id: str = ""
    slurm: SlurmSettings = field(default_factory=SlurmSettings)
    attempt: int = 1  # of a job that Slurm starts again; counts from 1
    nodes: int = 1  # hosts that share the ranks evenly, each started by its own agent; those of a job are in `slurm`
    endpoint: str = ""  # where they meet
    max_restarts: int | None = None  # None: as the command says

    @property
    def ranks_here(self) -> int:
        """How many ranks one host starts. Raises UsageError where they can't be shared evenly."""
        return ranks_per_node(self.world_size, self.nodes)

    def interpreter(self, command: Command) -> str:
        """The interpreter that the command names, torchrun's own where it names only that, or the one that runs us.

        Also the one that runs us where a mere `python` is on no path, as under cron.
        """
        if command.interpreter is not None:
            return command.interpreter if self.find(command.interpreter) else sys.executable
        return (_of_script(self.find(command.launcher[0])) if command.launcher else None) or sys.executable

    def find(self, program: str) -> str | None:
        """Where the program lies that the child would execute."""
        if os.sep in program:
            return os.path.join(self.cwd, program)
        return shutil.which(program, path=self.environ.get("PATH"))


class Engine(Protocol):
    """A module of this shape for each way of starting: `local`, `torchrun`, `slurm` (which has a script as well)."""

    NAME: str
    TAKES_SAVE_SIGNAL: bool

    def argv(self, command: Command, topology: Topology) -> tuple[str, ...]: ...

    def environment(self, command: Command, topology: Topology) -> dict[str, str]: ...

    def notes(self, command: Command, topology: Topology) -> tuple[str, ...]: ...


def _of_script(path: str | None) -> str | None:
    """The interpreter in a script's first line, where it is a Python that exists."""
    if path is None:
        return None
    try:
        with open(path, "rb") as file:
            line = file.readline(4096)
    except OSError:
        return None
    if not line.startswith(b"#!"):
        return None
    interpreter = os.fsdecode(line[2:].strip())
    return interpreter if "python" in os.path.basename(interpreter) and os.access(interpreter, os.X_OK) else None
