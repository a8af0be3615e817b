"""`lavender-tui demo --headless`: the whole story ends well, and an interrupted one leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


def tell(directory, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "lavender_tui", "demo", "--headless", "--directory", str(directory)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )


@pytest.mark.long
def test_the_whole_story(tmp_path, nothing_survives):
    story = tell(tmp_path / "demo")
    said, _ = story.communicate(timeout=200)
    assert story.returncode == 0, said
    assert "1,024 rows: 0 lost, 0 repeated; 32 of 32 global batches as without an interruption" in said
    assert said.count("kill -9") == 2
    assert nothing_survives() == []
    assert os.listdir(tmp_path / "demo") == ["1"]


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_leaves_no_process(tmp_path, nothing_survives, until, signum):
    story = tell(tmp_path / "demo")
    root = tmp_path / "demo" / "1" / "checkpoints"
    until(lambda: list(root.glob("run-*/launch.json")), 60, "the training's start")
    assert len(nothing_survives()) >= 2
    story.send_signal(signum)
    said, _ = story.communicate(timeout=120)
    assert story.returncode == 130, said
    assert "stopped what still ran of run-" in said
    assert nothing_survives() == []
