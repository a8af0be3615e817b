"""Which code a training runs: the commit, and whether anything was changed since. For comparing, years later."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass

# Nothing of a repository's own settings may start a program here, and nothing may be written into it.
_GIT = ("git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
_LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeVersion:
    """`commit` in full; `changed`: tracked files with changes that are in no commit, None where that took too long."""

    commit: str
    changed: int | None


def code_version(directory: str, *, timeout_seconds: float = 2.0) -> CodeVersion | None:
    """What git says of the directory; None where it isn't in a repository, or git isn't there or too slow.

    Never raises. Files that git doesn't know don't count: a training leaves many, and listing them may take long.
    """
    deadline = time.monotonic() + timeout_seconds
    commit = _ask(directory, ("rev-parse", "--verify", "HEAD"), deadline)
    if commit is None or not _is_commit(commit.strip()):
        return None
    changes = _ask(directory, ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all"), deadline)
    return CodeVersion(
        commit=commit.strip().decode("ascii"),
        changed=None if changes is None else len(changes.splitlines()),
    )


def _is_commit(text: bytes) -> bool:
    return len(text) in (40, 64) and not text.strip(b"0123456789abcdef")


def _ask(directory: str, question: tuple[str, ...], deadline: float) -> bytes | None:
    left = deadline - time.monotonic()
    if left <= 0:
        return None
    try:
        done = subprocess.run(
            [*_GIT, *question],
            cwd=directory,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=left,
            check=False,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    return done.stdout[:_LONGEST_ANSWER] if done.returncode == 0 else None


def _environment() -> dict[str, str]:
    """Ours without what would point git to another repository; no lock is taken for a mere question."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
