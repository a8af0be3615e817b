"""Roots that look the same on every machine and at every hour: what the recorded screens show."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lavender_tui.launch.identity import boot_id, host_name, pid_namespace, start_ticks
from lavender_tui.launch.record import LaunchRecord, Lineage, ProcessId, write_launch
from tests.tui import runs

HOUR, DAY = 3600.0, 86_400.0
FAILED, AGAIN = "run-2026-04-24_18-53-41", "run-2026-04-25_09-12-07"
LIVING, STALLED = "run-2026-05-01_08-00-00", "run-2026-05-01_07-00-00"
COMMAND = ("python", "train.py", "--config", "base.toml", "--lr", "3e-4")
TRACEBACK = """Traceback (most recent call last):
  File "/home/anna/exp/train.py", line 88, in <module>
    loss.backward()
RuntimeError: CUDA out of memory. Tried to allocate 2.50 GiB
"""
# One process alone: several numbers in a line would wrap it where those of another machine don't.
_SLEEPS = "import time; time.sleep(600)"


@dataclass(slots=True)
class Scene:
    """A root, the run that it is about, and the process that was started for it."""

    root: Path
    run: str | None = None
    process: int | None = None


def save(run: Path, count: int, *, age: float, **more: object) -> Path:
    """A checkpoint named by its count alone, not by the hour."""
    stage = str(more.get("stage", "pretrain"))
    made = runs.save(run, count, age_seconds=age, **more)  # type: ignore[arg-type]
    path = run / f"{stage}-{8 + count // 6 % 12:02d}-{count % 6}0-00-{count:04d}.pt"
    return made.rename(path)


def launched(run: Path, *, ago: float, leader: ProcessId | None = None, source: Path | None = None) -> None:
    run.mkdir(parents=True, exist_ok=True)
    record = LaunchRecord(
        run_id=_id_of(run), run_dir=str(run), backend="local", argv=COMMAND, command=COMMAND,
        cwd=str(run.parent.parent), host=host_name(), boot_id=boot_id(), pid_namespace=pid_namespace(),
        leader=leader or ProcessId(pid=2**22 - 7, start_ticks=1), started_at=time.time() - ago,
        written_by="supervisor", world_size=2, resumed_from=Lineage(run=str(source)) if source else None,
    )  # fmt: skip
    write_launch(str(run), record)


def history(root: Path) -> None:
    """What every scene has beside its own run: a failed one that was resumed, stopped then, and a finished one."""
    failed, again, done = root / FAILED, root / AGAIN, root / "run-2026-04-20_22-41-55"
    for count in (58, 59, 60):
        save(failed, count, loss=2.5 - count / 600, each=2 * count, age=3.5 * HOUR + (60 - count) * HOUR,
             world_size=4, model_cfg={"d_model": 256, "dropout": 0.1, "layers": 8})  # fmt: skip
    runs.metrics(failed, runs.falling(300))
    launched(failed, ago=9.5 * HOUR)
    runs.ended(failed, code=1, error="rank 2: CUDA out of memory", ago=3.5 * HOUR)
    steps = "".join(f"step={step} loss={3 - step / 50:.4f} lr=0.0003\n" for step in range(1, 60))
    (failed / "train.log").write_text(steps + TRACEBACK)
    for count in (1, 2):
        save(again, count, loss=2.41 - count / 300, each=130 + 2 * count, age=(2.5 - count / 2) * DAY,
             world_size=2, model_cfg={"d_model": 256, "dropout": 0.2, "layers": 8})  # fmt: skip
    runs.metrics(again, runs.falling(40, start=2.42, end=2.39))
    launched(again, ago=2.5 * DAY, source=failed)
    runs.write_stop(str(again), runs.StopRecord(who="anna", how="graceful", asked_at=time.time() - 1.5 * DAY))
    save(done, 112, stage="final", epoch=3, loss=0.9873, hours=0.0, complete=True, each=None, age=4.5 * DAY)


def empty(home: Path) -> Scene:
    root = home / "exp" / "checkpoints"
    root.mkdir(parents=True)
    (home / "exp" / "train.py").write_text(_SLEEPS)
    return Scene(root)


def failed(home: Path) -> Scene:
    scene = empty(home)
    history(scene.root)
    return Scene(scene.root, FAILED)


def living(home: Path, name: str = LIVING, last: float = 2.5 * HOUR) -> Scene:
    """Saves every sixth hour, the last time `last` seconds ago."""
    scene = empty(home)
    history(scene.root)
    run = scene.root / name
    for count in (1, 2, 3):
        save(run, count, loss=2.2 - count / 50, each=100 * count, age=last + (3 - count) * 6 * HOUR, world_size=2)
    if name == LIVING:  # steps count from the start of the process on: a stall since yesterday shows in the saves alone
        runs.metrics(run, runs.falling(120, start=3.1, end=2.1))
    (run / "train.log").write_text("".join(f"step={step} loss={3 - step / 90:.4f}\n" for step in range(1, 91)))
    leader = _start(run)
    launched(run, ago=last + 13 * HOUR, leader=ProcessId(pid=leader, start_ticks=start_ticks(leader) or 0))
    for file in (*run.glob("*.jsonl"), run / "train.log", run / "launch.json"):
        os.utime(file, (time.time() - last, time.time() - last))
    return Scene(scene.root, name, leader)


def stalled(home: Path) -> Scene:
    return living(home, STALLED, last=20.5 * HOUR)


def hostile(home: Path) -> Scene:
    """A run for each name, stage and number that a screen could fall for."""
    scene = empty(home)
    for number, run in enumerate(runs.hostile_runs(scene.root, ago=5.5 * HOUR)):
        [found] = run.glob("*.pt")
        found.rename(run / f"pretrain-08-{number % 6}0-00-{number + 1:04d}.pt")
        os.utime(run / f"pretrain-08-{number % 6}0-00-{number + 1:04d}.pt", (time.time() - 5.5 * HOUR,) * 2)
        (run / "train.log").write_bytes(b"step=1 [/x] [@click=app.quit]q[/] \x1b[31mred\x1b[0m \xff\n[bold\n")
    return Scene(scene.root, "[@click=app.quit]click me[/]")


SCENES: dict[str, Callable[[Path], Scene]] = {
    "empty": empty, "living": living, "stalled": stalled, "failed": failed, "hostile": hostile,
}  # fmt: skip


def _start(run: Path) -> int:
    env = {**os.environ, "LAVENDER_RUN_DIR": str(run), "LAVENDER_RUN_ID": _id_of(run)}
    argv = ["python", "train.py", *COMMAND[2:]]
    child = subprocess.Popen(argv, executable=sys.executable, env=env, cwd=run.parent.parent, start_new_session=True)
    return child.pid


def _id_of(run: Path) -> str:
    """Another one in each home: tests run at the same time, and a process is known by its run's id."""
    return f"{run.name}-{run.parent.parent.parent.name}"
