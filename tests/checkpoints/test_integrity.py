"""A checkpoint looked through to its last byte: real files of torch.save, with one thing wrong at a time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import remembered
from lavender_tui.checkpoints.findings import Cancelled, Integrity
from lavender_tui.checkpoints.floats import FLOATS
from lavender_tui.checkpoints.integrity import BLOCK, find_non_finite, look_through, verify
from lavender_tui.errors import UnreadableFile
from tests.training.harm import aged


@pytest.fixture(autouse=True)
def nothing_remembered(isolated_home: Path) -> None:
    remembered.forget_all()


def content(**more: Any) -> dict[str, Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.randn(2, 16)).sum().backward()
    optimizer.step()
    return {
        "model_state_dict": net.state_dict(), "optimizer_state_dict": optimizer.state_dict(), "stage": "pretrain",
        "save_count": 1, "epoch": 1, "epochs": 2, **more,
    }  # fmt: skip


def save(directory: Path, value: Any, **options: Any) -> str:
    path = str(directory / "pretrain-10-00-00-0001.pt")
    torch.save(value, path, **options)
    return path


def flip(path: str, at: int) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0x10]))


def data_at(path: str, member: str) -> int:
    """Where a member's bytes begin."""
    with zipfile.ZipFile(path) as archive:
        info = next(one for one in archive.infolist() if one.filename.endswith(member))
    with open(path, "rb") as file:
        file.seek(info.header_offset + 26)
        return info.header_offset + 30 + sum(int.from_bytes(file.read(2), "little") for _ in range(2))


def odd_tensors(found: Integrity) -> dict[str, tuple[int, int]]:
    assert found.non_finite is not None
    return {one.name: (one.nans, one.infinities) for one in found.non_finite}


# ---- numbers


@pytest.mark.parametrize("name", sorted(FLOATS))
def test_every_type_counts_as_torch_does(name: str) -> None:
    base = {"complex128": "float64", "complex64": "float32", "complex32": "float16"}.get(name, name)
    dtype = getattr(torch, base)
    pattern = torch.randint(0, 256, (1 << 16,), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    values = pattern.view(dtype).clone()
    if dtype.itemsize > 2:
        values[::101], values[5::997], values[7::997] = float("nan"), float("inf"), float("-inf")
    wide = values if dtype is torch.float64 else values.float()
    raw = bytes(values.view(torch.uint8).tolist())
    expected = int(wide.isnan().sum()), int(wide.isinf().sum())
    kind = FLOATS[name]
    assert kind.count(raw) == expected and sum(expected) and not kind.is_clear(raw)
    assert kind.places(raw) == (~wide.isfinite()).nonzero().flatten().tolist()
    swapped = bytes(values.view(torch.uint8).reshape(-1, dtype.itemsize).flip(1).flatten().tolist())
    assert kind.count(swapped, big_endian=True) == expected
    assert kind.is_clear(bytes(1 << 10)) and kind.count(bytes(1 << 10)) == (0, 0)


def test_the_largest_numbers_are_numbers() -> None:
    for name in ("float64", "float32", "float16", "bfloat16"):
        dtype = getattr(torch, name)
        edge = torch.tensor(
            [torch.finfo(dtype).max, torch.finfo(dtype).min, torch.finfo(dtype).tiny, -0.0], dtype=dtype
        )
        assert FLOATS[name].count(bytes(edge.view(torch.uint8).tolist())) == (0, 0)


@pytest.mark.parametrize("container", ["zip", "legacy"])
def test_non_finite_numbers_are_named_and_counted(tmp_path: Path, container: str) -> None:
    value = content(ema={"0.weight": torch.tensor([1.0, float("nan")], dtype=torch.float64)})
    value["model_state_dict"]["0.weight"][3, 5] = float("nan")
    value["model_state_dict"]["1.bias"] = torch.tensor([float("inf"), 1.0, float("-inf")], dtype=torch.bfloat16)
    value["optimizer_state_dict"]["state"][2]["exp_avg"].fill_(float("nan"))
    path = save(tmp_path, value, _use_new_zipfile_serialization=container == "zip")
    found = find_non_finite(path)
    assert odd_tensors(found) == {
        "0.weight": (1, 0), "1.bias": (0, 2), "optimizer_state_dict.state.2.exp_avg": (128, 0), "ema.0.weight": (1, 0),
    }  # fmt: skip
    assert {one.name: one.part for one in found.non_finite or ()} == {
        "0.weight": "model", "1.bias": "model", "optimizer_state_dict.state.2.exp_avg": "optimizer",
        "ema.0.weight": "other",
    }  # fmt: skip
    assert found.problems is None and found.container == container


def test_only_what_a_tensor_covers_counts(tmp_path: Path) -> None:
    """Views are saved with their whole storage; what lies beside them may be anything."""
    whole = torch.full((8, 100), float("nan"))
    whole[:, 10:20] = 1.0
    whole[4, 15] = float("inf")
    views = {"clean": whole[:4, 10:20], "one": whole[:, 10:20], "row": whole[4, 12:18], "across": whole[:, 8:12].t()}
    assert odd_tensors(find_non_finite(save(tmp_path, views))) == {
        "one": (0, 1), "row": (0, 1), "across": (16, 0),
    }  # fmt: skip


def test_tensors_over_many_blocks(tmp_path: Path) -> None:
    flat = torch.zeros(3_000_000)
    flat[[0, 262_143, 262_144, 2_999_999]] = float("nan")
    value = {"all": flat, "middle": flat[262_144:524_288], "end": flat[1_000_000:], "none": flat[1:262_143]}
    assert odd_tensors(find_non_finite(save(tmp_path, value))) == {"all": (4, 0), "middle": (1, 0), "end": (1, 0)}


# ---- checksums


def test_a_sound_file(tmp_path: Path) -> None:
    path = save(tmp_path, content())
    found = look_through(path)
    assert (found.problems, found.non_finite, found.has_sums) == ((), (), True)
    assert found.bytes_read >= os.path.getsize(path) * 0.8


def test_one_flipped_bit_names_its_tensor(tmp_path: Path) -> None:
    path = save(tmp_path, content())
    torch.load(path, weights_only=True)
    flip(path, data_at(path, "/data/0") + 100)
    torch.load(path, weights_only=True)  # it sees nothing
    (problem,) = verify(path).problems or ()
    assert problem.tensor == "0.weight" and "checksum" in problem.what and "data/0" in problem.what
    flip(path, data_at(path, "/byteorder"))
    assert len(verify(path).problems or ()) == 2


@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_cut_file_is_not_looked_through(tmp_path: Path, share: float) -> None:
    path = save(tmp_path, content())
    os.truncate(path, int(os.path.getsize(path) * share))
    with pytest.raises(UnreadableFile) as caught:
        verify(path)
    assert caught.value.where == path


def test_a_file_without_checksums_has_its_sizes_compared(tmp_path: Path) -> None:
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        path = save(tmp_path, content())
    finally:
        torch.serialization.set_crc32_options(before)
    found = verify(path)
    assert not found.has_sums and found.problems == ()
    old = save(tmp_path, content(), _use_new_zipfile_serialization=False)
    found = verify(old)
    assert not found.has_sums and found.problems == () and found.container == "legacy"


def rewrite(path: str, change: Any, method: int = zipfile.ZIP_STORED, **options: Any) -> str:
    """The same archive, each member passed through `change(name, bytes)`; None leaves it out."""
    with zipfile.ZipFile(path) as old:
        members = [(one.filename, old.read(one)) for one in old.infolist()]
    with zipfile.ZipFile(path, "w", method) as new:
        for name, raw in members:
            changed = change(name, raw)
            if changed is not None:
                with new.open(name, "w", **options) as member:
                    member.write(changed)
    return path


def test_a_missing_and_a_short_storage_are_named(tmp_path: Path) -> None:
    path = rewrite(save(tmp_path, content()), lambda name, raw: None if name.endswith("/data/1") else raw)
    (problem,) = verify(path).problems or ()
    assert problem.tensor == "0.bias" and "missing" in problem.what
    path = rewrite(save(tmp_path, content()), lambda name, raw: raw[:64] if name.endswith("/data/0") else raw)
    (problem,) = verify(path).problems or ()
    assert problem.tensor == "0.weight" and "64 of 2,048" in problem.what


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_other_ways_of_packing(tmp_path: Path, method: int) -> None:
    value = content(big=torch.arange(700_000.0))
    value["model_state_dict"]["0.bias"][2] = float("nan")
    path = rewrite(save(tmp_path, value), lambda name, raw: raw, method, force_zip64=True)
    found = look_through(path)
    assert found.problems == () and odd_tensors(found) == {"0.bias": (1, 0)}
    flip(path, data_at(path, "/data/2") + 20)
    assert [one.tensor for one in look_through(path).problems or ()] == ["1.weight"]


@pytest.mark.long
def test_a_file_beyond_four_gigabytes(tmp_path: Path) -> None:
    """Mostly a hole: its sizes need 64 bits, its bytes no disk."""
    path = save(tmp_path, {"model_state_dict": {"first": torch.ones(4), "last": torch.ones(4)}})
    size = (4 << 30) + 4096
    zeros, crc = bytes(1 << 20), 0
    for _ in range(size >> 20):
        crc = zlib.crc32(zeros, crc)
    crc = zlib.crc32(zeros[: size & ((1 << 20) - 1)], crc)
    with zipfile.ZipFile(path) as old:
        members = [(one.filename, old.read(one)) for one in old.infolist()]
    with open(path, "wb") as file, zipfile.ZipFile(file, "w") as new:
        for name, raw in members[:2]:
            new.writestr(name, raw)
        info = zipfile.ZipInfo(members[0][0].replace("data.pkl", "hole"))
        info.CRC, info.compress_size, info.file_size = crc, size, size
        info.header_offset = file.tell()
        file.write(info.FileHeader(zip64=True))
        file.seek(size, os.SEEK_CUR)
        new.start_dir = file.tell()
        new.filelist.append(info)
        new.NameToInfo[info.filename] = info
        for name, raw in members[2:]:
            new.writestr(name, raw)
    assert os.path.getsize(path) > 4 << 30
    assert look_through(path).problems == ()
    flip(path, data_at(path, "/data/1"))
    assert [one.tensor for one in look_through(path).problems or ()] == ["last"]


# ---- how


def test_cancelling_ends_it_at_once(tmp_path: Path) -> None:
    path = save(tmp_path, {"big": torch.zeros(50_000_000)})
    asked = 0

    def is_cancelled_at(number: int) -> bool:
        nonlocal asked
        asked += 1
        return asked == number

    with pytest.raises(Cancelled):
        look_through(path, is_cancelled=lambda: is_cancelled_at(4))
    assert asked == 4, "it read on"
    # nothing was remembered of half a look, and a whole one asks before each block
    assert look_through(path, is_cancelled=lambda: is_cancelled_at(0)).bytes_read > 200_000_000
    assert asked - 4 > 200_000_000 / BLOCK


def test_progress_goes_up_to_the_end(tmp_path: Path) -> None:
    path = save(tmp_path, {"big": torch.zeros(10_000_000), "small": torch.zeros(3)})
    seen: list[tuple[int, int]] = []
    look_through(path, on_progress=lambda done, total: seen.append((done, total)))
    assert len(seen) >= 4 and seen == sorted(seen) and seen[-1][0] == seen[-1][1]
    assert len({total for _, total in seen}) == 1


def test_memory_stays_small(tmp_path: Path) -> None:
    path = save(tmp_path, {"a": torch.zeros(40_000_000), "b": torch.full((10_000_000,), float("nan"))})
    code = (
        "import sys; from lavender_tui.checkpoints.integrity import look_through; found = look_through(sys.argv[1]);"
        "assert [one.name for one in found.non_finite] == ['b'] and found.problems == (), found;"
        "assert not {'torch', 'numpy'} & set(sys.modules);"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])"
    )
    out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(out.stdout) < 40 * 1024


def test_what_was_found_is_remembered_as_long_as_the_file_is_the_same(tmp_path: Path, isolated_home: Path) -> None:
    path = aged(save(tmp_path, content()))
    first = verify(path)
    assert first.bytes_read and verify(path).bytes_read == 0
    assert find_non_finite(path).bytes_read and look_through(path).bytes_read == 0
    assert look_through(path, fresh=True).bytes_read
    remembered.forget_all()  # as another process: from the file
    assert look_through(path).bytes_read == 0
    cache = isolated_home / "cache" / "lavender-tui" / "integrity.json"
    assert json.loads(cache.read_text())["format"] == "lavender-integrity"
    assert os.listdir(tmp_path) == [os.path.basename(path)]
    flip(path, data_at(path, "/data/0"))
    assert [one.tensor for one in verify(path).problems or ()] == ["0.weight"]
    for damage in ("", "{", "[]", '{"format":"lavender-integrity","version":1,"files":{"1:2":{}}}', "\x00"):
        cache.write_text(damage)
        remembered.forget_all()
        assert verify(path).bytes_read


def test_what_another_program_has_found_meanwhile_stays_remembered(tmp_path: Path, isolated_home: Path) -> None:
    cache = isolated_home / "cache" / "lavender-tui" / "integrity.json"
    directories = [tmp_path / name for name in ("others", "first", "second")]
    for one in directories:
        one.mkdir()
    others, first, second = (aged(save(one, content())) for one in directories)
    verify(others)
    found_there = cache.read_text()
    cache.unlink()
    remembered.forget_all()
    verify(first)
    cache.write_text(found_there)
    verify(second)
    remembered.forget_all()
    assert [verify(one).bytes_read for one in (others, second)] == [0, 0]


def test_a_cache_that_cannot_be_written_is_no_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = aged(save(tmp_path, content()))
    assert verify(path).bytes_read and verify(path).bytes_read == 0
