"""Before a launch the app says that the disk has no room for one more save; what fails on it leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tui import small_disk

ALONE = ["unshare", "-rm"]


def may_mount() -> bool:
    try:
        return subprocess.run([*ALONE, "mount", "-t", "tmpfs", "t", "/mnt"], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not may_mount(), reason="needs a mount namespace of its own")
def test_a_nearly_full_disk_is_said_with_both_sizes_and_stays_as_it_was(tmp_path: Path) -> None:
    done = subprocess.run(
        [*ALONE, sys.executable, small_disk.__file__, str(tmp_path)],
        capture_output=True, text=True, timeout=200, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert re.search(r"no room for a single save: \d+ kB free, one save is 8\d\d kB", told["refused"])
    assert re.search(r"2\.0 MB free, one save is 8\d\d kB: room for 2", told["warned"])
    assert "the plan can't be written" in told["failed"] and "Make room" in told["failed"]
    code, lines, words = told["export"]
    assert (code, lines) == (1, 1) and "No space left" in words
    assert told["after"] == told["before"]
