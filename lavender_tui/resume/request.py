"""What is asked for, and what comes out of carrying it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lavender_tui.config import TorchrunSettings, load
from lavender_tui.launch.command import Hosts
from lavender_tui.model.plan import Policy, Proposal

if TYPE_CHECKING:
    from lavender_tui.launch.command import CommandSource
    from lavender_tui.launch.record import LaunchRecord, SlurmJob
    from lavender_tui.model.checkpoint import FileFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What to resume: roots, a run directory, or one checkpoint; absolute paths."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user wants; None: as it was saved, or the default of the rule concerned.

    `command` is the training command with its placeholders; `root` holds the new run (default: beside the old one);
    `project_dir` is where a command is looked for and where it runs by default (default: the working directory);
    `though_alive` resumes a run whose processes still live. `next_stage` starts that stage from the weights of the
    stage before, everything else fresh. `before_spike` takes the newest checkpoint from before the loss jumped.
    `job` is the job of Slurm that asks from inside, in its `attempt`: nothing is submitted then.
    `nodes`, `rdzv_endpoint` and `max_restarts` are torchrun's; None: as the settings say.
    `verify`: the whole checkpoint is read before it is resumed: always, never, or (None) up to `verify_bytes`.
    """

    world_size: int | None = None
    num_workers: int | None = None
    global_batch: int | None = None
    stage: str | None = None
    policy: Policy | None = None
    backend: str | None = None
    command: tuple[str, ...] = ()
    root: str | None = None
    project_dir: str | None = None
    though_alive: bool = False
    next_stage: str | None = None
    before_spike: bool = False
    verify: bool | None = None
    verify_bytes: int = 2_000_000_000
    job: SlurmJob | None = None
    attempt: int = 1
    nodes: int | None = None
    rdzv_endpoint: str | None = None
    max_restarts: int | None = None

    @property
    def hosts(self) -> Hosts:
        """How many hosts share the ranks; what isn't said here is as the settings say, for torchrun alone."""
        settings = load()[0].torchrun if self.backend in (None, "torchrun") else TorchrunSettings()
        restarts = self.max_restarts if self.max_restarts is not None else settings.max_restarts or None
        return Hosts(
            nodes=self.nodes if self.nodes is not None else settings.nodes,
            endpoint=self.rdzv_endpoint if self.rdzv_endpoint is not None else settings.rdzv_endpoint,
            max_restarts=restarts,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Proposal):
    """A proposal with what carrying it out needs.

    `states` are the rank states in rank order, as they go to the library's merge (() where none are used), `owners`
    how many ranks they are of; `files` are the files that the plan rests on, as they were when they were read.
    `is_examined`: the checkpoint was read to its last byte, and what was found is among the checks. `resumed_as`: the
    runs that were resumed from this one by then, which the checks speak of.
    """

    options: Options = Options()
    root: str = ""
    command: CommandSource | None = None
    states: tuple[dict[str, object], ...] = ()
    files: tuple[tuple[str, FileFacts], ...] = ()
    is_examined: bool = False
    resumed_as: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A resumed training that has started."""

    run_dir: str
    plan_path: str
    record: LaunchRecord
    argv: tuple[str, ...]


def sentence_case(remedy: str) -> str | None:
    """A check's remedy as the hint of an error; None where there is none."""
    return remedy[:1].upper() + remedy[1:] if remedy else None
