"""How a script that nobody supervises ends, and what it leaves behind: in processes of their own."""

from __future__ import annotations

import glob
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lavender_tui.launch import start
from lavender_tui.launch.record import end_facts, read_exit, read_launch
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.plan import Launch
from lavender_tui.training.run_record import how_it_ended

LOST = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [::1]:5")
SCRIPT = """
import signal, sys, time, torch
from lavender_tui.training import CheckpointManager
manager = CheckpointManager({root!r}, model=torch.nn.Linear(1, 1))
{ending}
"""


@pytest.mark.parametrize(
    ("ending", "returncode", "code", "signal_name", "error"),
    [
        ("manager.close()", 0, 0, None, None),
        ("pass", 0, None, None, None),
        ("sys.exit(3)", 3, None, None, None),
        ("raise ValueError('boom')", 1, 1, None, "ValueError: boom"),
        ("raise KeyboardInterrupt", -2, None, "SIGINT", "KeyboardInterrupt"),
        ("with manager: sys.exit(3)", 3, 3, None, None),
        ("with manager: raise KeyboardInterrupt", -2, None, "SIGINT", "KeyboardInterrupt"),
        ("signal.raise_signal(signal.SIGTERM); manager.maybe_save('pretrain')", 0, 0, None, None),
    ],
)
def test_the_end_of_a_script(
    root: str, ending: str, returncode: int, code: int | None, signal_name: str | None, error: str | None
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(root=root, ending=ending)], capture_output=True, text=True, timeout=100
    )
    assert done.returncode == returncode, done.stderr
    (run_dir,) = glob.glob(os.path.join(root, "run-*"))
    ended, launched = read_exit(run_dir), read_launch(run_dir)
    assert ended is not None
    assert launched is not None
    assert (ended.code, ended.signal, ended.error) == (code, signal_name, error)
    assert (ended.failure or {}).get("exception") == (error if code is not None else None)
    assert launched.argv[:2] == (sys.executable, "-c")
    assert not launched.is_alive
    assert (ending.startswith("signal")) is end_facts(run_dir).stop_requested  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("exception", "world_size", "on_this_node", "words"),
    [
        (ValueError("boom"), 1, "1", "ValueError: boom"),
        (ValueError("boom"), 2, "2", "rank 0: ValueError: boom"),
        (LOST, 1, "1", "RuntimeError: Connection closed by peer [::1]:5"),
        (LOST, 2, "2", "rank 0 lost another rank, which ended first (Connection closed by peer)"),
        (LOST, 4, "2", "rank 0 lost another rank, or the network to it (Connection closed by peer)"),
    ],
)
def test_an_error_that_only_follows_from_another_ranks_end_is_recorded_as_that(
    exception: Exception, world_size: int, on_this_node: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", on_this_node)
    ending = how_it_ended(exception, world_size)
    assert (ending.status, ending.code, ending.error) == ("failed", 1, words)
    assert ending.failure is not None and ending.failure.exception == f"{type(exception).__name__}: {exception}"
    assert ending.failure.rank == (0 if world_size > 1 else None)


def test_killed_it_leaves_no_end(root: str, until: Callable[..., object]) -> None:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(root=root, ending="time.sleep(60)")])
    until(lambda: glob.glob(os.path.join(root, "run-*", "launch.json")), 60, "the launch record")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    (run_dir,) = glob.glob(os.path.join(root, "run-*"))
    assert read_exit(run_dir) is None
    assert not read_launch(run_dir).is_alive  # type: ignore[union-attr]


# Trains in a supervised training's place: its script starts another one, which inherits the id.
OUTER = """
import os, subprocess, sys
env = {{**os.environ, **{more!r}}}
env = {{name: value for name, value in env.items() if value}}
done = subprocess.run([sys.executable, "-c", {inner!r}], env=env)
sys.exit(done.returncode)
"""


@pytest.mark.parametrize("where", ["named", "its own"])
def test_a_training_inside_another_has_a_record_of_its_own(
    root: str, tmp_path: Path, until: Callable[..., object], nothing_survives: object, where: str
) -> None:
    """The outer one's launcher wrote the outer one's record, and knows nothing of the inner one's directory."""
    named, outer = str(tmp_path / "inner"), new_run_dir(str(tmp_path / "outer"))
    inner = SCRIPT.format(root=root, ending="manager.close()")
    text = OUTER.format(more={"LAVENDER_RUN_DIR": named if where == "named" else ""}, inner=inner)
    start(Launch(backend="local", argv=(sys.executable, "-c", text), cwd=str(tmp_path)), outer)
    until(lambda: read_exit(outer), 60, "the end of both")
    (run_dir,) = [named] if where == "named" else glob.glob(os.path.join(root, "run-*"))
    ended, record, outers = read_exit(run_dir), read_launch(run_dir), read_launch(outer)
    assert ended is not None and ended.code == 0 and record is not None and outers is not None
    assert (record.written_by, record.run_dir, outers.written_by) == ("training", run_dir, "supervisor")
    assert record.leader != outers.leader
    # The id counts only beside the directory: where a process names both, they are the ones to know it by.
    assert (record.run_id == outers.run_id) is (where == "named")


def test_importing_it_imports_nothing_heavy() -> None:
    code = "import json, sys, lavender_tui.training; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not {"torch", "lancedb", "pyarrow", "numpy", "textual"} & set(json.loads(done.stdout))


def test_every_public_name_is_there(tmp_path: Path) -> None:
    import lavender_tui.training as training

    for name in training.__all__:
        assert getattr(training, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing"):
        training.nothing  # noqa: B018
