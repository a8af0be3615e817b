"""The port that a command names is taken: that is said with whose it is, or a free one is found. Nobody is ended."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import KILL, stop
from lavender_tui.resume import Launched, carry_out
from tests.resume.saves import check, proposed, refusals, save

# What a rank is told of where the ranks meet.
SAYS = "import os, time; print('meets at', os.environ['MASTER_PORT'], flush=True); time.sleep(300)"


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        yield holder.getsockname()[1]


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SAYS)
    return str(path)


def test_torchrun_takes_a_free_one_and_says_whose_the_other_is(tmp_path: Path, taken: int, script: str) -> None:
    run = str(tmp_path / "run-2026-01-02_03-04-05")
    save(run)
    for option in (f"--master-port={taken}", f"--rdzv-endpoint=localhost:{taken}"):
        proposal = proposed(run, ("torchrun", "--nproc-per-node=2", option, script), world_size=2)
        said = check(proposal, "topology.command").what
        assert f"left out (port {taken} is taken by pid {os.getpid()}): the ranks meet on a free port" in said
        assert not refusals(proposal)


@pytest.mark.parametrize("words", ["--main_process_port {}", "--main_process_port={}", "--master_port {}"])
def test_a_launcher_that_is_not_ours_to_change(tmp_path: Path, taken: int, script: str, words: str) -> None:
    run = str(tmp_path / "run-2026-01-02_03-04-05")
    save(run)
    launcher = tmp_path / "accelerate"
    launcher.symlink_to("/bin/true")
    command = (str(launcher), "launch", *words.format(taken).split(), script)
    said = check(proposed(run, command, world_size=1), "command.port").what
    assert said.startswith(f"port {taken} is taken by pid {os.getpid()}, and the command's --ma")
    free = (str(launcher), "launch", *words.format(1).split(), script)
    assert not [one for one in proposed(run, free, world_size=1).checks if one.id == "command.port"]


@pytest.mark.long
def test_two_launches_at_once_meet_at_two_places(
    tmp_path: Path, script: str, taken: int, until: Callable[..., Any], nothing_survives: Any
) -> None:
    command = (sys.executable, "-m", "torch.distributed.run", f"--master-port={taken}", script)
    proposals = []
    for second in (5, 6):
        run = str(tmp_path / "checkpoints" / f"run-2026-01-02_03-04-{second:02d}")
        save(run)
        proposals.append(proposed(run, command, world_size=2))
    launched: list[Launched] = []
    threads = [threading.Thread(target=lambda one=one: launched.append(carry_out(one))) for one in proposals]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    try:
        ports = [until(lambda one=one: met(one), 90, "both ranks") for one in launched]
    finally:
        for one in launched:
            stop(one.run_dir, KILL)
    assert len(ports) == 2 and all(len(one) == 1 for one in ports) and not ports[0] & ports[1]
    assert str(taken) not in ports[0] | ports[1]
    socket.create_connection(("127.0.0.1", taken), 5).close()  # its holder is as before


def met(launched: Launched) -> set[str] | None:
    log = Path(launched.run_dir, "train.log").read_text(errors="replace")
    told = [line.split()[-1] for line in log.splitlines() if "meets at" in line]
    return set(told) if len(told) == 2 else None
