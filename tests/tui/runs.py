"""Real run directories for the screens: torch files, records and metrics as a training leaves them, a few kB each."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lavender_tui.launch.identity import boot_id, host_name, pid_namespace
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    Lineage,
    ProcessId,
    StopRecord,
    write_exit,
    write_launch,
    write_stop,
)

SPLITS = 8
GLOBAL_BATCH = 16
ROWS = 8_000
MINUTE = 60.0
HOSTILE_NAMES = (
    "exp[/x]",
    "[@click=app.quit]click me[/]",
    "[bold red]shout",
    "a\x1b[31mred\x07",
    "bidi-\u202eevil\u2066",
    "line\nbreak\ttab",
    "wide-学習-🚂",
    "not-utf8-\udcff\udc80",
    "%s {0} \\[x] $HOME",
)

# What a resumed run executes: saves nothing, trains nothing, goes on where the plan says, is there within milliseconds.
SCRIPT = """
import json, os, signal, sys, time
run_dir = os.environ["LAVENDER_RUN_DIR"]
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
plan = json.load(open(os.environ["LAVENDER_RESUME_PLAN"]))
print("resumed at epoch", plan["start"]["epoch"], "on", plan["world_size"]["next"], "[bold]ranks[/x]", flush=True)
deadline = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else time.monotonic() + 60
step = (plan["start"].get("samples_trained") or 0) // 16
loss = plan["source"]["loss"] or 2.0
while time.monotonic() < deadline:
    step, loss = step + 1, loss * 0.9995
    with open(os.path.join(run_dir, "metrics.jsonl"), "a") as file:
        file.write(json.dumps({"step": step, "loss": loss, "time": time.time()}) + "\\n")
    time.sleep(0.2)
"""


def rank_states(world_size: int, each: int, *, epoch: int, splits: int = SPLITS) -> list[dict[str, Any]]:
    """The states of all ranks, `each` samples of every split consumed."""
    counts = [each] * splits
    state = {
        "shuffle_seed": 7, "num_splits": splits, "epoch": epoch,
        "samples_consumed_per_split": counts, "positions_consumed_per_split": counts,
    }  # fmt: skip
    return [{**state} for _ in range(world_size)]


def save(
    run_dir: Path,
    save_count: int,
    *,
    stage: str = "pretrain",
    epoch: int = 1,
    epochs: int = 3,
    loss: float | str = 2.4,
    hours: float | None = 31.0,
    world_size: int | None = 4,
    each: int | None = 100,
    complete: bool = False,
    age_seconds: float = 60.0,
    cut_at: float | None = None,
    **more: Any,
) -> Path:
    """One checkpoint; `each` None for a file without rank states, `cut_at` the share of its bytes that is kept."""
    body: dict[str, Any] = {
        "model_state_dict": {"weight": torch.zeros(4, 4)},
        "optimizer_state_dict": {
            "state": {0: {"step": torch.tensor(5.0), "exp_avg": torch.zeros(4, 4), "exp_avg_sq": torch.zeros(4, 4)}},
            "param_groups": [{"lr": 2.1e-4, "params": [0]}],
        },
        "scheduler_state_dict": {"last_epoch": 5},
        "model_cfg": {"d_model": 4},
        "stage": stage, "save_count": save_count, "epoch": epoch, "epochs": epochs, "epoch_complete": complete,
        f"{stage}_loss": loss, "remaining_hours": hours, "world_size": world_size,
        "batch": {"global": GLOBAL_BATCH, "num_workers": 0},
        **more,
    }  # fmt: skip
    if each is not None and world_size is not None:
        body["dataset"] = rank_states(world_size, each, epoch=epoch - 1)
        body["global_step"] = each * SPLITS // GLOBAL_BATCH
    run_dir.mkdir(parents=True, exist_ok=True)
    moment = time.time() - age_seconds
    clock = time.strftime("%H-%M-%S", time.localtime(moment))
    path = run_dir / f"{stage}-{clock}-{save_count:04d}.pt"
    torch.save(body, path)
    if cut_at is not None:
        os.truncate(path, int(path.stat().st_size * cut_at))
    os.utime(path, (moment, moment))
    return path


def metrics(run_dir: Path, losses: Sequence[float | str], *, every: int = 10) -> None:
    """A metrics.jsonl; texts such as NaN are written as they are."""
    with (run_dir / "metrics.jsonl").open("a") as file:
        for number, loss in enumerate(losses, 1):
            file.write(json.dumps({"step": number * every, "loss": loss}) + "\n")


def launched(
    run_dir: Path,
    command: Sequence[str],
    *,
    source: Path | None = None,
    checkpoint: Path | None = None,
    world_size: int = 4,
    leader: ProcessId | None = None,
    ago: float = 3600.0,
) -> None:
    """A launch record, of a process that is gone where none is named."""
    run_dir.mkdir(parents=True, exist_ok=True)
    record = LaunchRecord(
        run_id=f"{run_dir.name}-0", run_dir=str(run_dir), backend="local", argv=tuple(command), command=tuple(command),
        cwd=str(run_dir.parent.parent), host=host_name(), boot_id=boot_id(), pid_namespace=pid_namespace(),
        leader=leader or ProcessId(pid=2**22 - 7, start_ticks=1), started_at=time.time() - ago,
        written_by="supervisor",
        resumed_from=Lineage(run=str(source), checkpoint=str(checkpoint) if checkpoint else None) if source else None,
        world_size=world_size,
    )  # fmt: skip
    write_launch(str(run_dir), record)


def ended(
    run_dir: Path, *, code: int | None = None, signal: str | None = None, error: str | None = None, ago: float = 3600.0
) -> None:
    write_exit(str(run_dir), ExitRecord(code=code, signal=signal, ended_at=time.time() - ago, error=error))


def stopped(run_dir: Path, who: str = "me") -> None:
    write_stop(str(run_dir), StopRecord(who=who, how="graceful", asked_at=time.time() - 100))


def script(directory: Path) -> list[str]:
    """The command of a training that a resume can launch."""
    path = directory / "train.py"
    path.write_text(SCRIPT)
    return [sys.executable, "-S", str(path)]


def falling(count: int, *, start: float = 4.4, end: float = 2.4) -> list[float]:
    """A loss that falls, with a little noise that is the same each time."""
    return [end + (start - end) * 0.97**n + 0.06 * ((n * 7919) % 13 - 6) / 13 for n in range(count)]


def small_root(directory: Path, *, hostile: bool = False) -> Path:
    """A root with a failed run that was resumed, a finished one, one whose newest save is cut, and an empty one."""
    root = directory / "checkpoints"
    failed = root / "run-2026-04-24_18-53-41"
    for count in (58, 59, 60):
        save(failed, count, loss=2.5 - count / 600, each=2 * count, age_seconds=3 * 3600 + (60 - count) * 660)
    metrics(failed, falling(300))
    launched(failed, script(directory))
    ended(failed, signal="SIGKILL", error="rank 2: out of memory", ago=3 * 3600 - 11 * MINUTE)
    again = root / "run-2026-04-25_09-12-07"
    for count in (1, 2, 3, 4):
        save(again, count, loss=2.41 - count / 300, each=130 + 2 * count, world_size=2, age_seconds=240)
    metrics(again, falling(40, start=2.42, end=2.39))
    launched(again, script(directory), source=failed, world_size=2)
    stopped(again)
    finished = root / "run-2026-04-20_22-41-55"
    save(finished, 112, stage="final", epoch=3, loss=0.9873, hours=0.0, complete=True, each=None, age_seconds=4 * 86400)
    cut = root / "run-2026-04-23_10-00-01"
    save(cut, 18, stage="sft", epoch=2, epochs=2, loss=1.1140, hours=3.2, each=40, age_seconds=7800)
    save(cut, 19, stage="sft", epoch=2, epochs=2, loss=1.1042, hours=3.0, each=44, age_seconds=7500, cut_at=0.6)
    (root / "run-2026-04-18_08-00-00").mkdir()
    if hostile:
        hostile_runs(root)
    return root


def hostile_runs(root: Path, *, ago: float = 3600.0) -> list[Path]:
    """Runs whose names, stages, losses and reasons try everything a terminal or a markup parser could fall for."""
    made = []
    for number, name in enumerate(HOSTILE_NAMES):
        run = Path(os.fsdecode(os.path.join(os.fsencode(root), os.fsencode(name))))
        save(
            run, number + 1, stage="pretrain", loss=(float("nan"), float("inf"), 1e308, -0.0)[number % 4], each=20,
            hours=float("nan") if number % 2 else -3.0, model_cfg={"[/key]": name.encode("utf-8", "replace").decode()},
        )  # fmt: skip
        metrics(run, [2.0, "NaN", "Infinity", 1e308, -1e308, 1.5][: number + 1])
        launched(run, ["python", f"[/{number}]", "[@click=app.quit]x[/]", "\x1b[2J"], ago=ago)
        ended(run, code=1, error=f"[/bold] [@click=app.quit]{number}\x1b[31m", ago=ago)
        made.append(run)
    return made
