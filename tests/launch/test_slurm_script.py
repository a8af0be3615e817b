"""The script of a job: one text for the same launch, quoted, with nothing in it that an #SBATCH line would spoil."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from lavender_tui.config import SlurmSettings
from lavender_tui.errors import UsageError
from lavender_tui.launch import command, slurm
from lavender_tui.launch.slurm_script import JobScript, options_of, render
from lavender_tui.launch.sources import CommandSource
from lavender_tui.model.plan import Launch

PYTHON = sys.executable
JOB = JobScript(
    run_dir="/runs/a b\n'c",
    cwd="/pro ject",
    words=("python", "train.py", "--name", "it's $HOME\n"),
    env={"A": "b c", "B": "$x"},
    nodes=1,
    ranks=1,
    python=PYTHON,
    signal_seconds=90,
)


def built(argv: tuple[str, ...], world_size: int, **slurm_table: object) -> Launch:
    source = CommandSource(argv=argv, cwd="/pro ject", where="lavender.toml", slurm=slurm_table)
    return command.build(source, world_size=world_size, run_dir="/runs/run-1", backend="slurm", run_id="run-1-abc")


def test_the_same_job_gives_the_same_text_and_bash_takes_it() -> None:
    text = render(JOB)
    assert text == render(JOB) and text.startswith("#!/bin/bash\n")
    for one in (text, render(replace(JOB, nodes=2, ranks=4)), render(replace(JOB, attempt=3))):
        checked = subprocess.run(["bash", "-n"], input=os.fsencode(one), capture_output=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, b"")


def test_nodes_outlive_a_lost_one_for_longer_than_a_save_may_take_and_not_for_ever() -> None:
    assert f"--wait={JOB.signal_seconds + 60}" in render(replace(JOB, nodes=2, ranks=4))
    assert "--wait" not in render(JOB)


def test_bash_sees_the_same_words(tmp_path: Path) -> None:
    """The whole script, with `srun` and the place of its log replaced."""
    (tmp_path / "srun").write_text('#!/bin/bash\nprintf "%s\\0" "$A" "$B" "$PWD" "$@" >"$TOLD"\n')
    (tmp_path / "srun").chmod(0o755)
    run_dir = tmp_path / "r\n'un"
    run_dir.mkdir()
    text = render(replace(JOB, run_dir=str(run_dir), cwd=str(run_dir)))
    environ = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TOLD": str(tmp_path / "told")}
    done = subprocess.run(["bash"], input=os.fsencode(text), env=environ, check=False, timeout=60)
    told = (tmp_path / "told").read_bytes().decode().split("\0")[:-1]
    assert told[:3] == ["b c", "$x", str(run_dir)]
    assert tuple(told[-len(JOB.words) :]) == JOB.words
    assert done.returncode == 0 and (run_dir / "exit.json").exists()


def test_only_plain_options_stand_in_the_script() -> None:
    settings = SlurmSettings(
        partition="gpu,fast", account="a-1", time="1-02:00:00", gres="gpu:{ranks_per_node}",
        options=("--mem=0", "--comment=a b", "--exclude=n[1-3]", "-x", "--chdir=/a\nb"),
    )  # fmt: skip
    lines, others = options_of(settings, nodes=2, ranks=8)
    assert lines == (
        "--partition=gpu,fast", "--account=a-1", "--time=1-02:00:00", "--gres=gpu:4", "--mem=0",
        "--exclude=n[1-3]", "-x",
    )  # fmt: skip
    assert others == ("--comment=a b", "--chdir=/a\nb")
    launch = built((PYTHON, "t.py"), 1, options=["--comment=a b"], partition="gpu")
    assert "--comment=a b" in launch.argv and "#SBATCH --partition=gpu\n" in (launch.script or "")
    assert launch.argv[0] == "sbatch" and launch.argv[-1] == "/runs/run-1/job.sbatch"


@pytest.mark.parametrize(("world_size", "nodes"), [(1, 1), (2, 2), (3, 3), (4, 4), (6, 3), (7, 1), (8, 4)])
def test_the_ranks_are_shared_evenly_by_as_many_nodes_as_may_be(world_size: int, nodes: int) -> None:
    launch = built((PYTHON, "t.py"), world_size, nodes=4)
    assert f"--nodes={nodes}" in launch.argv
    script = launch.script or ""
    if nodes > 1:
        assert f"--nnodes {nodes} " in script and f"--nproc-per-node {world_size // nodes} " in script
        assert "--standalone" not in script
        assert 'bash -c \'PET_LOG_DIR="$0/node-$SLURM_NODEID" exec "$@"\' /runs/run-1/ranks ' in script
        assert "--log-dir" not in script
    elif world_size > 1:
        assert f"--standalone --nproc-per-node {world_size} " in script
    else:
        assert "torch.distributed.run" not in script


def test_what_is_changed_is_said() -> None:
    source = CommandSource(argv=("torchrun", "t.py"), cwd="/", where="x", slurm={"nodes": 2})
    assert command.notes(source, world_size=3, backend="slurm") == ("3 ranks can't be shared by 2 nodes: 1 asked for",)


def test_an_older_torchrun_is_warned_by_a_signal_that_it_survives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--signal=USR1@120" in built((PYTHON, "t.py"), 2).argv
    monkeypatch.setattr("lavender_tui.launch.torchrun._known_options", lambda interpreter: frozenset())
    assert "--signal=TERM@120" in built((PYTHON, "t.py"), 2).argv
    assert "--signal=USR1@120" in built((PYTHON, "t.py"), 1).argv


def test_bad_settings_of_a_project_refuse() -> None:
    with pytest.raises(UsageError, match="nodes"):
        built((PYTHON, "t.py"), 1, nodes="many")
    with pytest.raises(UsageError, match="partitions"):
        built((PYTHON, "t.py"), 1, partitions="gpu")
    with pytest.raises(UsageError, match="A-B"):
        render(replace(JOB, env={"A-B": "x"}))


def test_a_secret_stands_neither_in_the_script_nor_in_what_is_shown() -> None:
    source = CommandSource(
        argv=(PYTHON, "t.py", "--hf-token", "verysecret"), cwd="/", where="x", env={"WANDB_API_KEY": "othersecret"}
    )
    launch = command.build(source, world_size=1, run_dir="/runs/run-1", backend="slurm")
    assert "othersecret" not in (launch.script or "") and "verysecret" in (launch.script or "")
    assert "verysecret" not in (launch.shown_script or "") and "verysecret" not in str(launch.to_json())


def test_names_and_paths_as_slurm_takes_them() -> None:
    assert slurm.job_name("run 1/é\n-ab") == "lavender-run_1___-ab"
    assert slurm.literal("/a %j/50%") == "/a %%j/50%%"
    assert slurm.stdout_of("/root/run-1") == "/root/.lavender-tui/slurm/run-1.log"
