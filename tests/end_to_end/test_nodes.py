"""Two torchrun agents as two nodes of one host: real ranks, real saves, and what becomes of one when the other dies."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from lavender_tui.demo.chain import EXAMPLE, Chain
from lavender_tui.demo.coverage import Coverage
from lavender_tui.launch import start, stop
from lavender_tui.launch.command import Hosts, build
from lavender_tui.launch.record import LaunchRecord, end_facts, read_exit, read_launch, send_signal
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.resume import Options, Target, carry_out, propose

SECONDS = 120.0


def joined_by(run_dir: str) -> LaunchRecord:
    """The record of the node that has joined that run, as from another host's command line."""
    command = [sys.executable, "-m", "lavender_tui", "join", run_dir]
    node_dir = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert node_dir == os.path.join(run_dir, "node-1")
    record = read_launch(node_dir)
    assert record is not None and record.nodes == 2
    return record


@pytest.mark.long
def test_two_nodes_go_on_where_one_stopped_and_both_end_well(
    make_chain: Callable[..., Chain], coverage_of: Callable[..., Coverage], until: Callable[..., object]
) -> None:
    chain = make_chain()
    chain.start(1)
    until(lambda: chain.newest_save() is not None, SECONDS, "a save on one node")
    stop(chain.run_dir)
    launched = carry_out(propose(Target(paths=(chain.run_dir,)), Options(world_size=2, nodes=2)))
    chain.runs.append(launched.run_dir)
    node = joined_by(launched.run_dir)
    for place in (chain.run_dir, node.run_dir):
        ended = until(lambda place=place: read_exit(place), SECONDS, f"the end of {place}")
        assert ended.code == 0 and ended.error is None and ended.stop is None
    assert chain.newest_save().world_size == 2
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage
    ranks = {name for _, _, names in os.walk(os.path.join(node.run_dir, "ranks")) for name in names}
    assert "stdout.log" in ranks


@pytest.mark.long
@pytest.mark.parametrize("killed", ["first", "second"])
def test_an_agent_killed_fails_the_run_on_both_nodes(
    make_chain: Callable[..., Chain], until: Callable[..., object], killed: str
) -> None:
    chain = make_chain(pause=0.3)
    words = (sys.executable, "-m", EXAMPLE, "--data", chain.data, "--root", chain.root, *chain.options)
    run_dir = new_run_dir(chain.root)
    launch = build(words, world_size=2, run_dir=run_dir, cwd=chain.directory, hosts=Hosts(nodes=2))
    start(launch, run_dir, command=words)
    chain.runs.append(run_dir)
    node = joined_by(run_dir)
    until(lambda: chain.newest_save() is not None, SECONDS, "a save on two nodes")
    first = read_launch(chain.run_dir)
    victim = first if killed == "first" else node
    send_signal(victim.leader.pid, victim.leader.start_ticks, 9)
    for place in (chain.run_dir, node.run_dir):
        until(lambda place=place: read_exit(place), SECONDS, f"the end of {place}")
        facts = end_facts(place)
        assert facts is not None and not facts.stop_requested
        assert facts.signal == "SIGKILL" or facts.exit_code not in (0, None)
    survivor = node.run_dir if killed == "first" else chain.run_dir
    error = read_exit(survivor).error or ""
    assert "failed: killed by signal 9" in error or error.startswith("rank "), error
