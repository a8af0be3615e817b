"""What every test stands on: a home of its own, one thread a process, nothing left running, waiting by condition."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says only how busy the machine is. The same examples each time: a suite that is green stays
# green until the code changes. `HYPOTHESIS_PROFILE=search` looks for new ones.
_LIMITS = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("tests", derandomize=True, **_LIMITS)
settings.register_profile("search", **_LIMITS)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "tests"))

# Under nohup, or behind an `&` in a script, they are ignored, and whatever the tests start would inherit that. A
# handler of Python's isn't inherited.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, lambda *_: None)

FOREIGN = ("LAVENDER_", "TORCHELASTIC_", "MASTER_", "SLURM_", "XDG_", "PYTEST_ADDOPTS")
FOREIGN_NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES")


@pytest.fixture(autouse=True)
def isolated_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home directory; settings and variables of whoever runs the tests don't reach them."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(FOREIGN) or name in FOREIGN_NAMES:
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(home / kind.lower()))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return home


@pytest.fixture
def until() -> Callable[..., object]:
    """`until(condition, seconds=30, what="…")` polls until `condition()` is true and returns its value.

    `what` may be a function, called when the time is over.
    """

    def wait(
        condition: Callable[[], object], seconds: float = 30.0, what: str | Callable[[], str] = "the condition"
    ) -> object:
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                told = what if isinstance(what, str) else what()
                pytest.fail(f"waited {seconds:g} s in vain for {told}")
            time.sleep(0.02)

    return wait


@pytest.fixture
def nothing_survives(tmp_path: Path) -> Iterator[Callable[[], list[int]]]:
    """Ends, after the test, every process that was started for a run under `tmp_path`.

    The value is a function that lists the ones alive now. A process belongs to the test if `tmp_path`, which no other
    test has, is in its LAVENDER_RUN_DIR or in its arguments; it is looked at and killed through one pidfd, so that
    a pid taken over by a stranger is never hit.
    """
    yield lambda: [pid for pid in _all_pids() if _belongs_to(pid, str(tmp_path))]
    for _ in range(200):
        left = [pid for pid in _all_pids() if _kill_if_ours(pid, str(tmp_path))]
        if not left:
            return
        time.sleep(0.05)


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _belongs_to(pid: int, directory: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = file.read().split(b"\0")
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            arguments = file.read()
    except OSError:
        return False
    ours = os.fsencode(directory) + b"/"
    return ours in arguments or any(entry.startswith(b"LAVENDER_RUN_DIR=" + ours) for entry in variables)


def _kill_if_ours(pid: int, directory: str) -> bool:
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _belongs_to(pid, directory):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
