"""`lavender-tui requeued RUN`: called by the script of a job that Slurm starts again; becomes the training."""

from __future__ import annotations

import os

from lavender_tui.commands.printing import say
from lavender_tui.errors import UsageError

SHELL = "/bin/bash"


def run(run: str) -> int:
    from lavender_tui.launch.environment import clean_environment
    from lavender_tui.resume.requeue import go_on

    job_id, restarts = _number("SLURM_JOB_ID"), _number("SLURM_RESTART_COUNT")
    if not job_id or not restarts:
        raise UsageError("this is no job that Slurm has started again", hint="It is called by a job's script alone")
    script = go_on(os.path.abspath(run), job_id=job_id, attempt=restarts + 1, say=say)
    if script is None:
        return 0
    say(f"going on in {os.path.dirname(script)}")
    os.execve(SHELL, [SHELL, script], clean_environment())


def _number(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 11 else None
