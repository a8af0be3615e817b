"""What the chaos test kills, and what it knows by itself: from `/proc` and the records alone, by no code of ours."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# One training: an agent that starts ranks in sessions of their own, or, under torchrun, one rank of it. Rank 0, or the
# agent, saves real checkpoints from the shelf, each number once. Without a run's environment it only waits: a stranger
# with the same command line in the same directory, who writes down every signal that reaches it.
TRAINING = """
import json, os, shutil, signal, subprocess, sys, time
shelf, run = sys.argv[1], os.environ.get("LAVENDER_RUN_DIR")
if run is None:
    log = os.path.join(shelf, f"signals-{os.getpid()}")
    for number in (1, 2, 3, 10, 12, 15):
        signal.signal(number, lambda got, _: open(log, "a").write(f"{got}\\n"))
    while True:
        time.sleep(60)
if sys.argv[2:] == ["rank"] or os.environ.get("RANK", "0") != "0":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        time.sleep(0.2)
plan = os.environ.get("LAVENDER_RESUME_PLAN")
count = json.load(open(plan))["source"]["save_count"] if plan else 0
with open(os.path.join(shelf, "started.jsonl"), "a") as file:
    file.write(json.dumps({"run": run, "from": count, "pid": os.getpid(), "at": time.time()}) + "\\n")
ranks = []
if "RANK" not in os.environ:
    ranks = [subprocess.Popen([sys.executable, __file__, shelf, "rank"], start_new_session=True) for _ in range(2)]
def end(code):
    for rank in ranks:
        rank.terminate()
    for rank in ranks:
        rank.wait()
    sys.exit(code)
signal.signal(signal.SIGTERM, lambda *_: end(1))
while True:
    for _ in range(10):
        time.sleep(0.1)
        if any(rank.poll() is not None for rank in ranks):
            end(1)
    count += 1
    name = f"pretrain-10-00-00-{count:04d}.pt"
    shutil.copy(os.path.join(shelf, name), os.path.join(run, name + ".tmp"))
    os.rename(os.path.join(run, name + ".tmp"), os.path.join(run, name))
"""
ROW = re.compile(r"(run-[0-9_-]+)\s+[●◐✗■✓○]\s*(running|stalled|finished|failed|stopped|idle)")
LATEST_SECONDS = 5.0


def stat_of(pid: int) -> tuple[str, int] | None:
    """(state letter, start ticks)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[19])
    except (OSError, IndexError):
        return None


def lives(process: dict[str, Any] | None) -> bool:
    if not process:
        return False
    stat = stat_of(process["pid"])
    return stat is not None and stat[0] not in "ZX" and stat[1] == process["start_ticks"]


def read(path: str) -> dict[str, Any] | None:
    try:
        return json.loads(Path(path).read_text())
    except (OSError, ValueError):
        return None


def truth_of(run: str) -> str | None:
    """The state that should be shown; None while the directory is only being made."""
    launch = read(os.path.join(run, "launch.json"))
    if launch is None:
        return None
    if lives(launch["leader"]):
        return "running"
    if os.path.exists(os.path.join(run, "stop.json")):
        return "stopped"
    ended = read(os.path.join(run, "exit.json"))
    return "finished" if ended is not None and ended["code"] == 0 else "failed"


def environments(prefix: str) -> dict[int, str]:
    """pid -> run, of every live process whose environment says that it is of a run below `prefix`."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            variables = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        stat = stat_of(int(name))
        for one in variables:
            if one.startswith(b"LAVENDER_RUN_DIR=" + os.fsencode(prefix)) and stat is not None and stat[0] not in "ZX":
                found[int(name)] = os.fsdecode(one.partition(b"=")[2])
    return found


def kill(process: dict[str, Any] | None) -> bool:
    """kill -9 for exactly this process."""
    if not lives(process):
        return False
    assert process is not None
    try:
        handle = os.pidfd_open(process["pid"])
    except ProcessLookupError:
        return False
    try:
        if not lives(process):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        return True
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)


@dataclass
class Family:
    """One training over all its lives."""

    root: str
    is_kept: bool
    keeper: subprocess.Popen[bytes] | None = None

    @property
    def runs(self) -> list[str]:
        names = sorted(name for name in os.listdir(self.root) if name.startswith("run-"))
        return [os.path.join(self.root, name) for name in names]

    @property
    def launched(self) -> list[tuple[str, dict[str, Any]]]:
        found = [(run, read(os.path.join(run, "launch.json"))) for run in self.runs]
        return sorted(((run, one) for run, one in found if one is not None), key=lambda one: one[1]["started_at"])

    @property
    def current(self) -> tuple[str, dict[str, Any]]:
        return self.launched[-1]

    @property
    def has_saved(self) -> bool:
        return bool(self.launched) and any(name.endswith(".pt") for name in os.listdir(self.current[0]))

    def ranks(self) -> list[dict[str, Any]]:
        run, launch = self.current
        known = [launch["leader"]["pid"], launch["supervisor"]["pid"]]
        pids = [pid for pid, of in environments(self.root).items() if of == run and pid not in known]
        return [{"pid": pid, "start_ticks": stat[1]} for pid in pids if (stat := stat_of(pid)) is not None]


@dataclass
class History:
    """The truth about every run, with when it came to be so; whoever shows something has some seconds to follow."""

    families: list[Family]
    known: dict[str, list[tuple[float, str | None]]] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)

    def look(self) -> None:
        now = time.monotonic()
        self.looks.append(now)
        for family in self.families:
            for run in family.runs:
                changes = self.known.setdefault(run, [(now, None)])  # it was being made until just now
                truth = truth_of(run)
                if changes[-1][1] != truth:
                    changes.append((now, truth))
            alive = [run for run in family.runs if truth_of(run) == "running"]
            if len(alive) > 1:
                self.twice.append(f"alive at the same time: {alive}")

    def wrong(self, shown: dict[str, str], began: float, ended: float) -> list[str]:
        """What of the shown states was true at no instant from LATEST_SECONDS before it was looked at.

        What was true in the end the next look at the truth says, which comes late on a busy machine. `shown` has paths,
        or names: then the run of any root that has the name may be meant.
        """
        said = []
        until = next((at for at in self.looks if at >= ended), ended)
        for name, state in shown.items():
            meant = {run: changes for run, changes in self.known.items() if name in (run, os.path.basename(run))}
            truths = [truth for changes in meant.values() for truth in _within(changes, began - LATEST_SECONDS, until)]
            if state == "stalled" and "running" in truths and any(_was_silent(run, ended) for run in meant):
                continue
            if meant and None not in truths and state not in truths:
                said.append(f"{name} is shown as {state}, and is {truths}")
        return said


def _within(changes: list[tuple[float, str | None]], since: float, until: float) -> list[str | None]:
    earlier = [truth for at, truth in changes if at <= since]
    return [*earlier[-1:], *(truth for at, truth in changes if since < at <= until)]


def _was_silent(run: str, at: float) -> bool:
    """Did it save nothing for some seconds before `at` (monotonic), though it saves every second?"""
    wall = time.time() - time.monotonic() + at
    times = [os.stat(os.path.join(run, name)).st_mtime for name in os.listdir(run) if name.endswith(".pt")]
    return not any(wall - 5 < saved < wall - 1 for saved in times)


class Monitor(threading.Thread):
    """Looks all the time at the truth, and at what one of the ways to see it shows."""

    def __init__(self, name: str, history: History, look: Callable[[], dict[str, str] | None]) -> None:
        super().__init__(name=name, daemon=True)
        self.history, self.look, self.is_over = history, look, threading.Event()
        self.looks: list[tuple[dict[str, str], float, float]] = []

    def run(self) -> None:
        while not self.is_over.wait(0.2):
            began = time.monotonic()
            shown = self.look()
            if shown is None:
                continue
            self.looks.append((shown, began, time.monotonic()))

    @property
    def wrong(self) -> list[str]:
        """Judged when all is over: what is shown may be there before this test's own look at the truth is."""
        return [f"{self.name}: {one}" for look in self.looks for one in self.history.wrong(*look)]


def rows_of(screen: str) -> dict[str, str]:
    """Run -> state, of every row on the screen."""
    return {match[1]: match[2] for match in ROW.finditer(screen)}


def listed(roots: list[str]) -> dict[str, str] | None:
    """What `ls --json` says; None where it was killed."""
    done = subprocess.run(
        [sys.executable, "-m", "lavender_tui", "ls", "--json", *roots], capture_output=True, text=True, check=False
    )
    return {one["path"]: one["state"] for one in json.loads(done.stdout)} if done.returncode == 0 else None
