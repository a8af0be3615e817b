"""Several nodes: the words, the place to meet, who joins, and what one supervisor hears of another."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui import launch
from lavender_tui.errors import AlreadyRunning, NotFound, UsageError
from lavender_tui.launch import command, rendezvous
from lavender_tui.launch.arguments import parse
from lavender_tui.launch.command import Hosts
from lavender_tui.launch.joining import join
from lavender_tui.launch.record import LaunchRecord, Rendezvous, read_launch, read_stop, send_signal
from lavender_tui.logs.files import log_files
from lavender_tui.model.plan import Launch
from tests.launch.conftest import POLITE, Lab

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")


def build(*words: str, world_size: int = 4, hosts: Hosts | None = None, **more: object) -> Launch:
    hosts = hosts or Hosts(nodes=2, endpoint="127.0.0.1:20123")
    given = words or (sys.executable, "train.py")
    more = {"run_dir": "/runs/r", "run_id": "r-1", "cores": 8, "environ": {}, **more}
    return command.build(given, world_size=world_size, hosts=hosts, **more)  # type: ignore[arg-type]


def option(built: Launch, name: str) -> str | None:
    return parse(built.argv).option(name)


def test_the_words_of_each_agent() -> None:
    built = build()
    wanted = {
        "--nnodes": "2", "--nproc-per-node": "2", "--rdzv-backend": "c10d", "--rdzv-endpoint": "127.0.0.1:20123",
        "--rdzv-id": "r-1", "--local-addr": "127.0.0.1", "--log-dir": "/runs/r/ranks",
    }  # fmt: skip
    assert {name: option(built, name) for name in wanted} == wanted
    assert "--standalone" not in built.argv and built.argv[-1] == "train.py"
    assert built.env["OMP_NUM_THREADS"] == "4"  # of 8 cores, for the 2 ranks that are here
    assert "TORCH_DISABLE_SHARE_RDZV_TCP_STORE" not in built.env


def test_restarts_are_the_users_and_leave_the_shared_store() -> None:
    words = (*TORCHRUN, "--nproc-per-node=4", "--max-restarts=1", "--rdzv-conf", "join_timeout=60", "train.py")
    built = build(*words, hosts=Hosts(nodes=2, endpoint="h:1234", max_restarts=3))
    assert option(built, "--max-restarts") == "3" and option(built, "--rdzv-conf") == "join_timeout=60"
    assert built.env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] == "1"
    alone = build(hosts=Hosts(max_restarts=2), world_size=1)
    assert alone.backend == "torchrun" and option(alone, "--max-restarts") == "2" and "--standalone" in alone.argv


@pytest.mark.parametrize(
    ("words", "size", "hosts", "told"),
    [
        ((), 5, Hosts(nodes=2, endpoint="h:1"), "world_size 5 can't be shared by 2 nodes.*4 or 6"),
        ((), 1, Hosts(nodes=3, endpoint="h:1"), "world_size 1 can't be shared by 3 nodes.*Choose world_size 3"),
        ((), 4, Hosts(nodes=2, endpoint="nowhere"), "'nowhere' is no place to meet"),
        ((), 4, Hosts(nodes=2, endpoint="h:0"), "'h:0' is no place to meet"),
        (("./run.sh", "{world_size}"), 4, Hosts(nodes=2, endpoint="h:1"), "one host, not on 2"),
    ],
)
def test_what_cannot_be_shared_is_refused_in_a_sentence(
    words: tuple[str, ...], size: int, hosts: Hosts, told: str
) -> None:
    with pytest.raises(UsageError) as raised:
        build(*words, world_size=size, hosts=hosts)
    assert re.search(told, str(raised.value))


def test_a_port_is_chosen_and_two_launches_choose_two() -> None:
    chosen = {rendezvous.split(rendezvous.choose(f"run-{number}"))[1] for number in range(20)}
    assert len(chosen) > 15 and not chosen & {29400, 29500}
    assert all(port in rendezvous.PORTS for port in chosen)
    assert option(build(hosts=Hosts(nodes=2)), "--rdzv-endpoint") is not None


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


def test_a_taken_port_is_refused_with_its_holder(taken: int) -> None:
    with pytest.raises(UsageError, match=f"port {taken} is taken by pid {os.getpid()}"):
        rendezvous.refuse_taken(f"127.0.0.1:{taken}")
    assert not rendezvous.is_free(taken)
    rendezvous.refuse_taken(f"192.0.2.1:{taken}")  # another host's: not to be known from here


def test_where_the_others_reach_this_host() -> None:
    assert rendezvous.local_address("127.0.0.1:1") == "127.0.0.1" == rendezvous.local_address("localhost:1")
    assert rendezvous.split("[::1]:80") == ("::1", 80)
    assert rendezvous.local_address("no.such.host.invalid:1") is None


# Joining, with a program that only has torchrun's name: what is tested is what lies around it.


class Nodes:
    """A run of two nodes whose agent is a script of the standard library."""

    def __init__(self, lab: Lab, text: str = POLITE, *more: str, **facts: object) -> None:
        self.lab = lab
        self.agent = lab.script(text.replace('print("up"', 'print("up", sys.argv[1:]'), "torchrun")
        options = ("--nnodes=2", "--rdzv-endpoint=127.0.0.1:20999", "--rdzv-id=x", "--nproc-per-node=1", *more)
        argv = (sys.executable, self.agent, *options, "--log-dir=/old", "train.py", "a b", "-x")
        self.run_dir, self.record = lab.start(*argv, backend="torchrun", **facts)
        lab.until(lambda: "up" in lab.log(self.run_dir))

    def join(self) -> LaunchRecord:
        joined = join(self.run_dir)
        self.lab.until(lambda: "up" in self.lab.log(joined.run_dir))
        return joined


def test_a_node_joins_with_the_same_words_and_records_of_its_own(lab: Lab) -> None:
    two = Nodes(lab)
    assert two.record.nodes == 2 and two.record.world_size == 2
    assert two.record.rdzv == Rendezvous(endpoint="127.0.0.1:20999", id="x", nnodes="2")
    joined = two.join()
    node_dir = os.path.join(two.run_dir, "node-1")
    assert joined.run_dir == node_dir and joined.run_id == two.record.run_id and joined.nodes == 2
    command_line = parse(joined.argv)
    assert command_line.option("--log-dir") == os.path.join(node_dir, "ranks")
    assert command_line.option("--local-addr") == "127.0.0.1"
    assert command_line.script == ("train.py", "a b", "-x")
    assert joined.env["LAVENDER_RUN_DIR"] == two.run_dir
    with pytest.raises(AlreadyRunning, match="all 2 nodes are there"):
        join(two.run_dir)
    assert sorted(name for name in os.listdir(two.run_dir) if name.startswith("node")) == ["node-1"]
    assert [label for label, _ in log_files(two.run_dir)] == ["train.log", "node 1 train.log"]
    outcome = launch.stop(two.run_dir, launch.StopOrder(who="ada@lab"))
    assert outcome.how == "ended" and not outcome.left
    for place in (two.run_dir, node_dir):
        ended = lab.ended(place)
        assert ended.code == 0 and not ended.killed and ended.stop is not None and ended.stop["who"] == "ada@lab"
    with pytest.raises(AlreadyRunning, match="the run has ended"):
        join(two.run_dir)


def test_a_stop_of_one_node_is_a_stop_of_all(lab: Lab, quick: None) -> None:
    two = Nodes(lab)
    joined = two.join()
    assert joined.supervisor is not None
    os.kill(joined.supervisor.pid, signal.SIGTERM)
    for place in (joined.run_dir, two.run_dir):
        ended = lab.ended(place)
        assert ended.code == 0 and ended.stop is not None
    assert read_stop(two.run_dir) is None and read_stop(joined.run_dir) is not None


def test_a_killed_node_fails_the_run_on_both(lab: Lab, quick: None) -> None:
    two = Nodes(lab, POLITE.replace("sys.exit(0)", "sys.exit(1)"))  # as torchrun's agent ends on TERM
    joined = two.join()
    assert joined.leader is not None
    send_signal(joined.leader.pid, joined.leader.start_ticks, signal.SIGKILL)
    there, here = lab.ended(joined.run_dir), lab.ended(two.run_dir)
    assert there.signal == "SIGKILL" and there.stop is None
    assert here.stop is None and here.error is not None
    assert f"node 1 on {joined.host} failed: killed by signal 9" in here.error


def test_where_ranks_may_be_started_again_a_place_becomes_free(lab: Lab, quick: None) -> None:
    two = Nodes(lab, POLITE, "--max-restarts=3")
    joined = two.join()
    assert joined.leader is not None
    send_signal(joined.leader.pid, joined.leader.start_ticks, signal.SIGKILL)
    lab.ended(joined.run_dir)
    again = two.join()
    assert os.path.basename(again.run_dir) == "node-2"
    assert launch.is_alive(two.run_dir)
    launch.stop(two.run_dir)


def test_who_cannot_join_is_told_why(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound):
        join(lab.run_dir())
    alone, _ = lab.train(POLITE)
    with pytest.raises(UsageError, match="on one host"):
        join(alone)
    launch.stop(alone)
    two = Nodes(lab)
    moved = lab.directory / "elsewhere"
    moved.mkdir()
    (moved / "launch.json").write_bytes((Path(two.run_dir) / "launch.json").read_bytes())
    with pytest.raises(UsageError, match="Mount it at the same path"):
        join(str(moved))
    record = read_launch(two.run_dir)
    assert record is not None
    launch.stop(two.run_dir)


def test_a_secret_of_the_first_node_comes_from_the_shell_of_the_next(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = lab.script("import os, time\nprint('up', os.environ['HF_TOKEN'], flush=True)\ntime.sleep(99)", "torchrun")
    argv = (sys.executable, agent, "--nnodes=2", "--rdzv-endpoint=127.0.0.1:20999", "--nproc-per-node=1", "t.py")
    run_dir = lab.run_dir()
    asked = Launch(backend="torchrun", argv=argv, cwd=str(lab.directory), env={"HF_TOKEN": "first"})
    launch.start(asked, run_dir)
    lab.until(lambda: "up first" in lab.log(run_dir))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    with pytest.raises(UsageError, match="HF_TOKEN was set for the first node"):
        join(run_dir)
    monkeypatch.setenv("HF_TOKEN", "second")
    joined = join(run_dir)
    lab.until(lambda: "up second" in lab.log(joined.run_dir))
    launch.stop(run_dir, launch.KILL)
