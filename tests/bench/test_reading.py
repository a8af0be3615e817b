"""Reading a 1.5 GB checkpoint's metadata, against torch's own safe loading and against C's unpickler."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import Limits, read_checkpoint, read_tree
from lavender_tui.checkpoints.archive import Archive
from lavender_tui.checkpoints.files import OpenFile

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


def best(work: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest of several rounds: what the machine's other work adds is noise."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


class _Stub:
    """What C's unpickler makes of every global: takes all, does nothing."""

    def __new__(cls, *args: Any, **kwargs: Any) -> _Stub:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__[key if isinstance(key, str) else repr(key)] = value


class _CUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _Stub

    def persistent_load(self, pid: Any) -> Any:
        return pid


def _read_with_c(path: str) -> Any:
    import io

    with OpenFile(path) as file:
        archive = Archive(file, Limits())
        return _CUnpickler(io.BytesIO(archive.read(archive.find_pickle()[0]))).load()


def test_times(big: str, capsys: pytest.CaptureFixture[str]) -> None:
    ours, record, in_c, in_torch = [], [], [], []
    for _ in range(4):  # in turns, so that other work on the machine meets all of them
        ours.append(best(lambda: read_tree(big), 5))
        record.append(best(lambda: read_checkpoint(big), 5))
        in_c.append(best(lambda: _read_with_c(big), 5))
        in_torch.append(best(lambda: torch.load(big, mmap=True, weights_only=True, map_location="cpu"), 1))
    tree, checkpoint, c, safe = min(ours), min(record), min(in_c), min(in_torch)
    with capsys.disabled():
        print(
            f"\nread_tree        {tree * 1e3:7.1f} ms   {safe / tree:5.1f} x faster than torch.load(mmap, weights_only) {safe * 1e3:.0f} ms"
        )
        print(
            f"read_checkpoint  {checkpoint * 1e3:7.1f} ms   {safe / checkpoint:5.1f} x faster than torch.load(mmap, weights_only)"
        )
        print(
            f"read_tree        {tree * 1e3:7.1f} ms   {tree / c:5.2f} x the time of the same bytes and C's unpickler {c * 1e3:.1f} ms"
        )
    assert safe / tree >= TORCH_RATIO
    assert safe / checkpoint >= TORCH_RATIO
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
