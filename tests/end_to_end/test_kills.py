"""Every way to lose a training: who is killed, what outlives it, and that nothing is lost or repeated all the same."""

from __future__ import annotations

import os
import signal

import pytest

from lavender_tui.launch import StopOrder, stop
from lavender_tui.launch.living import members
from lavender_tui.launch.record import read_exit, read_launch, read_stop, send_signal
from lavender_tui.resume import Options, Target, propose


def kill_agent(record, workers):
    send_signal(record.leader.pid, record.leader.start_ticks, signal.SIGKILL)


def kill_agents_group(record, workers):
    os.killpg(record.leader.pid, signal.SIGKILL)


def kill_one_rank(record, workers):
    send_signal(workers[1].pid, workers[1].start_ticks, signal.SIGKILL)


def in_the_middle(make_chain, pause=0.1):
    chain = make_chain(pause=pause)
    chain.start(2)
    chain.wait_for_work_after_a_save(1, not_before=6)
    record = read_launch(chain.run_dir)
    workers = [one for one in members(chain.run_dir, record) if one.pid != record.leader.pid]
    assert len(workers) >= 2
    return chain, record, workers


def resumes_exactly(chain, coverage_of, *sizes):
    for size in sizes[:-1]:
        chain.resume(size)
        chain.wait_for_work_after_a_save(1)
        chain.kill()
        chain.wait_for_end()
    chain.resume(sizes[-1])
    assert chain.wait_for_end() == 0
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage
    return coverage


@pytest.mark.long
@pytest.mark.parametrize("kill", [kill_agent, kill_agents_group, kill_one_rank])
def test_no_worker_outlives_a_kill_and_no_row_is_lost(make_chain, coverage_of, kill):
    chain, record, workers = in_the_middle(make_chain)
    kill(record, workers)
    chain.wait_for_end(60)
    assert not any(one.is_alive for one in workers)
    ended = read_exit(chain.run_dir)
    assert (ended.signal, ended.code) == (("SIGKILL", None) if kill is not kill_one_rank else (None, 1))
    assert ended.stop is None
    resumes_exactly(chain, coverage_of, 4, 2)


@pytest.mark.long
def test_without_its_supervisor_the_training_goes_on_and_is_not_resumed_beside_itself(make_chain, coverage_of, until):
    chain, record, _ = in_the_middle(make_chain, pause=0.3)  # it still trains when the resume is refused
    send_signal(record.supervisor.pid, record.supervisor.start_ticks, signal.SIGKILL)
    until(lambda: not record.supervisor.is_alive, what="the supervisor's end")
    seen = chain.trained_step()
    chain.wait_until(lambda: chain.trained_step() > seen, "another step")
    assert propose(Target(paths=(chain.run_dir,)), Options(world_size=1)).is_refused
    chain.kill()
    chain.wait_for_end()
    assert read_exit(chain.run_dir) is None
    resumes_exactly(chain, coverage_of, 4, 1)


def test_a_polite_stop_throws_no_work_away(make_chain, coverage_of):
    chain, _, workers = in_the_middle(make_chain)
    outcome = stop(chain.run_dir, StopOrder(who="the test"))
    assert outcome.how == "ended", outcome
    assert not any(one.is_alive for one in workers)
    assert read_stop(chain.run_dir).who == "the test"
    assert chain.newest_save().step == chain.trained_step()
    coverage = resumes_exactly(chain, coverage_of, 1)
    assert coverage.forgotten == 0
