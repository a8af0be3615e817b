"""The script of a Slurm job, as text. Pure: the same launch and settings give the same script.

What it does, in this order: where Slurm runs it again (after a preemption, a time limit or a lost node) it hands over
to `lavender-tui requeued`, which goes on from the newest checkpoint; else it starts the training with `srun`, waits for
it, and lets `slurm_end.py` record the end and decide whether the job is to be queued again.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lavender_tui.config import SlurmSettings
from lavender_tui.errors import UsageError
from lavender_tui.launch.files import LOG

SCRIPT = "job.sbatch"
END = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slurm_end.py")
# sbatch takes the words of an #SBATCH line apart by rules of its own: only plain ones go there.
_PLAIN = re.compile(r"--?[A-Za-z][-A-Za-z]*(=[-A-Za-z0-9_.,:@/+*\[\]()&|]+)?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WAIT_SECONDS = 60  # and the time that a save before the time limit has: so long the other nodes may live on
_FIRST_PORT, _PORTS = 20_000, 12_000  # below the range from which the kernel gives ports to others


class Shell(str):
    """A word that the shell is to expand; every other word is quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobScript:
    """All that the script is rendered from. `words` start the training on one node, `ranks` of them in all.

    `attempt` counts from 1; Slurm's own count of restarts is one less. `python` runs this program on the node.
    """

    run_dir: str
    cwd: str
    words: tuple[str, ...]
    env: Mapping[str, str]
    nodes: int
    ranks: int
    python: str
    signal_seconds: int
    attempt: int = 1
    options: tuple[str, ...] = field(default=())


def render(job: JobScript) -> str:
    """The whole script. Raises UsageError for a variable that no shell can set."""
    parts = [
        "#!/bin/bash",
        *(f"#SBATCH {word}" for word in job.options),
        "",
        *_again(job),
        *_end(job),
        *_place(job),
        *_variables(job),
        *(_meeting_point() if job.nodes > 1 else ()),
        *_training(job),
    ]
    return "\n".join(parts) + "\n"


def options_of(settings: SlurmSettings, *, nodes: int, ranks: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(words for #SBATCH lines, words that only the command line can carry), from the settings.

    The first can still be overruled by the caller's SBATCH_* variables, as sbatch's manual says.
    """
    named = [("partition", settings.partition), ("account", settings.account), ("time", settings.time)]
    named.append(("gres", settings.gres))
    words = [f"--{name}={value}" for name, value in named if value] + list(settings.options)
    words = [word.replace("{ranks_per_node}", str(ranks // nodes)) for word in words]
    return tuple(w for w in words if _PLAIN.fullmatch(w)), tuple(w for w in words if not _PLAIN.fullmatch(w))


def quoted(words: Sequence[str]) -> str:
    return " ".join(word if isinstance(word, Shell) else shlex.quote(word) for word in words)


def meeting_words() -> tuple[str, ...]:
    """torchrun's options where several nodes meet: on the first one, at a port of this job's own."""
    return (
        "--rdzv-backend", "c10d",
        "--rdzv-endpoint", Shell('"$head:$port"'),
        "--rdzv-id", Shell('"$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"'),
        Shell('"${near[@]}"'),
    )  # fmt: skip


def _again(job: JobScript) -> list[str]:
    words = (job.python, "-P", "-m", "lavender_tui", "requeued", job.run_dir)
    return [
        "# Slurm runs this again after a preemption, a time limit or a lost node: go on from the newest checkpoint.",
        f'if [ "${{SLURM_RESTART_COUNT:-0}}" -ne {job.attempt - 1} ]; then',
        f"  exec {quoted(words)}",
        "fi",
        "",
    ]


def _end(job: JobScript) -> list[str]:
    told = (Shell('"$code"'), str(job.attempt), str(job.signal_seconds), Shell('"$SECONDS"'))
    words = (job.python, "-I", "-S", END, job.run_dir, *told)
    return [
        "# The end is recorded however it comes; 99 asks Slurm to queue the job again.",
        "at_end() {",
        "  code=$?",
        "  trap - EXIT",
        f'  [ -x {shlex.quote(job.python)} ] || exit "$code"',
        f"  {quoted(words)}",
        "  exit $?",
        "}",
        "trap at_end EXIT",
        "trap : TERM USR1 INT HUP  # the training is told too, and may save: wait for it",
        "",
    ]


def _place(job: JobScript) -> list[str]:
    return [f"exec >>{shlex.quote(os.path.join(job.run_dir, LOG))} 2>&1", f"cd -- {shlex.quote(job.cwd)} || exit 1"]


def _variables(job: JobScript) -> list[str]:
    for name in job.env:
        if not _VARIABLE.fullmatch(name):
            raise UsageError(f"{name!r} can't be the name of a variable in a job's script", hint="Rename it")
    lines = [f"export {name}={shlex.quote(value)}" for name, value in job.env.items()]
    if job.ranks > job.nodes and "OMP_NUM_THREADS" not in job.env:
        share = f"${{SLURM_CPUS_ON_NODE:-1}} / {job.ranks // job.nodes}"
        lines.append(f'[ -n "$OMP_NUM_THREADS" ] || export OMP_NUM_THREADS=$(( {share} > 0 ? {share} : 1 ))')
    return [*lines, ""]


def _meeting_point() -> list[str]:
    return [
        '# The address by which Slurm itself reaches the first node. Several "nodes" of one machine meet on loopback.',
        'head=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        'head=$(scontrol show node --oneliner "$head" | grep -o " NodeAddr=[^ ]*" | cut -d = -f 2)',
        f"port=$(( {_FIRST_PORT} + SLURM_JOB_ID % {_PORTS} ))",
        'near=(); case $head in 127.*) near=(--local-addr "$head") ;; esac',
        "",
    ]


def _training(job: JobScript) -> list[str]:
    # An agent that ends early must not take the others' last save with it: --kill-on-bad-exit=0.
    srun = ["srun", f"--nodes={job.nodes}", f"--ntasks={job.nodes}", "--ntasks-per-node=1", "--kill-on-bad-exit=0"]
    if job.nodes > 1:
        # But it must end them some day: what waits for a lost node may wait for ever. Later than any signal of Slurm's.
        srun += ["--label", f"--wait={job.signal_seconds + WAIT_SECONDS}"]
    return [
        f"{quoted((*srun, *job.words))} &",
        "training=$!",
        "while :; do",
        '  wait "$training"',
        "  code=$?",
        '  kill -0 "$training" 2>/dev/null || break  # else a signal came, not the end',
        "done",
        'exit "$code"',
    ]
