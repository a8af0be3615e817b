"""One real cluster for all tests in here, and a training of the standard library alone."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import slurm_state
from lavender_tui.launch.record import ExitRecord, LaunchRecord, read_exit
from lavender_tui.resume import Options
from lavender_tui.resume.fresh import start_fresh
from tests.slurm.cluster import Cluster, why_not

TRAIN = str(Path(__file__).with_name("train.py"))
MUST = ("CI", "LAVENDER_TUI_NEED_SLURM")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if (why := why_not()) is not None:
        if any(os.environ.get(name) for name in MUST):
            pytest.fail(f"Slurm is not tested: {why}")
        pytest.skip(f"SLURM IS NOT TESTED: {why}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        patch.delenv("SLURM_CONF", raising=False)
        cluster = Cluster()
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


@pytest.fixture
def slurm(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """The cluster, as it is found by whoever calls sbatch; no job of the test outlives it."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    yield cluster
    cluster.run("scancel", "--user=root")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "checkpoints"
    root.mkdir()
    return root


class Lab:
    """Starts trainings in `root` and waits for what becomes of them."""

    def __init__(self, cluster: Cluster, root: Path, until: Callable[..., Any]) -> None:
        self.cluster, self.root, self.until = cluster, root, until

    def start(
        self, *words: str, world_size: int = 1, command: tuple[str, ...] | None = None, **more: Any
    ) -> LaunchRecord:
        argv = (sys.executable, TRAIN, *words) if command is None else command
        options = Options(
            backend="slurm", command=argv, world_size=world_size, project_dir=str(self.root.parent), **more
        )
        return start_fresh(str(self.root), options).record

    def told(self, record: LaunchRecord) -> dict[str, Any]:
        """What the training wrote about itself when it began."""
        path = Path(record.run_dir) / "told.json"
        self.until(path.exists, seconds=120, what=lambda: f"{path}\n{self.words(record)}")
        return json.loads(path.read_text())

    def end(self, record: LaunchRecord, seconds: float = 120) -> ExitRecord:
        ended = self.until(lambda: read_exit(record.run_dir), seconds=seconds, what="the end to be recorded")
        assert isinstance(ended, ExitRecord)
        return ended

    def state(self, record: LaunchRecord) -> str | None:
        assert record.slurm is not None and record.slurm.job_id is not None
        job = slurm_state.ask([record.slurm]).get(record.slurm)
        return job.state if job is not None else None

    def runs(self) -> list[Path]:
        return sorted(path for path in self.root.iterdir() if path.name.startswith("run-"))

    def words(self, record: LaunchRecord) -> str:
        """All that was printed, by Slurm and by the training."""
        assert record.slurm is not None
        paths = (Path(record.slurm.stdout), Path(record.run_dir) / "train.log")
        return "\n".join(path.read_text(errors="replace") for path in paths if path.exists())


@pytest.fixture
def lab(slurm: Cluster, root: Path, until: Callable[..., Any]) -> Lab:
    return Lab(slurm, root, until)
