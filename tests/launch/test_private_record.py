"""A launch record that holds a secret is its owner's alone: what others can know of the run, and what they must not do.

A real training of another user, and commands of root without root's special rights, which are anybody's.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, stop
from lavender_tui.launch.files import LOCK
from lavender_tui.launch.record import read_launch
from tests.resume.saves import save

FIRST = "run-2026-01-02_03-04-05"
WAITS = ("--backend", "local", "--", "sh", "-c", "sleep 600; :", "sh")
OTHER_UID = 65534
# Reading everything stands for the rights that the other user has in a home of their own.
AS_ANOTHER = (
    "setpriv", f"--reuid={OTHER_UID}", f"--regid={OTHER_UID}", "--clear-groups",
    "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search",
)  # fmt: skip
WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-sys_ptrace,-kill")
pytestmark = pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")


def lavender(*words: str, by: tuple[str, ...] = WITHOUT_RIGHTS, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*by, sys.executable, "-m", "lavender_tui", *words], env={**os.environ, **more},
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
    )  # fmt: skip


@pytest.fixture
def place(nothing_survives: Callable[[], list[int]]) -> Iterator[Path]:
    """A directory that the other user reaches too."""
    made = Path(tempfile.mkdtemp(prefix="lavender-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def run(place: Path) -> Iterator[Path]:
    """A living run of another user with a save of its own, resumed from FIRST with a secret in its command."""
    root, home = place / "checkpoints", place / "home"
    first = save(str(root / FIRST), epoch=1, epochs=3)
    for one in (root, home):
        one.mkdir(exist_ok=True)
        one.chmod(0o777)
    started = lavender("resume", str(root), *WAITS, "--wandb-key", "s3cret", by=AS_ANOTHER, HOME=str(home))
    assert started.returncode == 0, started.stderr
    path = Path(started.stdout.strip())
    shutil.copy(first, path)
    record = read_launch(str(path))
    assert record is not None and (path / "launch.json").stat().st_mode & 0o777 == 0o600
    yield path
    stop(str(path), KILL)


def check(run: Path, id: str) -> tuple[str, str]:
    told = json.loads(lavender("plan", str(run), "--json", *WAITS).stdout)["checks"]
    return next((one["verdict"], one["what"]) for one in told if one["id"] == id)


def test_it_is_neither_called_failed_nor_launched_again(run: Path) -> None:
    [told] = json.loads(lavender("ls", str(run), "--json").stdout)
    assert told["state"] == "idle" and told["state_reason"].startswith("on the account of "), told["state_reason"]
    for words in (("resume", str(run)), ("resume", str(run), "--yes")):
        refused = lavender(*words, *WAITS)
        assert refused.returncode == 1 and "gave a sign of life just now" in refused.stderr, refused.stderr
    latest = lavender("resume", "--latest", str(run.parent), *WAITS)
    assert latest.returncode == 0 and "seems to live on the account of" in latest.stderr, latest.stderr
    assert len(list(run.parent.glob("run-*"))) == 2


def test_what_it_was_resumed_from_is_not_resumed_beside_it(run: Path) -> None:
    for options, words in (((), "which lives"), (("--yes",), "(another user's), which lives")):
        refused = lavender("resume", str(run.parent / FIRST), *options, *WAITS)
        assert refused.returncode == 1 and words in refused.stderr, refused.stderr
    assert len(list(run.parent.glob("run-*"))) == 2


def test_without_a_sign_of_life_it_is_said_that_nobody_knows(run: Path, until: Callable[..., object]) -> None:
    record = read_launch(str(run))
    assert record is not None and record.supervisor is not None
    os.kill(record.supervisor.pid, signal.SIGKILL)
    until(lambda: not record.supervisor.is_alive, what="the supervisor's end")  # type: ignore[union-attr]
    assert check(run, "source.alive")[0] == "refuse", "the sign of life is young"
    old = time.time() - 3600
    os.utime(run / LOCK, (old, old))
    verdict, what = check(run, "source.alive")
    assert verdict == "warn" and "can't be seen" in what
