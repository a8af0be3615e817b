"""The app is killed in the instant after it launched, and its terminal closed: the training doesn't notice."""

from __future__ import annotations

import os
import shutil
import signal
import sys

import pytest

from lavender_tui import launch
from lavender_tui.launch.record import read_exit, read_launch
from tests.end_to_end.test_app import Terminal
from tests.resume.saves import save

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, the real terminal of this test")

# Ends at a hang-up or an interrupt, as torchrun's agent does.
TRAIN = """
import os, signal, sys, time
run = os.environ["LAVENDER_RUN_DIR"]
def ends(signum, frame):
    open(f"{run}/signal.{signum}", "w").close()
    sys.exit(0 if signum == signal.SIGTERM else 1)
for signum in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(signum, ends)
while True:
    print("step", flush=True)
    time.sleep(0.05)
"""


def test_a_training_outlives_the_killed_app_and_its_terminal(tmp_path, until, nothing_survives):
    root, script = tmp_path / "checkpoints", tmp_path / "train.py"
    script.write_text(TRAIN)
    old = str(root / "run-2026-01-02_03-04-05")
    save(old, epoch_complete=True)
    command = ["-m", "lavender_tui", str(root), "--", sys.executable, str(script)]
    terminal = Terminal(str(tmp_path / "tmux"), [sys.executable, *command])
    try:
        until(lambda: "run-2026-01-02" in terminal.screen, 60, "the run in the list")
        terminal.press("r")
        until(lambda: "ready:" in terminal.screen, 60, "the checked resume sheet")
        terminal.press("Enter")
        new = until(lambda: [str(one.parent) for one in root.glob("run-*/launch.json")], 60, "the new run")[0]
        app = int(terminal._run("list-panes", "-F", "#{pane_pid}"))
        with open(f"/proc/{app}/cmdline", "rb") as file:
            assert b"lavender_tui" in file.read().split(b"\0")[2:3]
        os.kill(app, signal.SIGKILL)
        until(lambda: not terminal.is_open, 30, "the terminal's end")
    finally:
        terminal.close()
    record = read_launch(new)
    assert record.is_alive and os.getsid(record.leader.pid) == record.leader.pid
    log = os.path.join(new, "train.log")
    size = os.path.getsize(log)
    until(lambda: os.path.getsize(log) > size + 20, what="further steps")
    assert not [name for name in os.listdir(new) if name.startswith("signal.")]
    assert launch.stop(new).how == "ended" and read_exit(new).code == 0
