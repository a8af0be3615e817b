"""What real processes use, as it is sampled; and that sampling costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from lavender_tui.launch.identity import pid_namespace, start_ticks
from lavender_tui.model.run import LiveProcess
from lavender_tui.model.usage import Usage
from lavender_tui.watch import devices
from lavender_tui.watch.devices import devices_in_use, pids_here
from lavender_tui.watch.mounts import file_system_of
from lavender_tui.watch.usage import LEAST_SECONDS, Sampler

SPIN = "print('up', flush=True)\nwhile True: pass"
HOLD = "held = bytearray(200_000_000)\nprint('up', flush=True)\ninput()"
WRITE = """\
import os, sys
print('up', flush=True)
with open(sys.argv[1], 'wb', buffering=0) as file:
    while True:
        file.seek(0); file.write(bytes(1 << 20)); os.fsync(file.fileno())
"""


@pytest.fixture
def live() -> Iterator[Callable[..., LiveProcess]]:
    started: list[subprocess.Popen] = []

    def start(code: str, *arguments: str) -> LiveProcess:
        argv = [sys.executable, "-S", "-c", code, *arguments]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        return LiveProcess(pid=process.pid, start_ticks=start_ticks(process.pid) or 0, role="process")

    yield start
    for process in started:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            stream.close()


def measured(processes: list[LiveProcess], is_it: Callable[[Usage], bool], until) -> Usage:
    """What a sampler says of them as one run, once that is true of it."""
    sampler = Sampler(with_gpus=False)
    sampler.sample({"run": processes})

    def look() -> Usage | None:
        usage = sampler.sample({"run": processes})["run"]
        return usage if is_it(usage) else None

    return until(look, what="the usage")  # type: ignore[no-any-return]


def test_a_process_that_spins_uses_processors_and_one_that_holds_memory_does_not(live, until):
    spinning, holding = live(SPIN), live(HOLD)
    usage = measured([spinning], lambda usage: (usage.cpu_percent or 0) > 10, until)
    assert 10 < usage.cpu_percent <= 110
    idle = measured([holding], lambda usage: usage.cpu_percent is not None, until)
    assert idle.cpu_percent < 10
    assert 200e6 < idle.rss_bytes < 300e6
    both = measured([spinning, holding], lambda usage: (usage.cpu_percent or 0) > 10, until)
    assert both.rss_bytes > 200e6


def test_what_goes_to_the_disk_is_counted(live, until, tmp_path):
    if file_system_of(str(tmp_path)) in ("tmpfs", "ramfs"):
        pytest.skip("no disk under it")
    writing = live(WRITE, str(tmp_path / "file"))
    usage = measured([writing], lambda usage: (usage.written_bytes_per_second or 0) > 1e5, until)
    assert usage.read_bytes_per_second is not None


def test_the_first_look_has_no_rates_and_one_right_after_it_tells_the_same(live):
    sampler, holding = Sampler(with_gpus=False), live(HOLD)
    first = sampler.sample({"run": [holding]})
    assert first["run"].cpu_percent is None
    assert first["run"].rss_bytes > 200e6
    assert sampler.sample({"run": [holding]}) is first
    assert LEAST_SECONDS < 5


def test_who_has_ended_or_has_another_pid_now_is_not_counted(live):
    holding = live(HOLD)
    other = LiveProcess(pid=holding.pid, start_ticks=holding.start_ticks - 1, role="process")
    gone = LiveProcess(pid=2**22 - 1, start_ticks=1, role="process")
    told = Sampler(with_gpus=False).sample({"run": [other, gone]})["run"]
    assert told == Usage()


def test_ten_processes_cost_less_than_a_two_hundredth_of_a_processor(live):
    """Sampled every five seconds, that is 25 ms of processor time for each sample; measured without the first one."""
    processes = [live("print('up', flush=True)\ninput()") for _ in range(10)]
    sampler, spent = Sampler(with_gpus=False), []
    for _ in range(4):
        begun = time.process_time()
        sampler.sample({"run": processes})
        spent.append(time.process_time() - begun)
        sampler._at = 0.0
    assert min(spent[1:]) < 0.025


@pytest.mark.skipif(os.path.exists("/proc/driver/nvidia/version"), reason="this machine has the NVIDIA driver")
def test_without_the_drivers_library_that_is_said_and_not_asked_again_at_once(live, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "_monitor", devices._Monitor())
    monkeypatch.setattr(devices, "ANSWER_SECONDS", 60.0)  # a busy machine imports slowly
    told = devices_in_use()
    assert (told.devices, told.why) == ((), "no NVIDIA GPU (driver library not found)")
    asked = devices._monitor.asking
    assert devices_in_use() is told
    assert devices._monitor.asking is asked
    usage = Sampler().sample({"run": [live(HOLD)]})["run"]
    assert (usage.gpus, usage.no_gpus) == ((), "no NVIDIA GPU (driver library not found)")


def test_a_driver_that_hangs_costs_its_time_once(monkeypatch: pytest.MonkeyPatch):
    import threading

    release = threading.Event()
    monkeypatch.setattr(devices, "_monitor", devices._Monitor())
    monkeypatch.setattr(devices, "_look", release.wait)
    monkeypatch.setattr(devices, "ANSWER_SECONDS", 0.05)
    assert devices_in_use().why == "the NVIDIA driver doesn't answer"
    monkeypatch.setattr(devices, "ANSWER_SECONDS", 120.0)
    begun = time.monotonic()
    assert devices_in_use().why == "the NVIDIA driver doesn't answer"
    assert time.monotonic() - begun < 60
    release.set()


def test_the_drivers_pids_are_believed_only_where_they_mean_something(live, monkeypatch: pytest.MonkeyPatch):
    holding = live("file = open('/dev/zero'); print('up', flush=True); input()")
    strange = 2**22 - 1
    monkeypatch.setattr(devices, "MACHINE_PIDS", pid_namespace())
    assert pids_here([holding.pid, strange], "/dev/nvidia0") == {holding.pid}
    monkeypatch.setattr(devices, "MACHINE_PIDS", "pid:[another]")  # as within a container
    assert pids_here([holding.pid, strange], "/dev/nvidia0") == set()
    assert pids_here([holding.pid, strange], "/dev/zero") == {holding.pid}
