"""A training to keep alive, without torch: it saves real checkpoints from a shelf, and does as `control.json` says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lavender_tui.launch import journal, start
from lavender_tui.launch.keepers import keeper_of
from lavender_tui.launch.living import members
from lavender_tui.launch.record import LaunchRecord, read_launch, send_signal
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.kept import KeptBy
from lavender_tui.model.plan import Launch

# Fails at once from the checkpoints in `bad`; saves one after the other until `last`; `dies` by its own hand instead of
# saving; logs `steps` before it fails; after `rests` saves it waits to be killed; `ranks` are children in sessions of
# their own, as torchrun's are.
SCRIPT = """
import json, os, shutil, signal, subprocess, sys, time
shelf, run = sys.argv[1], os.environ["LAVENDER_RUN_DIR"]
if sys.argv[2:] == ["rank"]:
    time.sleep(300)
control = json.load(open(os.path.join(shelf, "control.json")))
plan = os.environ.get("LAVENDER_RESUME_PLAN")
plan = json.load(open(plan)) if plan else None
count = plan["source"]["save_count"] if plan else 0
line = {"run": run, "from": count, "at": time.time(), "world_size": plan["world_size"]["next"] if plan else 1}
with open(os.path.join(shelf, "started.jsonl"), "a") as file:
    file.write(json.dumps(line) + "\\n")
with open(os.path.join(run, "metrics.jsonl"), "a") as file:
    for step in range(control.get("steps", 0)):
        file.write(json.dumps({"step": 100 * count + step, "loss": 1.5, "time": time.time()}) + "\\n")
if count in control.get("bad", ()):
    raise RuntimeError("the loss is NaN")
for _ in range(control.get("ranks", 0)):
    subprocess.Popen([sys.executable, __file__, shelf, "rank"], start_new_session=True)
print("up", flush=True)
while True:
    if plan and control.get("dies"):
        os.kill(os.getpid(), signal.SIGKILL)
    saved = saved + 1 if "saved" in globals() else 1
    time.sleep(control.get("pace", 0.2 if saved < 6 else 2.0))  # quick to begin, slow to be through
    count += 1
    name = f"pretrain-10-00-00-{count:04d}.pt"
    shutil.copy(os.path.join(shelf, name), os.path.join(run, name + ".tmp"))
    os.rename(os.path.join(run, name + ".tmp"), os.path.join(run, name))
    if count == control["last"]:
        break
    if saved == control.get("rests"):
        time.sleep(300)
    count = min(count, control.get("stays_at", count))
"""


class Keep:
    """One root, its training, and keepers as people start them."""

    def __init__(self, directory: Path, shelf: Path, until: Callable[..., Any]) -> None:
        self.directory, self.shelf, self.until = directory, shelf, until
        self.root = str(directory / "checkpoints")
        self.script = directory / "train.py"
        self.script.write_text(SCRIPT)
        self.keepers: list[subprocess.Popen[str]] = []
        self.order()

    def order(self, **control: Any) -> None:
        """What the training does from its next start on."""
        (self.shelf / "control.json").write_text(json.dumps({"last": 30, **control}))

    def start(self, saves: int = 2) -> str:
        """Start it fresh and wait for its saves."""
        run_dir = new_run_dir(self.root)
        words = (sys.executable, str(self.script), str(self.shelf))
        start(
            Launch(backend="local", argv=words, cwd=str(self.directory)), run_dir, command=words, world_size=1, grace=5
        )
        self.wait_for_saves(run_dir, saves)
        return run_dir

    def saves(self, run_dir: str) -> list[int]:
        return sorted(int(name[-7:-3]) for name in os.listdir(run_dir) if name.endswith(".pt"))

    def wait_for_saves(self, run_dir: str, number: int) -> None:
        self.until(lambda: len(self.saves(run_dir)) >= number, what=f"{number} saves in {run_dir}:\n{self.said()}")

    def supervise(self, *words: str, ready: bool = True) -> subprocess.Popen[str]:
        """A keeper in the foreground; returns when it keeps."""
        log = self.directory / f"keeper{len(self.keepers)}.log"
        with log.open("w") as out:
            keeper = subprocess.Popen(
                [sys.executable, "-m", "lavender_tui", "supervise", *(words or (self.root,))],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=out, text=True, cwd=self.directory,
            )  # fmt: skip
        self.keepers.append(keeper)
        if ready:
            self.until(lambda: "keeps" in log.read_text() or keeper.poll() is not None, what="the keeper")
        return keeper

    def said(self, number: int = -1) -> str:
        if not self.keepers:
            return ""
        return (self.directory / f"keeper{number % len(self.keepers)}.log").read_text()

    def ended(self, keeper: subprocess.Popen[str], seconds: float = 30.0) -> int:
        self.until(lambda: keeper.poll() is not None, seconds, f"the keeper's end:\n{self.said()}")
        return keeper.returncode

    @property
    def starts(self) -> list[dict[str, Any]]:
        path = self.shelf / "started.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    @property
    def froms(self) -> list[int]:
        return [one["from"] for one in self.starts]

    def wait_for_start(self, number: int, seconds: float = 60.0) -> str:
        """The directory of the start of that number, 1 for the first."""
        self.until(lambda: len(self.starts) >= number, seconds, f"start {number}:\n{self.said()}")
        return str(self.starts[number - 1]["run"])

    @property
    def runs(self) -> list[str]:
        return sorted(name for name in os.listdir(self.root) if name.startswith("run-"))

    def record(self, run_dir: str) -> LaunchRecord:
        record = read_launch(run_dir)
        assert record is not None
        return record

    def kill(self, run_dir: str, *, supervisor: bool = False) -> None:
        """kill -9 for the leader, and its supervisor if asked for."""
        record = self.record(run_dir)
        for one in (record.supervisor if supervisor else None, record.leader):
            if one is not None:
                send_signal(one.pid, one.start_ticks, signal.SIGKILL)

    def lives(self, run_dir: str) -> bool:
        return bool(members(run_dir, read_launch(run_dir)))

    def decisions(self) -> list[dict[str, Any]]:
        return [{"what": one.what, **one.facts} for one in journal.read(self.root) if "keeper" in one.facts]

    def keeper_of(self, run_dir: str) -> KeptBy | None:
        return keeper_of(run_dir)

    def close(self) -> None:
        for keeper in self.keepers:
            if keeper.poll() is None:
                keeper.kill()
            keeper.communicate()


def fill_shelf(shelf: Path, save: Callable[..., str], most: int = 30) -> None:
    """Real checkpoints by their save_count; the last one ends the last epoch."""
    for count in range(1, most):
        save(str(shelf), count, epoch=1, epochs=2, ce_loss=1.0 / count)
    save(str(shelf), most, epoch=2, epochs=2, epoch_complete=True)


def settle(seconds: float = 1.0) -> None:
    """Time in which a second start would have come."""
    time.sleep(seconds)
