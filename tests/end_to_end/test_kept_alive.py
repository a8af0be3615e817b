"""A real training on two ranks is kept alive over three kills: every row of the epoch trained once, nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lavender_tui.launch.record import read_launch


@pytest.mark.long
def test_kept_alive_over_three_kills_each_row_is_trained_once(make_chain, coverage_of, tmp_path, until):
    chain = make_chain(pause=0.15)
    chain.start(2)
    log = (tmp_path / "keeper.log").open("w")
    words = ["supervise", chain.run_dir, "--backoff", "0.2", "--world-sizes", "1,2"]
    keeper = subprocess.Popen(
        [sys.executable, "-m", "lavender_tui", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, cwd=chain.directory,
    )  # fmt: skip

    def following() -> str | None:
        known = {os.path.realpath(one) for one in chain.runs}
        names = sorted(name for name in os.listdir(chain.root) if name.startswith("run-"))
        paths = [os.path.realpath(os.path.join(chain.root, name)) for name in names]
        return next((path for path in paths if path not in known and read_launch(path) is not None), None)

    try:
        for _ in range(3):
            chain.wait_for_work_after_a_save(1)
            chain.kill()
            chain.runs.append(until(following, 120, "the resume"))
        assert chain.wait_for_end() == 0
        until(lambda: keeper.poll() is not None, 60, "the keeper's end")
        assert keeper.returncode == 0, (tmp_path / "keeper.log").read_text()
    finally:
        keeper.kill()
        keeper.wait()
        log.close()
    assert len(chain.runs) == 4 and following() is None
    assert [read_launch(run).world_size for run in chain.runs] == [2] * 4
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage
