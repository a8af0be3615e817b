"""GPUs as nvidia-ml-py sees them through a driver library: real functions and structures, two GPUs of ours behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch.identity import pid_namespace
from lavender_tui.watch.devices import MACHINE_PIDS

ASKING = """
import json, os, sys
from dataclasses import asdict
from lavender_tui.tui.usage_words import machine_gpus
from lavender_tui.watch import devices
if os.environ["GPU_MODE"] != "hang":
    devices.ANSWER_SECONDS = 60.0  # on a busy machine the library alone takes seconds
found = devices.devices_in_use()
words = machine_gpus(found.devices)
names = [one.name for one in devices.devices_here()]
seen = [asdict(one) for one in found.devices]
json.dump({"devices": seen, "why": found.why, "names": names, "words": words}, sys.stdout)
sys.stdout.flush()
os._exit(0)  # a driver that hangs holds its thread
"""


@pytest.fixture(scope="module", params=["new", "old"])
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the library; `old` is a driver of before 510."""
    compiler = shutil.which("cc")
    if compiler is None:
        if os.environ.get("LAVENDER_TUI_NEED_CC"):
            pytest.fail("no C compiler, and LAVENDER_TUI_NEED_CC is set")
        pytest.skip("NO C COMPILER: what NVML answers is not tried")
    directory = tmp_path_factory.mktemp(request.param)
    source = Path(__file__).with_name("driver.c")
    form = ["-DOLD"] if request.param == "old" else []
    built = directory / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-nostdlib", *form, "-o", built, source], check=True)
    return directory


def asked(driver: Path, mode: str = "") -> dict[str, Any]:
    environment = {**os.environ, "LD_LIBRARY_PATH": str(driver), "GPU_MODE": mode, "GPU_PID": str(os.getpid())}
    done = subprocess.run([sys.executable, "-c", ASKING], env=environment, capture_output=True, timeout=120, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_what_each_gpu_does(driver: Path) -> None:
    told = asked(driver)
    first, second = told["devices"]
    is_seen = pid_namespace() == MACHINE_PIDS
    assert first == {
        "name": "GPU-00000000-0000-0000-0000-000000000000",
        "index": 0,
        "utilisation_percent": 97,
        "memory_used_bytes": 62_100_000_000,
        "memory_total_bytes": 80_000_000_000,
        "temperature_celsius": 71,
        "processes": {str(os.getpid()): 61_000_000_000} if is_seen else {},
        "outside": 0 if is_seen else 1,
    }
    assert (second["utilisation_percent"], second["memory_used_bytes"], second["processes"]) == (
        None,
        1_000_000_000,
        {},
    )
    assert told["names"] == [first["name"], second["name"]] and told["why"] is None
    assert told["words"] == "GPU 0 97 % 62.1/80.0 GB, GPU 1 1.0/80.0 GB"


def test_a_gpu_that_fell_off_the_bus_hides_no_other(driver: Path) -> None:
    assert [one["index"] for one in asked(driver, "lost")["devices"]] == [0]


@pytest.mark.parametrize(
    ("mode", "why"),
    [("hang", "the NVIDIA driver doesn't answer"), ("unloaded", "no NVIDIA GPU (its driver isn't loaded)")],
)
def test_a_driver_that_does_not_answer_is_said(driver: Path, mode: str, why: str) -> None:
    told = asked(driver, mode)
    assert (told["devices"], told["why"], told["words"]) == ([], why, "")
