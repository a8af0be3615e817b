"""Which files hold what a run's processes printed."""

from __future__ import annotations

import os
import re
import stat
from collections import Counter
from collections.abc import Iterator

from lavender_tui.launch import nodes
from lavender_tui.launch.files import LAUNCH, LOG, RANKS, read_document
from lavender_tui.launch.record import is_system_text

_STREAMS = {"stdout.log": "stdout", "stderr.log": "stderr"}
_NUMBER = re.compile(r"[0-9]{1,9}")
_OLDER = re.compile(re.escape(LOG) + r"\.([0-9]{1,6})")
_SLURM = re.compile(r"slurm-.*\.(?:out|err|log)")


def log_files(run_dir: str) -> list[tuple[str, str]]:
    """(label, path): the run's own log, its older parts, Slurm's output, then each rank's files, newest attempt first.

    torchrun counts attempts from 0 and starts the next after a restart; a label counts from 1 and leaves the first out:
    `rank 1 stderr`, `attempt 2 rank 0 stdout`. A rank here is the rank on its node, which is named where there are
    several: `node 0 rank 0 stderr`. What further nodes of the run have follows as `node 1 train.log`, `node 1 rank 0
    stdout`. No label is there twice: where a file's node isn't known, its directory is named. Links are not followed.
    """
    own = os.path.join(run_dir, LOG)
    found = [*([(LOG, own)] if _is_file(own) else []), *_older(run_dir), *_slurm(run_dir)]
    further = nodes.directories(run_dir)
    before = "node 0 " if further else ""
    found += [(before + label, path) for label, path in _of_ranks(os.path.join(run_dir, RANKS))]
    for number, place in further:
        found += [(f"node {number} {label}", path) for label, path in log_files(place)]
    return found


def _of_ranks(directory: str) -> list[tuple[str, str]]:
    files = [(label, path) for *_, label, path in sorted(_rank_files(directory))]
    times = Counter(label for label, _ in files)
    return [(label if times[label] == 1 else f"{label} in {_agent_of(path)}", path) for label, path in files]


def _agent_of(path: str) -> str:
    """The directory that an agent made for itself: `<agent>/attempt_0/1/stderr.log`."""
    return path.split(os.sep)[-4]


def has_own_log(files: list[tuple[str, str]]) -> bool:
    """Is the first of them the run's own log?"""
    return bool(files) and files[0][0] == LOG


def _older(run_dir: str) -> list[tuple[str, str]]:
    numbers = sorted(int(match[1]) for name in _names(run_dir) if (match := _OLDER.fullmatch(name)))
    paths = [(number, os.path.join(run_dir, f"{LOG}.{number}")) for number in numbers]
    return [(f"{LOG}.{number} (older)", path) for number, path in paths if _is_file(path)]


def _slurm(run_dir: str) -> list[tuple[str, str]]:
    """The file that the record names, and those with Slurm's usual name in the run's directory, the last job first."""
    names = [name for name in _names(run_dir) if _SLURM.fullmatch(name)]
    names.sort(key=lambda name: [int(number) for number in _NUMBER.findall(name)], reverse=True)
    paths = [os.path.join(run_dir, name) for name in names]
    recorded = _recorded_output(run_dir)
    if recorded is not None and recorded not in paths:
        paths.insert(0, recorded)
    return [(os.path.basename(path), path) for path in paths if _is_file(path) and os.path.basename(path) != LOG]


def _recorded_output(run_dir: str) -> str | None:
    """`slurm.stdout` of the launch record, with the job's number for Slurm's own placeholder."""
    document, _ = read_document(os.path.join(run_dir, LAUNCH))
    job = (document or {}).get("slurm")
    path = job.get("stdout") if isinstance(job, dict) else None
    if not isinstance(job, dict) or not is_system_text(path) or not path:
        return None
    return os.path.join(run_dir, path.replace("%j", str(job.get("job_id"))))


def _rank_files(directory: str) -> Iterator[tuple[int, int, int, str, str, str]]:
    """(minus the attempt, node or 0, rank, stream, label, path)."""
    for where, _, names in os.walk(directory):
        node = nodes.of_ranks(os.path.relpath(where, directory))
        attempt, rank = _number(os.path.basename(os.path.dirname(where))), _number(os.path.basename(where))
        for name in names:
            if name in _STREAMS and rank is not None:
                again = f"attempt {attempt + 1} " if attempt else ""
                place = f"node {node} " if node is not None else ""
                label = f"{place}{again}rank {rank} {_STREAMS[name]}"
                yield -(attempt or 0), node or 0, rank, _STREAMS[name], label, os.path.join(where, name)


def _number(name: str) -> int | None:
    digits = name.removeprefix("attempt_")
    return int(digits) if _NUMBER.fullmatch(digits) else None


def _names(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except OSError:
        return []


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False
