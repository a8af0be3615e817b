"""Where several clusters can be submitted to, a job is known with its own. Slurm is played by small programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.errors import LaunchFailed
from lavender_tui.launch import slurm, slurm_state
from lavender_tui.launch.record import read_launch
from lavender_tui.launch.slurm import cluster_asked_for
from lavender_tui.resume import Options
from lavender_tui.resume.fresh import start_fresh


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
    for name, body in (("scontrol", "echo 'ClusterName = lab'"), ("squeue", "echo slurm 22.05.8")):
        program(directory, name, body)
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()
    yield directory
    for remembered in (slurm_state.version, slurm_state._cluster_of):
        remembered.cache_clear()


def program(directory: Path, name: str, body: str) -> None:
    (directory / name).write_text(f"#!/bin/sh\n{body}\n")
    (directory / name).chmod(0o755)


def submitted(tmp_path: Path) -> str | None:
    options = Options(backend="slurm", command=("true",), world_size=1, project_dir=str(tmp_path))
    record = start_fresh(str(tmp_path / "root"), options).record
    kept = read_launch(record.run_dir)
    assert kept == record and record.slurm is not None and record.slurm.job_id == 12
    return record.slurm.cluster


def test_the_record_names_the_cluster(programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(programs, "sbatch", "echo '12;other'")
    assert submitted(tmp_path) == "other"
    program(programs, "sbatch", "echo 12")
    assert submitted(tmp_path) == "lab"
    monkeypatch.setenv("SLURM_CLUSTERS", "far")
    assert submitted(tmp_path) == "far"


def test_a_refusal_of_several_lines_is_one_sentence(programs: Path, tmp_path: Path) -> None:
    said = "sbatch: error: resolve_ctls: Unknown host\\nsbatch: error: fetch_config: no answer\\n"
    program(programs, "sbatch", f"printf '{said}' >&2; exit 1")
    with pytest.raises(LaunchFailed, match="no such job: resolve_ctls: Unknown host / fetch_config: no answer"):
        submitted(tmp_path)


def test_what_may_be_in_another_cluster_is_not_taken_for_unsubmitted(
    programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is lost; the own cluster would know no such job, the other one doesn't answer."""
    monkeypatch.setattr(slurm, "LOOKING_SECONDS", 0.1)
    program(programs, "sbatch", "echo 'sbatch: error: Socket timed out' >&2; exit 1")
    with pytest.raises(LaunchFailed, match="nothing was submitted"):
        submitted(tmp_path)
    assert not [path for path in (tmp_path / "root").iterdir() if path.name.startswith("run-")]
    monkeypatch.setenv("SLURM_CLUSTERS", "far")
    program(programs, "squeue", "case $1 in --clusters=far) exit 1;; esac; echo slurm 22.05.8")
    with pytest.raises(LaunchFailed, match="isn't known"):
        submitted(tmp_path)
    (run_dir,) = [path for path in (tmp_path / "root").iterdir() if path.name.startswith("run-")]
    record = read_launch(str(run_dir))
    assert record is not None and record.slurm is not None and record.slurm.cluster == "far"


def test_who_names_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SBATCH_CLUSTERS", "SLURM_CLUSTERS"):
        monkeypatch.delenv(name, raising=False)
    script = "#!/bin/bash\n#SBATCH --time=3\n#SBATCH --clusters=c\necho --clusters=d\n"
    assert cluster_asked_for(("sbatch", "job.sbatch"), "") is None
    assert cluster_asked_for(("sbatch", "job.sbatch"), script) == "c"
    monkeypatch.setenv("SLURM_CLUSTERS", "b")
    assert cluster_asked_for(("sbatch", "job.sbatch"), script) == "b"
    assert cluster_asked_for(("sbatch", "-Ma", "--clusters=x/job.sbatch"), script) == "a"
