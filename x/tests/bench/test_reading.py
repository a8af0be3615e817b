"""Reading a 1.5 GB checkpoint's metadata, against torch's own safe loading and against C's unpickler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import read_tree

PARAMETERS = 500  # with AdamW's state 2,000 tensors
SIDE = 500

TORCH_RATIO = 20.0  # times faster than torch.load(mmap=True, weights_only=True)
C_RATIO = 2.0  # at most so many times as long as reading the same bytes and running C's unpickler
FLOOR_RATIO = 1.01  # bytes read, of end record + directory + local header + data.pkl
PEAK_MIB = 40

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real torch.save of 1.5 GB: 500 parameters, and AdamW's three tensors for each."""
    path = tmp_path_factory.mktemp("big") / "pretrain-10-00-00-0007.pt"
    moments: dict[int, Any] = {
        index: {"step": torch.tensor(1.0), "exp_avg": torch.zeros(SIDE, SIDE), "exp_avg_sq": torch.zeros(SIDE, SIDE)}
        for index in range(PARAMETERS)
    }
    content = {
        "model_state_dict": {
            f"layers.{index // 5}.block{index % 5}.weight": torch.zeros(SIDE, SIDE) for index in range(PARAMETERS)
        },
        "optimizer_state_dict": {"state": moments, "param_groups": [{"lr": 1e-3, "params": list(range(PARAMETERS))}]},
        "model_cfg": {},
        "stage": "pretrain",
        "save_count": 7,
        "epoch": 2,
        "epochs": 5,
        "epoch_complete": False,
        "pretrain_loss": 2.5,
    }
    torch.save(content, path)
    del content, moments
    assert path.stat().st_size > 1_490_000_000
    yield str(path)
    path.unlink()


_TIMED = """
import sys, time
{preparation}
start = time.perf_counter()
{call}
print(time.perf_counter() - start)
"""

# The same bytes, read in the same way, through C's unpickler with inert classes.
_C_UNPICKLER = """
import io, pickle
from lavender_tui.checkpoints import Limits
from lavender_tui.checkpoints.archive import Archive
from lavender_tui.checkpoints.files import OpenFile
class Stub:
    def __new__(cls, *args, **kwargs):
        return object.__new__(cls)
    def __init__(self, *args, **kwargs):
        pass
    def __setstate__(self, state):
        pass
    def __setitem__(self, key, value):
        self.__dict__[key] = value
class Unpickler(pickle.Unpickler):
    def find_class(self, module, name):
        return Stub
    def persistent_load(self, pid):
        return pid
def read(path):
    with OpenFile(path) as file:
        archive = Archive(file, Limits())
        return Unpickler(io.BytesIO(archive.read(archive.find_pickle()[0]))).load()
"""

READERS = {
    "read_tree": ("from lavender_tui.checkpoints import read_tree", "read_tree(sys.argv[1])"),
    "read_checkpoint": ("from lavender_tui.checkpoints import read_checkpoint", "read_checkpoint(sys.argv[1])"),
    "C unpickler": (_C_UNPICKLER, "read(sys.argv[1])"),
    "torch.load": ("import torch", "torch.load(sys.argv[1], mmap=True, weights_only=True)"),
}


def seconds_of(reader: str, path: str) -> float:
    """The call alone (no import) in a fresh process, file in the page cache."""
    preparation, call = READERS[reader]
    code = _TIMED.format(preparation=preparation, call=call)
    out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    return float(out.stdout)


def test_times(big: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In turns, and the best of each, so that other work on the machine meets all of them alike."""
    times: dict[str, float] = {}
    for _ in range(10):
        for reader in READERS:
            times[reader] = min(times.get(reader, 1e9), seconds_of(reader, big))
    tree, c, safe = times["read_tree"], times["C unpickler"], times["torch.load"]
    with capsys.disabled():
        print()
        for reader, seconds in times.items():
            ratios = f"1/{safe / seconds:.1f} of torch.load(mmap, weights_only), {seconds / c:.2f} x C's unpickler"
            print(f"{reader:<16} {seconds * 1e3:7.1f} ms   {ratios}")
    assert safe / tree >= TORCH_RATIO
    assert tree / c <= C_RATIO


def test_bytes(big: str, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(big) as archive:
        first = archive.infolist()[0]
        assert first.filename.endswith("/data.pkl")
        directory = os.path.getsize(big) - archive.start_dir  # with the end records behind it
        header = 30 + len(first.filename) + int.from_bytes(_bytes_at(big, first.header_offset + 28, 2), "little")
        floor = directory + header + first.file_size
    read = read_tree(big).bytes_read
    with capsys.disabled():
        print(f"\nbytes read       {read:,} of {os.path.getsize(big):,}: {read / floor:.4f} x the floor of {floor:,}")
    assert read / floor <= FLOOR_RATIO


def _bytes_at(path: str, offset: int, length: int) -> bytes:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(length)


def test_memory(big: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "import sys; from lavender_tui.checkpoints import read_checkpoint; found = read_checkpoint(sys.argv[1]);"
        "assert found.tensors == 2000, found;"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    out = subprocess.run([sys.executable, "-c", code, big], capture_output=True, text=True, check=True)
    peak = int(out.stdout) / 1024
    with capsys.disabled():
        print(f"\npeak memory      {peak:.1f} MiB, the whole process")
    assert peak < PEAK_MIB
