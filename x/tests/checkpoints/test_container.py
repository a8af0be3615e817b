"""Files of every kind: whole, being written, cut at any byte, damaged, foreign, no file at all. Nothing ever raises."""

from __future__ import annotations

import gzip
import io
import os
import pickle
import socket
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lavender_tui.checkpoints import Limits, file_facts, read_checkpoint, read_tree
from lavender_tui.checkpoints.archive import Archive
from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.limits import CutShort
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.checkpoint import Checkpoint, Wholeness
from tests.checkpoints.assemble import Op, call, good, legacy, name, payloads, pickled, tensor, zipped

NAME = "pretrain-10-00-00-0007.pt"
GOOD = zipped(pickled(good()))
LATER = 1e6  # seconds after the last write: nobody is writing any more

Put = Callable[..., str]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    """Writes bytes under a name and returns the path."""

    def write(content: bytes, file_name: str = NAME) -> str:
        path = tmp_path / file_name
        path.write_bytes(content)
        return str(path)

    return write


def settled(path: str, **options: Any) -> Checkpoint:
    """Read long after its last write."""
    return read_checkpoint(path, now=os.stat(path).st_mtime + LATER, **options)


def assert_good(found: Checkpoint) -> None:
    assert (found.wholeness, found.reason) == (Wholeness.WHOLE, None)
    values = (found.stage, found.save_count, found.epoch, found.epochs, found.epoch_complete, found.loss)
    assert values == ("pretrain", 7, 2, 5, False, 2.5)
    assert (found.tensors, found.parameters, found.has_model, found.lr) == (2, 15, True, 0.25)


# ---- whole


def _zip64_end(content: bytes) -> bytes:
    at = content.rfind(b"PK\x05\x06")
    count, size, offset = struct.unpack_from("<10xHII", content, at)
    record = b"PK\x06\x06" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, count, count, size, offset)
    locator = b"PK\x06\x07" + struct.pack("<IQI", 0, at, 1)
    full = struct.pack("<HHII", 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    return content[:at] + record + locator + content[at : at + 8] + full + content[at + 20 :]


def _zip64_members(content: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for member in sorted(old.namelist(), key=lambda one: one.endswith("data.pkl")):
            with new.open(zipfile.ZipInfo(member), "w", force_zip64=True) as file:
                file.write(old.read(member))
    return out.getvalue()


WHOLE = {
    "zip": GOOD,
    "another root": zipped(pickled(good()), root="some other name"),
    "no root": zipped(pickled(good()), root=""),
    "deflated": zipped(pickled(good()), packed=True),
    "64-bit end record": _zip64_end(GOOD),
    "64-bit sizes, pickle last": _zip64_members(GOOD),
    "older container": legacy(pickled(good())),
    "older container, more behind": legacy(pickled(good())) + b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.",
    "names that climb": zipped(pickled(good()), more=[("../../../evil", b"x"), ("/etc/passwd", b"x")]),
    "20,000 members": zipped(pickled(good()), more=[(f"archive/data/x{index}", b"") for index in range(20_000)]),
    "comment": GOOD[:-2] + struct.pack("<H", 5) + b"hello",
}


@pytest.mark.parametrize("kind", sorted(WHOLE))
def test_whole_files(kind: str, put: Put) -> None:
    assert_good(settled(put(WHOLE[kind])))


@pytest.mark.parametrize("container", ["zip", "legacy"])
@pytest.mark.parametrize("kind", sorted(payloads("x")))
def test_no_payload_runs_from_a_file(container: str, kind: str, put: Put, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    data = pickled(good(extra=payloads(str(marker))[kind]))
    assert_good(settled(put(zipped(data) if container == "zip" else legacy(data))))
    assert not marker.exists()


def test_payloads_in_the_head_of_the_older_container(put: Put, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    head = b"\x80\x02" + call("os", "system", f"touch {marker}") + b"0"
    settled(put(head + pickle.dumps(0x1950A86A20F9469CFC6C, 2)[2:] + legacy(pickled(good()))[18:]))
    assert not marker.exists()


def test_reading_twice_gives_the_same(put: Put) -> None:
    path = put(GOOD)
    assert settled(path) == settled(path)


# ---- cut and being written


def _cuts(content: bytes) -> list[bytes]:
    return [content[:length] for length in range(len(content))]


def _real() -> bytes:
    out = io.BytesIO()
    content = {"model_state_dict": {"w": torch.ones(3)}, "stage": "sft", "save_count": 3, "epoch": 1, "sft_loss": 0.5}
    torch.save(content, out)
    return out.getvalue()


@pytest.mark.parametrize("container", ["torch", "zip", "legacy"])
def test_cut_at_every_byte(container: str, put: Put) -> None:
    content = {"torch": _real(), "zip": GOOD, "legacy": legacy(pickled(good()))}[container]
    stages = []
    for cut in _cuts(content):
        path = put(cut)
        written_at = os.stat(path).st_mtime
        later, at_once = read_checkpoint(path, now=written_at + LATER), read_checkpoint(path, now=written_at + 1)
        assert later.wholeness is Wholeness.CUT, (len(cut), later.reason)
        assert at_once.wholeness is Wholeness.WRITING, (len(cut), at_once.reason)
        assert later.reason and not later.is_usable and later.name_save_count == 7
        stages.append(later.stage)
        with pytest.raises(UnreadableFile):
            read_tree(path)
    # What the head says is known from some byte on, and stays known.
    known = [stage is not None for stage in stages]
    assert known == sorted(known) and known[-1]
    whole = settled(put(content))
    assert whole.is_whole and whole.stage == stages[-1]


def test_a_file_that_grew_since_it_was_seen_is_being_written(put: Put) -> None:
    path = put(GOOD[:400])
    seen = file_facts(path)
    with open(path, "ab") as file:
        file.write(GOOD[400:600])
    os.utime(path, (0, 0))
    assert settled(path, known=seen).wholeness is Wholeness.WRITING
    assert settled(path, known=file_facts(path)).wholeness is Wholeness.CUT


def test_a_finished_file_is_whole_at_once(put: Put) -> None:
    path = put(GOOD)
    assert_good(read_checkpoint(path, now=os.stat(path).st_mtime))


def test_a_time_in_the_future_is_no_sign_of_writing(put: Put) -> None:
    path = put(GOOD[:400])
    os.utime(path, (4e9, 4e9))
    assert read_checkpoint(path, now=1e9).wholeness is Wholeness.CUT


def test_the_head_of_a_large_unfinished_save(put: Put) -> None:
    """A pickle longer than the first reading of the head."""
    many = {f"k{index}": "x" * 40 for index in range(20_000)}
    content = zipped(pickled(good(**many)))
    found = settled(put(content[:-100]))
    assert (found.wholeness, found.stage, found.loss) == (Wholeness.CUT, "pretrain", 2.5)
    found = settled(put(legacy(pickled(good(**many)))[:-20]))
    assert (found.wholeness, found.stage) == (Wholeness.CUT, "pretrain")
    assert "bytes are there" in (found.reason or "")


# ---- damaged and foreign


def _flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def _entry(content: bytes, offset: int, form: str, *values: int) -> bytes:
    """Change a field of the first directory entry."""
    changed = bytearray(content)
    struct.pack_into(form, changed, content.find(b"PK\x01\x02") + offset, *values)
    return bytes(changed)


def _end(content: bytes, offset: int, form: str, *values: int) -> bytes:
    changed = bytearray(content)
    struct.pack_into(form, changed, content.rfind(b"PK\x05\x06") + offset, *values)
    return bytes(changed)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("x"), io.BytesIO())
    return out.getvalue()


def _plain_zip(*names: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for one in names:
            archive.writestr(one, b"x" * 20)
    return out.getvalue()


_TWO = zipped(pickled(good()), more=[("archive/data.pk_", pickled(good(epoch=99)))]).replace(b"data.pk_", b"data.pkl")

# kind: (content, wholeness, a word of the reason)
BROKEN: dict[str, tuple[bytes, Wholeness, str]] = {
    "empty": (b"", Wholeness.CUT, "empty"),
    "zeros": (bytes(70_000), Wholeness.DAMAGED, "zeros"),
    "zeros, then something": (bytes(4096) + b"x", Wholeness.FOREIGN, "zeros"),
    "second half zeros": (GOOD[:700] + bytes(len(GOOD) - 700), Wholeness.CUT, "end record"),
    "a flipped bit": (_flipped(GOOD, GOOD.find(b"pretrain_loss") + 3), Wholeness.DAMAGED, "checksum"),
    "text": (b"this is not a checkpoint\n" * 10, Wholeness.FOREIGN, "text"),
    "text like a pickle": (b"(see the notes)\n" * 10, Wholeness.FOREIGN, "text"),
    "web page": (b"<!DOCTYPE html><title>403</title>", Wholeness.FOREIGN, "web page"),
    "git-lfs": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", Wholeness.FOREIGN, "git-lfs"),
    "JSON": (b'{"epoch": 3}', Wholeness.FOREIGN, "JSON"),
    "gzip": (gzip.compress(GOOD), Wholeness.FOREIGN, "gzip"),
    "safetensors": (struct.pack("<Q", 2) + b"{}" + bytes(9), Wholeness.FOREIGN, "safetensors"),
    "tar": (_tar(), Wholeness.FOREIGN, "tar"),
    "noise": (bytes((index * 7919 + 13) % 256 for index in range(4096)), Wholeness.FOREIGN, "torch.save"),
    "office file": (_plain_zip("[Content_Types].xml"), Wholeness.FOREIGN, "data.pkl"),
    "exported program": (_plain_zip("x/models/model.json", "x/archive_format"), Wholeness.FOREIGN, "torch.export"),
    "empty zip": (_plain_zip(), Wholeness.FOREIGN, "data.pkl"),
    "pickle too deep in the zip": (_plain_zip("a/b/c/data.pkl"), Wholeness.FOREIGN, "data.pkl"),
    "data.pkl twice": (_TWO, Wholeness.DAMAGED, "twice"),
    "two roots": (_plain_zip("a/data.pkl", "b/data.pkl"), Wholeness.DAMAGED, "twice"),
    "encrypted": (_entry(GOOD, 8, "<H", 1), Wholeness.FOREIGN, "encrypted"),
    "unknown packing": (_entry(GOOD, 10, "<H", 99), Wholeness.FOREIGN, "method 99"),
    "huge member": (_entry(GOOD, 20, "<II", 0xFFFFFFFE, 0xFFFFFFFE), Wholeness.DAMAGED, "more bytes than"),
    "member beyond the end": (_entry(GOOD, 42, "<I", 0x7FFFFF00), Wholeness.DAMAGED, "no member"),
    "64-bit size missing": (_entry(GOOD, 24, "<I", 0xFFFFFFFF), Wholeness.DAMAGED, "64-bit"),
    "huge directory": (_end(GOOD, 12, "<I", 0x7FFFFFFF), Wholeness.DAMAGED, "does not fit"),
    "directory elsewhere": (_end(GOOD, 12, "<I", 70), Wholeness.DAMAGED, "not where"),
    "64-bit record missing": (_end(GOOD, 16, "<I", 0xFFFFFFFF), Wholeness.DAMAGED, "64-bit"),
    "bytes before": (b"#!/bin/sh\n" * 9 + GOOD, Wholeness.DAMAGED, "before"),
    "bytes behind": (GOOD + bytes(4096), Wholeness.DAMAGED, "behind"),
    "no pickle": (zipped(b"\xfe\xfe"), Wholeness.DAMAGED, "pickle"),
    "pickle without end": (zipped(pickled(good())[:-1]), Wholeness.DAMAGED, "too early"),
    "a member that lies": (
        _entry(zipped(pickled(good()), packed=True), 24, "<I", 30), Wholeness.REFUSED, "unpacks to more",
    ),
    "deflated 256 MB": (
        _entry(zipped(b"\x80\x02" + b"N0" * (1 << 22) + b"N.", packed=True), 24, "<I", 256 << 20),
        Wholeness.REFUSED,
        "data.pkl takes",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_broken_and_foreign_files_say_what_they_are(kind: str, put: Put) -> None:
    content, wholeness, word = BROKEN[kind]
    found = settled(put(content))
    assert (found.wholeness, word in (found.reason or "")) == (wholeness, True), found.reason
    assert found.reason and "\n" not in found.reason and len(found.reason) < 160
    assert not found.is_usable
    assert (found.name_stage, found.name_save_count) == ("pretrain", 7)


def test_two_archives_in_a_row_are_read_as_torch_does(put: Put) -> None:
    found = settled(put(GOOD + zipped(pickled(good(epoch=99)))))
    assert found.epoch == 99


def test_a_hole_of_a_gibibyte_is_looked_at_in_places(tmp_path: Path) -> None:
    for head in (b"", GOOD[:200]):
        path = tmp_path / NAME
        with open(path, "wb") as file:
            file.write(head)
            file.truncate(1 << 30)
        with OpenFile(str(path)) as opened:
            with pytest.raises(UnreadableFile):
                from lavender_tui.checkpoints.container import read_open

                read_open(opened, Limits())
            assert opened.bytes_read < 2 << 20
        assert not settled(str(path)).is_usable


def test_tensor_shapes_that_lie_are_counted_out(put: Put) -> None:
    weights = {"lie": tensor("0", (2**40, 2**40), numel=12), "true": tensor("1", (3,))}
    found = settled(put(zipped(pickled(good(model_state_dict=weights)))))
    assert (found.parameters, found.tensors) == (3, 2)
    assert any("claim more elements" in warning for warning in found.warnings)


# ---- what is no file


def test_pipes_sockets_devices_links_and_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.pt")
    (tmp_path / "directory.pt").mkdir()
    (tmp_path / "a.pt").symlink_to("b.pt")
    (tmp_path / "b.pt").symlink_to("a.pt")
    (tmp_path / "dangling.pt").symlink_to("/no/such/file")
    (tmp_path / "zero.pt").symlink_to("/dev/zero")
    (tmp_path / "null.pt").symlink_to("/dev/null")
    (tmp_path / "memory.pt").symlink_to("/proc/self/mem")
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind("socket.pt")
        reasons = {path.name: read_checkpoint(str(path), now=0) for path in sorted(tmp_path.iterdir())}
    reasons["missing.pt"] = read_checkpoint(str(tmp_path / "missing.pt"))
    reasons["too long"] = read_checkpoint(str(tmp_path / ("x" * 300)))
    reasons["nul"] = read_checkpoint(str(tmp_path) + "/a\0b.pt")
    expected = {
        "pipe.pt": "pipe", "directory.pt": "directory", "a.pt": "circle", "b.pt": "circle", "dangling.pt": "not there",
        "zero.pt": "device", "null.pt": "device", "memory.pt": "empty", "socket.pt": "socket",
        "missing.pt": "not there", "too long": "too long", "nul": "NUL",
    }  # fmt: skip
    assert set(reasons) == set(expected)
    for kind, word in expected.items():
        assert word in (reasons[kind].reason or ""), (kind, reasons[kind].reason)
        assert not reasons[kind].is_usable and reasons[kind].path.startswith(str(tmp_path))


def test_a_link_to_a_checkpoint_is_read_through(put: Put, tmp_path: Path) -> None:
    put(GOOD)
    (tmp_path / "last.pt").symlink_to(NAME)
    assert_good(settled(str(tmp_path / "last.pt")))


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_no_permission(put: Put) -> None:
    path = put(GOOD)
    os.chmod(path, 0)
    assert "permission" in (read_checkpoint(path).reason or "")


def test_names_that_are_no_utf8(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"pretrain-10-00-00-0007-\xff\xfe.pt")
    with open(path, "wb") as file:
        file.write(GOOD)
    found = read_checkpoint(os.fsdecode(path))
    assert_good(found)
    assert os.fsencode(found.path) == path


# ---- cost


def test_only_the_directory_and_the_pickle_are_read(tmp_path: Path) -> None:
    path = str(tmp_path / NAME)
    torch.save({"model_state_dict": {f"w{index}": torch.zeros(5000) for index in range(300)}, "stage": "sft"}, path)
    tree = read_tree(path)
    with OpenFile(path) as file:
        archive = Archive(file, Limits())
        floor = len(archive.directory) + archive.find_pickle()[0].size
    assert os.path.getsize(path) > 6_000_000
    assert tree.bytes_read < floor + 2048


def test_a_tensor_loss_costs_only_its_bytes(tmp_path: Path) -> None:
    path = str(tmp_path / NAME)
    content = {"model_state_dict": {"w": torch.zeros(1_000_000)}, "stage": "sft", "sft_loss": torch.tensor(0.75)}
    for legacy_container in (False, True):
        torch.save(content, path, _use_new_zipfile_serialization=not legacy_container)
        assert settled(path).loss == 0.75
        assert read_tree(path).bytes_read < (70_000 if legacy_container else 4000)


def test_the_import_is_light() -> None:
    code = (
        "import sys; from lavender_tui.checkpoints import *; from lavender_tui.checkpoints import __all__;"
        "assert all(name in globals() for name in __all__);"
        "print([one for one in ('torch', 'numpy', 'lancedb', 'textual', 'pyarrow', 'psutil') if one in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_read_tree_names_the_file_in_its_error(put: Put) -> None:
    with pytest.raises(CutShort) as refusal:
        read_tree(put(b""))
    assert refusal.value.where and refusal.value.where.endswith(NAME)
    assert "empty" in str(refusal.value)


def test_a_function_as_the_whole_content(put: Put) -> None:
    found = settled(put(zipped(b"\x80\x02" + Op(name("os", "system")) + b".")))
    assert found.is_whole and not found.is_usable and found.refused_globals == ("os.system",)
