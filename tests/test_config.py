"""Settings: flag > environment > file > default; tables in tables; a bad value costs a sentence, never the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.config import Config, SlurmSettings, load


def settings(tmp_path: Path, text: str = "", **environ: str) -> tuple[Config, tuple[str, ...]]:
    path = tmp_path / "config.toml"
    path.write_text(text)
    return load({"LAVENDER_TUI_CONFIG": str(path), **environ})


def test_a_table_is_read_from_the_file_and_the_environment_wins(tmp_path: Path) -> None:
    text = '[slurm]\npartition = "gpu"\ntime = "4:00:00"\nnodes = 2\noptions = ["--mem=0", "--comment=a b"]\n'
    config, notices = settings(tmp_path, text, LAVENDER_TUI_SLURM_NODES="4", LAVENDER_TUI_ROOT="runs")
    assert config.slurm == SlurmSettings(partition="gpu", time="4:00:00", nodes=4, options=("--mem=0", "--comment=a b"))
    assert config.root == "runs" and notices == ()


def test_words_in_a_variable_are_split_as_a_shell_would(tmp_path: Path) -> None:
    config, _ = settings(tmp_path, LAVENDER_TUI_SLURM_OPTIONS="--mem=0 --comment='a b'")
    assert config.slurm.options == ("--mem=0", "--comment=a b")


@pytest.mark.parametrize(
    "line",
    [
        "partition = 3", 'partition = "a b"', 'partition = ""', 'gres = "gpu\\n4"', "time = 60", 'time = "soon"',
        "nodes = 0", "nodes = true", 'nodes = "many"', "nodes = [1]", "options = 5", "options = [1]",
        'options = ["job.sh"]', "signal_seconds = -1", "signal_seconds = 100000", "unknown = 1",
    ],
)  # fmt: skip
def test_a_bad_value_is_said_once_and_the_default_is_used(tmp_path: Path, line: str) -> None:
    config, notices = settings(tmp_path, f"[slurm]\n{line}\naccount = 'kept'\n")
    assert config == Config(slurm=SlurmSettings(account="kept"))
    assert len(notices) == 1 and line.split()[0] in notices[0]


@pytest.mark.parametrize("text", ["slurm = 3", "root = 1", "[root]\na = 1", "not toml"])
def test_what_is_no_table_is_said_too(tmp_path: Path, text: str) -> None:
    config, notices = settings(tmp_path, text)
    assert config == Config() and len(notices) == 1
