"""The command that a page shows is the one that ran, not the template with the number of an earlier run."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.launch.as_it_ran import command_as_it_ran
from lavender_tui.launch.command import build
from lavender_tui.launch.record import LaunchRecord


def record(command: str, argv: tuple[str, ...], backend: str, world_size: int, **more: object) -> LaunchRecord:
    facts = {"run_id": "r", "run_dir": "/r", "cwd": "/", "host": "h", "boot_id": "b", "pid_namespace": "p"}
    return LaunchRecord(
        **facts, leader=None, started_at=0.0, written_by="supervisor",
        command=tuple(command.split()), argv=argv, backend=backend, world_size=world_size, **more,
    )  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "ranks", "shown"),
    [
        ("torchrun --standalone --nproc-per-node 2 train.py --lr 1", 4, "--nproc-per-node 4 train.py --lr 1"),
        ("torchrun --nproc_per_node=2 --tee 3 -m pkg.train --out {run_dir}", 8, "-m pkg.train --out "),
        ("uv run torchrun --nproc-per-node 2 train.py", 4, "--nproc-per-node 4 train.py"),
        ("env -u X RANKS={world_size} torchrun --nproc-per-node 2 train.py", 4, "env -u X RANKS=4 torchrun "),
    ],
)  # fmt: skip
def test_torchrun_is_shown_with_the_ranks_that_ran(tmp_path: Path, asked: str, ranks: int, shown: str) -> None:
    launch = build(asked.split(), world_size=ranks, run_dir=str(tmp_path), cwd=str(tmp_path))
    words = command_as_it_ran(record(asked, launch.argv, launch.backend, ranks))
    line = " ".join(words)
    assert line.startswith(asked.partition("torchrun")[0].replace("{world_size}", str(ranks)) + "torchrun ")
    assert f"--nproc-per-node {ranks} " in line
    assert shown in line
    assert "--log-dir" not in line and "--tee" not in line and "{" not in line


def test_a_python_script_that_torchrun_started_is_shown_with_torchrun(tmp_path: Path) -> None:
    launch = build(["python", "train.py"], world_size=2, run_dir=str(tmp_path), cwd=str(tmp_path))
    line = " ".join(command_as_it_ran(record("python train.py", launch.argv, launch.backend, 2)))
    assert line.endswith("-m torch.distributed.run --standalone --nproc-per-node 2 train.py")


def test_one_process_is_shown_as_it_was_asked_for_with_its_values_in_place(tmp_path: Path) -> None:
    asked = "env RANKS={world_size} python train.py --epoch {start_epoch} --ranks {world_size}"
    launch = build(asked.split(), world_size=1, run_dir=str(tmp_path), cwd=str(tmp_path), start_epoch=3)
    assert command_as_it_ran(record(asked, launch.argv, launch.backend, 1)) == (
        "env", "RANKS=1", "python", "train.py", "--epoch", "3", "--ranks", "1",
    )  # fmt: skip


def test_a_job_is_shown_with_its_ranks_a_node() -> None:
    found = record("torchrun --nproc-per-node 2 train.py", ("sbatch", "job.sh"), "slurm", 16, nodes=2)
    assert command_as_it_ran(found) == ("torchrun", "--nproc-per-node", "8", "train.py")


def test_without_a_template_it_is_what_was_executed() -> None:
    assert command_as_it_ran(record("", ("python", "-u", "train.py"), "local", 1)) == ("python", "-u", "train.py")
