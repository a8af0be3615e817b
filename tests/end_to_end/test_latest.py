"""The line that stands in a job script, with a real training on two ranks: started, killed, resumed on one, over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import lancedb
import pyarrow as pa
import pytest

from lavender_tui.launch import stop

SCRIPT = Path(__file__).parent.parent / "training" / "script.py"
ROWS = 200


@pytest.mark.long
def test_a_job_script_brings_a_training_to_its_end(tmp_path: Path, until: Any, nothing_survives: Any) -> None:
    uri, root = str(tmp_path / "data"), tmp_path / "checkpoints"
    lancedb.connect(uri).create_table("corpus", pa.table({"x": list(range(ROWS))}))
    options = {"uri": uri, "root": str(root), "out": str(tmp_path), "pause": 0.3}

    def latest(*words: str, **more: Any) -> dict[str, Any]:
        train = ["torchrun", "--standalone", str(SCRIPT), json.dumps({**options, **more})]
        done = subprocess.run(
            [sys.executable, "-m", "lavender_tui", "resume", "--latest", str(root), "--json", *words, "--", *train],
            capture_output=True, text=True, timeout=120, cwd=tmp_path,
            env={**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    first = latest("--world-size", "2")
    assert first["started"] == "fresh"
    until(lambda: len(rows(tmp_path)) >= 60, what="60 rows on two ranks", seconds=90)
    assert latest("--world-size", "2")["started"] == "alive"
    assert stop(first["run_dir"]).how == "ended"
    second = latest("--world-size", "1", pause=0.0)
    assert second["started"] == "resumed"
    until(lambda: latest(pause=0.0)["started"] == "over", what="the end", seconds=120)
    assert Counter(rows(tmp_path)) == Counter(range(ROWS))


def rows(out: Path) -> list[int]:
    found: list[int] = []
    for path in out.glob("rows*.jsonl"):
        for line in path.read_text().splitlines(True):
            found += json.loads(line)["x"] if line.endswith("\n") else []  # the last one may be half written
    return found
