"""Small trainings of the standard library, and a run directory to start them in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.launch import starting
from lavender_tui.launch.record import LaunchRecord, read_exit, read_launch
from lavender_tui.model.plan import Launch

# Says "up", then waits for TERM; on TERM saves and ends well.
POLITE = """
import os, signal, sys, time
def save(signum, frame):
    open(os.path.join(os.environ["LAVENDER_RUN_DIR"], "saved"), "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""

# Ignores TERM, and so does the child that it starts in a session of its own.
STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if len(sys.argv) == 1:
    subprocess.Popen([sys.executable, __file__, "child"], start_new_session=True)
print("up", flush=True)
while True:
    time.sleep(0.05)
"""


class Lab:
    """Writes a training, starts it in a directory of its own, and looks at what became of it."""

    def __init__(self, directory: Path, until: Callable[..., object]) -> None:
        self.directory, self.until = directory, until
        self.runs = 0

    def script(self, text: str, name: str = "train.py") -> str:
        path = self.directory / name
        path.write_text(text)
        return str(path)

    def run_dir(self) -> str:
        self.runs += 1
        path = self.directory / "checkpoints" / f"run-2026-01-02_03-04-{self.runs:02d}"
        path.mkdir(parents=True)
        return str(path)

    def start(self, *argv: str, run_dir: str | None = None, **more: object) -> tuple[str, LaunchRecord]:
        run_dir = run_dir or self.run_dir()
        asked = Launch(backend=str(more.pop("backend", "local")), argv=argv, cwd=str(self.directory))
        return run_dir, launch.start(asked, run_dir, **more)  # type: ignore[arg-type]

    def train(self, text: str, **more: object) -> tuple[str, LaunchRecord]:
        """Start a Python training and wait until it says "up"."""
        run_dir, record = self.start(sys.executable, self.script(text), **more)
        self.until(lambda: "up" in self.log(run_dir), what="the training to be up")
        return run_dir, record

    def log(self, run_dir: str) -> str:
        path = os.path.join(run_dir, "train.log")
        return Path(path).read_text() if os.path.exists(path) else ""

    def ended(self, run_dir: str, seconds: float = 30.0):
        """What is recorded of its end, once its supervisor is gone too: until then a temporary file may lie there."""
        found = self.until(lambda: read_exit(run_dir), seconds, lambda: f"the end of the run:\n{self.log(run_dir)}")
        record = read_launch(run_dir)
        supervisor = record.supervisor if record is not None else None
        self.until(lambda: supervisor is None or not supervisor.is_alive, what="the supervisor's end")
        return found


@pytest.fixture
def lab(tmp_path: Path, until: Callable[..., object], nothing_survives: Callable[[], list[int]]) -> Iterator[Lab]:
    yield Lab(tmp_path, until)


@pytest.fixture
def quick(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor whose heart beats ten times a second."""
    root = str(Path(starting.ENTRY).parents[2])
    entry = lab.script(
        f"import sys\nsys.path.insert(0, {root!r})\n"
        "import lavender_tui.launch.supervisor as s\n"
        "s.upkeep.HEARTBEAT_SECONDS = s.upkeep.NEAR_SECONDS = 0.1\n"
        "from lavender_tui.launch import nodes\n"
        "nodes.LOOK_SECONDS, nodes.PATIENCE_SECONDS, nodes.OTHERS_END_SECONDS = 0.1, 0.3, 0.5\n"
        "sys.exit(s.main(sys.argv[1:]))\n",
        "quick.py",
    )
    monkeypatch.setattr(starting, "ENTRY", entry)
