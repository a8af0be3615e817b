"""Trainings that somebody started by hand, killed, and resumed with one command though nobody planned for it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import seen as memory
from lavender_tui.watch import ends
from lavender_tui.watch.observe import Watcher
from lavender_tui.watch.processes import find_processes
from tests.watch import saves
from tests.watch.saves import RUN

# A training of somebody else's: it knows nothing of us, and says what it was started with.
TRAIN = """\
import json, os, sys, time
out, rank = sys.argv[sys.argv.index("--out") + 1], os.environ.get("RANK", "0")
facts = {"cwd": os.getcwd(), "world_size": int(os.environ.get("WORLD_SIZE", "1")), "argv": sys.argv[1:],
         "setting": os.environ.get("TOKENIZERS_PARALLELISM"), "secret": os.environ.get("HF_TOKEN")}
log = open(os.path.join(out, f"rank{rank}.log"), "a")
with open(os.path.join(out, f".facts-{rank}"), "w") as file:
    json.dump(facts, file)
os.rename(file.name, os.path.join(out, f"facts-{rank}.json"))
time.sleep(600)
"""
START = """\
cd "$(dirname "$0")"
export TOKENIZERS_PARALLELISM=false HF_TOKEN=hf_0123456789abcdefghijklmnop PATH="{bin}:$PATH"
{command} train.py --lr 1e-3 --out ../checkpoints/{run}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    saves.save(tmp_path / "checkpoints" / RUN, 3)
    path = tmp_path / "project"
    path.mkdir()
    (path / "train.py").write_text(TRAIN)
    return path


@pytest.fixture
def begin(project: Path, nothing_survives: Callable[[], list[int]]) -> Iterator[Callable[[str], subprocess.Popen]]:
    """Start the training by a shell script, as people do."""
    started: list[subprocess.Popen] = []

    def start(command: str) -> subprocess.Popen:
        words = START.format(bin=os.path.dirname(sys.executable), command=command, run=RUN)
        (project / "start.sh").write_text(words)
        shell = subprocess.Popen(["bash", str(project / "start.sh")], cwd="/", start_new_session=True)
        started.append(shell)
        return shell

    yield start
    for shell in started:
        shell.kill()
        shell.wait()


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    made = Watcher([str(tmp_path / "checkpoints")], lambda snapshot: None)
    yield made
    made.close()
    made.join(10)


def facts(run: Path, rank: int) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((run / f"facts-{rank}.json").read_text())
    return document


def tell(*words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "lavender_tui", *words], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def live_then_die(run: Path, ranks: int, watcher: Watcher, until) -> memory.Seen:
    """Until the training was seen; then it is killed with all its ranks."""
    until(lambda: all((run / f"facts-{rank}.json").exists() for rank in range(ranks)), seconds=90, what="the ranks")
    watcher.start()
    until(lambda: memory.read(str(run)) is not None, what="the memory")
    seen = memory.read(str(run))
    assert seen is not None
    for process in find_processes([str(run)], {str(run): None}, {str(run): seen})[str(run)]:
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: (now := memory.read(str(run))) is not None and now.ended_at, what="the end in the memory")
    return seen


def resumed(run: Path, world_size: int, until) -> tuple[Path, list[dict[str, Any]]]:
    document = json.loads(tell("resume", str(run), "--world-size", str(world_size), "--json"))
    new = Path(document["run_dir"])
    until(
        lambda: all((new / f"facts-{rank}.json").exists() for rank in range(world_size)),
        seconds=90,
        what="the ranks of the new run",
    )
    return new, [facts(new, rank) for rank in range(world_size)]


def test_a_training_started_by_a_script_goes_on_with_one_command_on_two_ranks(
    project: Path, tmp_path: Path, begin, watcher: Watcher, until
):
    run = tmp_path / "checkpoints" / RUN
    begin("python")
    seen = live_then_die(run, 1, watcher, until)
    assert seen.argv == (
        os.path.join(os.path.dirname(sys.executable), "python"),
        "train.py",
        "--lr",
        "1e-3",
        "--out",
        "{run_dir}",
    )
    assert (seen.cwd, seen.shell) == (str(project), ("bash", str(project / "start.sh")))
    assert "hf_" not in Path(memory.path_of(str(run))).read_text()
    planned = json.loads(tell("plan", str(run), "--world-size", "2", "--json"))
    (found,) = [check for check in planned["checks"] if check["id"] == "command.found"]
    assert "as it was started by hand by `bash" in found["what"]
    new, ranks = resumed(run, 2, until)
    for rank in ranks:
        assert (rank["cwd"], rank["world_size"], rank["setting"]) == (str(project), 2, "false")
        assert rank["argv"] == ["--lr", "1e-3", "--out", str(new)]
        assert rank["secret"] is None  # what no record may hold has to come from whoever resumes


def test_the_end_of_a_process_that_no_handle_was_held_on_is_remembered(
    project: Path, tmp_path: Path, begin, watcher: Watcher, until, monkeypatch: pytest.MonkeyPatch
):
    """One that ends between two looks, or is one of too many."""
    monkeypatch.setattr(ends, "MOST", 0)
    begin("python")
    live_then_die(tmp_path / "checkpoints" / RUN, 1, watcher, until)


@pytest.mark.long
def test_of_torchrun_the_agents_command_is_remembered_and_takes_another_world_size(
    project: Path, tmp_path: Path, begin, watcher: Watcher, until
):
    run = tmp_path / "checkpoints" / RUN
    begin("torchrun --standalone --nproc-per-node 2")
    seen = live_then_die(run, 2, watcher, until)
    assert seen.argv[1:5] == (
        os.path.join(os.path.dirname(sys.executable), "torchrun"),
        "--standalone",
        "--nproc-per-node",
        "2",
    )
    assert seen.world_size == 2
    _, ranks = resumed(run, 1, until)
    assert [(rank["cwd"], rank["world_size"], rank["setting"]) for rank in ranks] == [(str(project), 1, "false")]
