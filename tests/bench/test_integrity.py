"""Looking through a 1.5 GB checkpoint, against reading the same bytes with zlib's checksum and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

SUMS_RATIO = 1.3
BOTH_RATIO = 2.0

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

_BASELINE = """
import os, sys, time, zlib
start = time.perf_counter()
descriptor, buffer, crc = os.open(sys.argv[1], os.O_RDONLY), bytearray(1 << 20), 0
view = memoryview(buffer)
while count := os.readv(descriptor, [buffer]):
    crc = zlib.crc32(view[:count], crc)
print(time.perf_counter() - start)
"""

_LOOK = """
import sys, time
from lavender_tui.checkpoints.integrity import look_through
start = time.perf_counter()
found = look_through(sys.argv[1], keep_cached=True, fresh=True, {what})
print(time.perf_counter() - start)
assert not found.problems and not found.non_finite and found.bytes_read > 1_490_000_000
"""

READERS = {
    "zlib alone": _BASELINE,
    "verify": _LOOK.format(what="finite=False"),
    "find_non_finite": _LOOK.format(what="sums=False"),
    "both": _LOOK.format(what=""),
}


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("big") / "pretrain-10-00-00-0007.pt"
    moments = {
        index: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(500, 500), "exp_avg_sq": torch.zeros(500, 500)}
        for index in range(500)
    }
    weights = {f"layers.{index}.weight": torch.randn(500, 500) for index in range(500)}
    optimizer = {"state": moments, "param_groups": [{"lr": 1e-3, "params": list(range(500))}]}
    torch.save({"model_state_dict": weights, "optimizer_state_dict": optimizer, "stage": "pretrain"}, path)
    yield str(path)
    path.unlink()


def test_times(big: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In turns, and the best of each; the file is in the page cache for all of them."""
    times: dict[str, float] = {}
    for _ in range(6):
        for reader, code in READERS.items():
            out = subprocess.run([sys.executable, "-c", code, big], capture_output=True, text=True, check=True)
            times[reader] = min(times.get(reader, 1e9), float(out.stdout))
    floor = times["zlib alone"]
    with capsys.disabled():
        print()
        for reader, seconds in times.items():
            print(f"{reader:<16} {seconds:6.2f} s   {1.5 / seconds:5.2f} GB/s   {seconds / floor:.2f} x zlib alone")
    assert times["verify"] / floor <= SUMS_RATIO
    assert times["both"] / floor <= BOTH_RATIO
