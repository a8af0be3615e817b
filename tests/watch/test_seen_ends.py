"""A run whose supervisor died with it: whoever saw how it ended remembers it, and everybody says the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from lavender_tui.launch.identity import start_ticks
from lavender_tui.launch.record import ProcessId
from lavender_tui.watch.observe import Watcher
from lavender_tui.watch.scan import scan
from tests.tui.runs import launched
from tests.watch.watching import Seen


def test_a_death_that_the_watcher_saw_is_told_alike_by_whoever_looks_later(
    tmp_path: Path, until: Callable[..., object]
) -> None:
    run_dir = tmp_path / "runs" / "run-2026-04-24_18-53-41"
    process = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
    seen = Seen()
    watcher = Watcher([str(tmp_path / "runs")], seen)
    try:
        ticks = start_ticks(process.pid)
        assert ticks is not None
        launched(run_dir, ["true"], leader=ProcessId(pid=process.pid, start_ticks=ticks), ago=5.0)
        watcher.start()
        until(lambda: (run := seen.run(run_dir.name)) is not None and run.is_alive)
        until(lambda: watcher._ends.held)
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: (run := seen.run(run_dir.name)) is not None and "signal 9" in run.state_reason)
    finally:
        watcher.close()
        process.kill()
        process.wait()
    run = seen.run(run_dir.name)
    assert run is not None
    (later,) = scan([str(tmp_path / "runs")])
    assert (later.state, later.state_reason) == (run.state, run.state_reason)


def test_the_end_of_an_earlier_process_says_nothing_of_this_one(tmp_path: Path) -> None:
    from lavender_tui.launch import seen as memory
    from lavender_tui.launch.record import read_launch

    run_dir = tmp_path / "runs" / "run-2026-04-24_18-53-41"
    launched(run_dir, ["true"], ago=5.0)
    record = read_launch(str(run_dir))
    assert record is not None
    memory.write(memory.of_record(record, 1000.0, 9))
    assert "killed by signal 9" in scan([str(tmp_path / "runs")])[0].state_reason
    (run_dir / "launch.json").unlink()
    launched(run_dir, ["true"], leader=ProcessId(pid=2**22 - 9, start_ticks=1), ago=5.0)
    assert "left no exit record" in scan([str(tmp_path / "runs")])[0].state_reason
