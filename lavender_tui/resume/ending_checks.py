"""What the old run died of, and whether the resumed one may die of it again: the same device, batch or row."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lavender_tui.launch.identity import host_name
from lavender_tui.launch.record import read_launch
from lavender_tui.launch.slurm import NAME as SLURM
from lavender_tui.model import text
from lavender_tui.model.plan import Check
from lavender_tui.model.run import EndFacts, Run, RunState
from lavender_tui.model.state_rules import passed, warn
from lavender_tui.resume.situation import Situation

ID = "source.died"
_BY_SIGNAL = "killed by signal"
_BY_KERNEL = "killed by signal 9: out of memory"  # the kernel said so: the one signal that tells why it came


@dataclass(frozen=True, slots=True)
class _Kind:
    """`pattern` finds it in the error; `again` says what may bring it once more; {host} is where it was."""

    name: str
    pattern: re.Pattern[str]
    again: str
    remedy: str


# In this order: a GPU that is out of memory is no broken one, and a broken one may name NCCL only in passing.
_KINDS = (
    _Kind(
        "gpu memory",
        re.compile(r"(?:CUDA|HIP|MPS|XPU)\b.{0,40}out of memory|(?:torch|cuda)\.OutOfMemoryError", re.IGNORECASE),
        "the same batch needs as much memory again",
        "more ranks for the same global batch, or gradients over several smaller batches",
    ),
    _Kind(
        "memory",
        re.compile(r"out of memory|MemoryError|can(?:'|no)t allocate memory|bad_alloc", re.IGNORECASE),
        "it needs as much of the machine's memory again",
        "fewer data workers or ranks on this machine, or smaller batches; `free -h` shows what is left",
    ),
    _Kind(
        "NaN",
        re.compile(r"\bnans?\b|non-?finite|not finite", re.IGNORECASE),
        "the same weights and rows may lead there again",
        "go back before the loss went wrong (--before-spike, or an earlier save), or lower the learning rate",
    ),
    _Kind(
        "assert",
        re.compile(r"device-side assert|illegal memory access"),
        "most often it is an index out of range, which comes again",
        "CUDA_LAUNCH_BLOCKING=1 before the command makes it name the line",
    ),
    _Kind(
        "device",
        re.compile(
            r"CUDA (?:error|driver|failure)|cuda runtime error|HIP error|\bECC\b|\bXid\b|NVML|cuDNN|CUDNN|CUBLAS|cuBLAS"
            r"|[Nn]o CUDA GPUs|GPU is lost|fallen off the bus"
        ),
        "the same GPU may fail again",
        "on {host}: `nvidia-smi -q -d ECC` shows it; CUDA_VISIBLE_DEVICES leaves one out",
    ),
    _Kind(
        "network",
        re.compile(r"NCCL|nccl[A-Z]\w*Error"),
        "the same link or GPU may fail again",
        "on {host}: look at `nvidia-smi` and the network; NCCL_DEBUG=INFO names the link",
    ),
)
_OF_A_HOST = ("device", "network")
_DATA = _Kind(
    "data",
    re.compile(r"in DataLoader worker|LanceError|lance error|ArrowInvalid"),
    "it came while rows were read: the same row comes again",
    "mend that row or what reads it; --policy skip-epoch leaves the rest of the epoch out",
)
# What is raised by code, a name or a path speaks of no device, no memory and no loss, whatever it names.
_OF_CODE = re.compile(
    r"^(?:rank [0-9]+: )?(?:[\w.]+\.)?(?:(?:Name|UnboundLocal|Attribute|Import|ModuleNotFound|Syntax|Indentation|Type"
    r"|Key|Index|FileNotFound|FileExists|Permission|IsADirectory|NotADirectory)Error|KeyboardInterrupt|SystemExit)\b"
)
# Where the frames of a traceback stand that ends with a row which could not be read.
_READING = re.compile(
    r'File "[^"]*/(?:torch/utils/data|lancedb|lance|pyarrow|datasets)/|, in (?:__getitem__|__getitems__|collate\w*'
    r"|transform\w*|\w*_collate)$"
)


def ending_checks(it: Situation) -> list[Check]:
    """One line where the old run failed by an error of its own; () where a signal, a stop or a preemption ended it."""
    run = it.run
    if run is None or run.state is not RunState.FAILED or run.end is None or not _is_told(run.end):
        return []
    what = f"the old run died: {text.clean(run.end.error, 240)}"
    kind = _kind_of(run.end)
    if kind is None:
        return [passed(ID, what, text.clean(run.path))]
    if why := _why_not_again(it, run, kind):
        return [passed(ID, f"{what}; {why}", text.clean(run.path))]
    return [warn(ID, what, kind.again, kind.remedy.format(host=_host(run)))]


def _is_told(end: EndFacts) -> bool:
    if not end.error or end.stop_requested:
        return False
    return _BY_KERNEL in end.error or (end.signal is None and _BY_SIGNAL not in end.error)


def _kind_of(end: EndFacts) -> _Kind | None:
    said = end.error or ""
    kinds = () if _OF_CODE.match(said) else _KINDS
    if (found := next((one for one in kinds if one.pattern.search(said)), None)) is not None:
        return found
    frames = end.failure.traceback if end.failure is not None else ()
    return _DATA if _DATA.pattern.search(said) or any(map(_READING.search, frames)) else None


def _why_not_again(it: Situation, run: Run, kind: _Kind) -> str:
    """What has changed of that which it died of; "" where nothing has."""
    if kind.name in _OF_A_HOST:
        is_here = it.options.backend == SLURM or run.job is not None or not run.host or run.host == host_name()
        return "" if is_here else f"that was on {text.clean(run.host, 60)}, this is {text.clean(host_name(), 60)}"
    if kind.name == "gpu memory":
        now, then = _per_rank(it.global_batch, it.world_size), _per_rank(it.checkpoint.global_batch, it.saved_by)
        return f"now {now:,} rows a rank instead of {then:,}" if now is not None and then and now < then else ""
    return ""


def _per_rank(batch: int | None, ranks: int | None) -> int | None:
    return batch // ranks if batch and ranks and ranks > 0 and batch % ranks == 0 else None


def _host(run: Run) -> str:
    """The host of the device: of several nodes only the rank is known."""
    record = read_launch(run.path)
    is_alone = run.job is None and (record is None or (record.nodes or 1) == 1)
    if is_alone and run.host:
        return text.clean(run.host, 60)
    rank = run.end.failure.rank if run.end is not None and run.end.failure is not None else None
    return f"the host of rank {rank}" if rank is not None else "its host"
