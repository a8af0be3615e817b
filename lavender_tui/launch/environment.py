"""Which variables of the calling shell are kept in a run's record, and which of them a resume brings back.

The whole environment goes to the training and nowhere else. Recorded is what changes how a training runs and is no
secret; everything not named here stays out. Standard library only: the training imports this for its own record.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from lavender_tui.launch import identity
from lavender_tui.model.secrets import NOT_RECORDED, looks_secret, without_secrets

if TYPE_CHECKING:
    from lavender_tui.launch.record import LaunchRecord
    from lavender_tui.launch.seen import Seen

__all__ = ["NOT_RECORDED", "clean_environment", "not_recorded", "outside_of_runs", "recorded", "restored", "set_by_us"]

# How libraries behave: what a resume without it would do otherwise than the run before.
_BEHAVIOUR = re.compile(
    r"(?:NCCL|RCCL|GLOO|UCX|FI|TORCH|TORCHINDUCTOR|TRITON|PYTORCH|CUDA|CUBLAS|CUDNN|HSA|HIP|ROCM|OMP|KMP|GOMP|MKL"
    r"|OPENBLAS|NUMEXPR|VECLIB|XLA|LANCE|LANCEDB|RUST|ACCELERATE|DEEPSPEED|FSDP|TRANSFORMERS|DIFFUSERS|HF"
    r"|TOKENIZERS|WANDB|MALLOC)_[A-Z0-9_]+|PYTHONPATH|PYTHONHASHSEED|PYTHONWARNINGS|LD_LIBRARY_PATH"
    r"|CUDA_VISIBLE_DEVICES|TZ|LC_ALL|LANG"
)
# Where and as part of what a training ran: worth knowing later, wrong anywhere else.
_CIRCUMSTANCES = re.compile(
    r"MASTER_(?:ADDR|PORT)|(?:CUDA|HIP|ROCR|GPU)_(?:VISIBLE_DEVICES|DEVICE_ORDINAL|DEVICE_ORDER)|NVIDIA_VISIBLE_DEVICES"
    r"|SLURM_(?:JOB_ID|JOB_NAME|JOB_PARTITION|JOB_NODELIST|JOB_NUM_NODES|NTASKS|CLUSTER_NAME|ARRAY_JOB_ID"
    r"|ARRAY_TASK_ID|RESTART_COUNT|CPUS_PER_TASK)|VIRTUAL_ENV|CONDA_DEFAULT_ENV|CONDA_PREFIX|PBS_JOBID|LSB_JOBID"
    r"|WANDB_(?:RUN_ID|RESUME)|HOSTNAME|TMPDIR|LAVENDER_(?:RUN_ID|RUN_DIR|RESUME_PLAN)"
)
# Worked out anew at each launch, from the number of processes and the size of the table.
DERIVED = frozenset(
    ("OMP_NUM_THREADS", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "LANCEDB_PERM_BUILDER_MEMORY_LIMIT", "PYTHONUNBUFFERED")
)
_OF_ANOTHER_RUN = re.compile(
    "LAVENDER_(RUN_ID|RUN_DIR|RESUME_PLAN|OUTSIDE)|TORCHELASTIC_.*|(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)|ROLE_NAME"
)
LONGEST_VALUE = 4096  # characters; a longer one is no setting


def clean_environment() -> dict[str, str]:
    """This process's environment without what makes a process part of another run, or one rank of another group."""
    return {name: value for name, value in os.environ.items() if not _OF_ANOTHER_RUN.fullmatch(name)}


def outside_of_runs() -> dict[str, str]:
    """For a supervisor or a keeper: the clean environment, and the word that no run's end is its own."""
    return {**clean_environment(), identity.OUTSIDE: "1"}


def recorded(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of an environment (default: this process's) what a record may hold, in the order of the names."""
    given = os.environ if environ is None else environ
    return {name: given[name] for name in sorted(given) if _is_recorded(name, given[name])}


def _is_recorded(name: str, value: str) -> bool:
    is_known = _BEHAVIOUR.fullmatch(name) or _CIRCUMSTANCES.fullmatch(name)
    return bool(is_known) and len(value) <= LONGEST_VALUE and not looks_secret(name, value)


def set_by_us(env: Mapping[str, str]) -> dict[str, str]:
    """What we set for a training, as it may be recorded: a secret by its name alone."""
    return without_secrets(env)


def not_recorded(env: Mapping[str, str]) -> list[str]:
    """The variables of a record that were set and not kept."""
    return [name for name, value in env.items() if value == NOT_RECORDED]


def restored(before: LaunchRecord | Seen, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of the variables of an older run those that a resume sets again: how libraries behave.

    Not what this shell sets itself, not where the old run ran (its GPUs, its job, its rendezvous), and not what we
    worked out for its number of processes.
    """
    ours = {name: value for name, value in before.env.items() if name not in DERIVED}
    here = os.environ if environ is None else environ
    return {
        name: value
        for name, value in sorted({**ours, **before.environment}.items())
        if name not in here and _is_recorded(name, value) and not _CIRCUMSTANCES.fullmatch(name)
    }
