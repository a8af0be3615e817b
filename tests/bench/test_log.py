"""Logs of gigabytes: the tail against tail, search against grep, and the memory for both."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui.logs.errors import marked
from lavender_tui.logs.follow import tail
from lavender_tui.logs.pager import Pager
from lavender_tui.logs.search import Query, Words, nearest
from lavender_tui.logs.survey import Count, survey

GIGABYTES = 2
TAIL_MS = 50.0
TAIL_RATIO = 20.0  # at most so many times as long as `tail -n 50`, whose start as a process is counted
SEARCH_RATIO = 8.0  # at most so many times as long as `grep -c`
PEAK_MIB = 40

pytestmark = [pytest.mark.bench, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Lines of two ranks, a traceback in the middle of them."""
    path = tmp_path_factory.mktemp("log") / "train.log"
    line = "[default{0}]:2026-11-29 12:00:00 step {1:07d} loss 2.{2:04d} mean_squared_error: 0.25 tokens_s 12345.6\n"
    block = "".join(line.format(number % 2, number, number * 7919 % 9973) for number in range(200_000)).encode()
    trace = b"[default1]:Traceback (most recent call last):\n[default1]:  File\n[default1]:RuntimeError: boom\n"
    turns = GIGABYTES * 1_000_000_000 // len(block)
    with open(path, "wb") as file:
        for turn in range(turns):
            file.write(block)
            file.write(trace if turn == turns // 2 else b"")
    yield path
    path.unlink()


def best(call: Callable[[], object], times: int = 3) -> float:
    found = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)


def test_the_tail(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def page() -> None:
        pager = Pager(str(log))
        for one in pager.pages_before(pager.last + 1, 400):
            marked(pager, one)
        pager.close()

    told = subprocess.run(["tail", "-n", "50", log], capture_output=True, text=True, check=True).stdout.splitlines()
    assert tail(str(log), 50) == told
    peer = best(lambda: subprocess.run(["tail", "-n", "50", log], capture_output=True, check=True), 10)
    ours, first_page = best(lambda: tail(str(log), 50), 10), best(page, 10)
    with capsys.disabled():
        told_of = (
            f"{ours * 1e3:.1f} ms, the app's first pages {first_page * 1e3:.1f} ms, `tail -n 50` {peer * 1e3:.1f} ms"
        )
        print(f"\ntail of {GIGABYTES} GB     {told_of}")
    assert first_page * 1e3 < TAIL_MS and ours < TAIL_RATIO * peer


def test_search(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def count() -> int:
        pager = Pager(str(log))
        counted = Count(Words(pager, Query.of("step 0123456")), pager.size)
        while not counted.is_whole:
            counted.go_on()
        pager.close()
        return counted.count

    grep = ["grep", "-c", "-i", "step 0123456", str(log)]
    told = int(subprocess.run(grep, capture_output=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"}).stdout)
    assert count() == told
    peer, ours = best(lambda: subprocess.run(grep, capture_output=True, check=True), 2), best(count, 2)
    with capsys.disabled():
        speed = f"{ours:.2f} s ({log.stat().st_size / ours / 1e6:.0f} MB/s)"
        print(f"\nsearch of {GIGABYTES} GB   {speed}, `grep -c -i` {peer:.2f} s: {ours / peer:.1f} times")
    assert ours < SEARCH_RATIO * peer


def test_errors(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pager = Pager(str(log))
    start = time.perf_counter()
    found = survey(pager)
    seconds = time.perf_counter() - start
    assert [block.words for block in found.errors] == ["rank 1: RuntimeError: boom"]
    with capsys.disabled():
        print(f"\nall errors of {GIGABYTES} GB and the number of each line  {seconds:.1f} s")


def test_memory(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys\n"
        "from lavender_tui.logs.pager import Pager\n"
        "from lavender_tui.logs.search import Query, Words, nearest\n"
        "from lavender_tui.logs.survey import survey\n"
        "from lavender_tui.tui.log_window import Window\n"
        "pager, window = Pager(sys.argv[1]), Window()\n"
        "assert len(survey(pager).errors) == 1\n"
        "assert nearest(Words(pager, Query.of('boom')), pager.size, 0, forward=True)\n"
        "for number in range(pager.last, pager.last - 2000, -1):\n"
        "    window.put([pager.page(number)], number * 65536)\n"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    out = subprocess.run([sys.executable, "-c", code, log], capture_output=True, text=True, check=True)
    peak = int(out.stdout) / 1024
    with capsys.disabled():
        print(f"\nmemory for all of it {peak:.1f} MiB, the whole process")
    assert peak < PEAK_MIB


def test_the_last_match_is_near(log: Path) -> None:
    pager = Pager(str(log))
    seconds = best(lambda: nearest(Words(pager, Query.of("step 0199990")), pager.size, pager.size, forward=False))
    assert seconds < 0.1
