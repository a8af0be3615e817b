"""The resume plan: the JSON document that a resumed training starts from, and the checks behind it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from lavender_tui.errors import BadState
from lavender_tui.model.secrets import masked, masked_text, without_secrets

if TYPE_CHECKING:
    from lavender_tui.model.checkpoint import Checkpoint

FORMAT = "lavender-resume-plan"
VERSION = 1
PLAN_NAME = "resume.json"


class Policy(StrEnum):
    """Where a resumed training starts (contract: "Where a resumed training starts")."""

    EXACT = "exact"
    NEXT_EPOCH = "next-epoch"
    REPLAY_EPOCH = "replay-epoch"
    SKIP_EPOCH = "skip-epoch"


class Verdict(StrEnum):
    PASS = "pass"
    WARN = "warn"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that would go wrong silently: `evidence` has both values, file and rank; `remedy` what to do."""

    id: str
    verdict: Verdict
    what: str
    evidence: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The checkpoint that is resumed from. Paths are absolute."""

    run: str
    checkpoint: str
    size: int
    mtime_ns: int
    stage: str | None
    save_count: int | None
    epoch: int | None
    epochs: int | None
    epoch_complete: bool | None
    loss: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """`epoch` is 1-based. The numbers of samples are None where nothing says them (no rank states, no row count).

    `samples_trained` is what the saved epoch has read, `samples_skipped` what of it nobody will read,
    `samples_left` what the epoch that is started in has before it. `scheduler_extra`: steps to make after the saved
    scheduler is loaded, which the rest of a skipped or spent epoch would have made. `stage` is the NEW stage that is
    started from the weights alone, with everything else fresh; None where the saved one goes on.
    """

    policy: Policy
    epoch: int
    scheduler_steps: int | None  # None: the scheduler's own state is in the checkpoint
    samples_replayed: int | None
    samples_trained: int | None = None
    samples_skipped: int | None = None
    samples_left: int | None = None
    scheduler_extra: int = 0
    stage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    global_size: int | None
    per_rank: int | None
    num_workers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """`env` holds only the variables that we set, never the whole environment."""

    backend: str  # "local", "torchrun" or "slurm"
    argv: tuple[str, ...]  # with Slurm: what submits the script
    cwd: str
    env: dict[str, str] = field(default_factory=dict)
    script: str | None = None  # of a Slurm job
    max_restarts: int | None = None  # asked for beside the command: a later attempt of the job asks for it again

    def to_json(self) -> dict[str, Any]:
        """For a document: secrets hidden. The launch record alone keeps the words, for a later resume."""
        return {
            "backend": self.backend,
            "argv": list(masked(self.argv)),
            "cwd": self.cwd,
            "env": without_secrets(self.env),
            **({"script": self.shown_script} if self.script is not None else {}),
        }

    @property
    def shown_script(self) -> str | None:
        """A job's script, secrets hidden."""
        return masked_text(self.script) if self.script is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumePlan:
    """All that a resumed training needs. `dataset` is the merged state, the same for every rank, or None."""

    source: Source
    world_size_previous: int | None
    world_size: int
    start: Start
    dataset: dict[str, Any] | None
    data: dict[str, Any] | None
    batch: Batch
    run_dir: str
    launch: Launch
    warnings: tuple[str, ...] = ()

    @property
    def first_epoch(self) -> str:
        """Where it starts, in words: "epoch 2 of 3", "epoch 4, after the last of 3"."""
        epoch, epochs = self.start.epoch, self.source.epochs
        if not epochs:
            return f"epoch {epoch}"
        return f"epoch {epoch} of {epochs}" if epoch <= epochs else f"epoch {epoch}, after the last of {epochs}"

    def to_json(self) -> dict[str, Any]:
        """The document as written to `resume.json`, the secrets of its command and variables hidden."""
        return {
            "format": FORMAT,
            "version": VERSION,
            "source": asdict(self.source),
            "world_size": {"previous": self.world_size_previous, "next": self.world_size},
            "start": {**asdict(self.start), "policy": self.start.policy.value},
            "dataset": self.dataset,
            "data": self.data,
            "batch": {
                "global": self.batch.global_size,
                "per_rank": self.batch.per_rank,
                "num_workers": self.batch.num_workers,
            },
            "run_dir": self.run_dir,
            "launch": self.launch.to_json(),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, document: Any, *, where: str | None = None) -> ResumePlan:
        """Read a plan back. Raises BadState for anything that isn't a plan of version 1."""
        try:
            if document["format"] != FORMAT or document["version"] != VERSION:
                raise BadState(
                    f"this is {document['format']!r} version {document['version']!r}, not a {FORMAT} version {VERSION}",
                    where=where,
                )
            launch, batch, start = document["launch"], document["batch"], document["start"]
            return cls(
                source=Source(**document["source"]),
                world_size_previous=document["world_size"]["previous"],
                world_size=document["world_size"]["next"],
                start=Start(**{**start, "policy": Policy(start["policy"])}),
                dataset=document["dataset"],
                data=document["data"],
                batch=Batch(global_size=batch["global"], per_rank=batch["per_rank"], num_workers=batch["num_workers"]),
                run_dir=document["run_dir"],
                launch=Launch(**{**launch, "argv": tuple(launch["argv"])}),
                warnings=tuple(document["warnings"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BadState(f"not a readable resume plan ({error!r})", where=where) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A plan together with everything that was checked; `plan` is None only where nothing could be planned.

    `checkpoint` is the one that was chosen. `spike` says in words where the loss jumped before that one was saved, or
    which jump was gone back before; `before_spike` is the newest checkpoint from before it, if there is one.
    """

    plan: ResumePlan | None
    checks: tuple[Check, ...]
    passed_over: tuple[tuple[str, str], ...] = ()  # (checkpoint path, why it was passed over), newest first
    checkpoint: Checkpoint | None = None
    before_spike: Checkpoint | None = None
    spike: str | None = None
    backends: tuple[str, ...] = ("torchrun", "local")  # what a training can be started by from here

    @property
    def is_refused(self) -> bool:
        return self.plan is None or any(check.verdict is Verdict.REFUSE for check in self.checks)
