"""A run of two hosts is stopped from the second one: refused, with a command that, pasted, stops it on both.

The first host is this machine under another name, with processes of its own (namespaces), behind a real sshd.
"""

from __future__ import annotations

import getpass
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import journal
from lavender_tui.launch.joining import join
from lavender_tui.launch.record import read_exit, read_launch, read_stop
from lavender_tui.watch.scan import scan
from tests.launch.conftest import POLITE
from tests.ssh.conftest import must_be_there
from tests.ssh.server import Server

HOST = "gpu-01"
CLIENT = """
Host {host}
  HostName 127.0.0.1
  Port {server.port}
  User {user}
  IdentityFile {server.directory}/user_key
  IdentitiesOnly yes
  BatchMode yes
  UserKnownHostsFile {server.directory}/known_hosts
"""
FIRST = """
import sys
from lavender_tui import launch
from lavender_tui.model.plan import Launch
agent, cwd, run_dir = sys.argv[1:]
options = ("--nnodes=2", "--rdzv-endpoint=127.0.0.1:20999", "--rdzv-id=x", "--nproc-per-node=1")
launch.start(Launch(backend="torchrun", argv=(sys.executable, agent, *options, "t.py"), cwd=cwd), run_dir)
"""


@pytest.fixture
def first_host(tmp_path: Path) -> Iterator[Server]:
    """sshd as on another machine; `ssh gpu-01` and `lavender-tui` are on the PATH of who needs them."""
    must_be_there()
    another = ["unshare", "--uts", "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*another, "hostname", HOST], capture_output=True).returncode:
        pytest.skip("a host of another name needs root")
    place, programs = tmp_path / "sshd", tmp_path / "bin"
    place.mkdir()
    programs.mkdir()
    (programs / "lavender-tui").write_text(f'#!/bin/sh\nexec {sys.executable} -m lavender_tui "$@"\n')
    home = f'"HOME={tmp_path}" "PYTHONPATH={Path(__file__).parents[2]}"'
    server = Server(place, host=HOST, settings=[f'SetEnv "PATH={programs}:{os.environ["PATH"]}" {home}'])
    (place / "client").write_text(CLIENT.format(host=HOST, server=server, user=getpass.getuser()))
    known = (place / "known_hosts").read_text()
    (place / "known_hosts").write_text(known + known.replace("[127.0.0.1]", f"[{HOST}]"))
    (programs / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {place}/client "$@"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    try:
        server.wait()
        yield server
    finally:
        server.stop()


def test_the_command_in_the_refusal_stops_both_nodes(
    first_host: Server, tmp_path: Path, until: Callable[..., Any], nothing_survives: object
) -> None:
    run_dir = tmp_path / "checkpoints" / "run-2026-01-02_03-04-05"
    run_dir.mkdir(parents=True)
    (tmp_path / "torchrun").write_text(POLITE)
    (tmp_path / "first.py").write_text(FIRST)
    words = [sys.executable, str(tmp_path / "first.py"), str(tmp_path / "torchrun"), str(tmp_path), str(run_dir)]
    started = first_host.run(*words)
    assert started.returncode == 0, started.stderr
    record = read_launch(str(run_dir))
    assert record is not None and record.host == HOST and record.nodes == 2
    until(lambda: "up" in (run_dir / "train.log").read_text(), what="the first node")
    second = join(str(run_dir))
    until(lambda: "up" in Path(second.run_dir, "train.log").read_text(), what="the second node")
    here = second.host
    (seen,) = scan([str(run_dir)])
    assert (seen.is_alive, seen.elsewhere) == (True, HOST), "its ranks of this host are seen, what leads them isn't"

    refused = subprocess.run(
        [sys.executable, "-m", "lavender_tui", "stop", str(run_dir)], capture_output=True, text=True
    )
    command = f"ssh {HOST} lavender-tui stop {run_dir}"
    assert refused.returncode == 1
    assert f"its first node runs on {HOST}, and this is {here}: a stop there ends all its nodes" in refused.stderr
    assert refused.stderr.rstrip().endswith(f"Paste: {command}")
    assert read_stop(str(run_dir)) is None and second.is_alive

    pasted = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"},
    )
    assert pasted.returncode == 0, pasted.stderr
    for place in (str(run_dir), second.run_dir):
        ended = until(lambda place=place: read_exit(place), what=f"the end of {place}")
        assert ended.code == 0 and ended.stop is not None and not ended.killed
    assert (run_dir / "saved").exists()
    stop = read_stop(str(run_dir))
    assert stop is not None and stop.who == f"{journal.person().partition('@')[0]}@{HOST}"
