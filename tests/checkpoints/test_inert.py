"""The pickle machine: plain data as Python's own reads it, everything else dead, and no way past the limits."""

from __future__ import annotations

import collections
import json
import pickle
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lavender_tui.checkpoints.inert import Machine
from lavender_tui.checkpoints.limits import CutShort, Damaged, Limits, OverLimit
from lavender_tui.checkpoints.objects import Global, Huge, Inert, Key, Storage, Tensor
from lavender_tui.checkpoints.scalars import real, whole
from lavender_tui.checkpoints.words import key_tree, to_plain, words
from lavender_tui.errors import UnreadableFile
from tests.checkpoints import assemble
from tests.checkpoints.assemble import Op, good, name, pickled, push, tensor, text

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**200), 2**200)
    | st.floats(allow_nan=False)
    | st.text(st.characters(), max_size=20)
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=6)
        | st.lists(inner, max_size=6).map(tuple)
        | st.dictionaries(st.text(max_size=6) | st.integers(-(2**31), 2**31 - 1), inner, max_size=6)
    ),
    max_leaves=40,
)


def run(data: bytes, limits: Limits | None = None) -> Any:
    value, end = Machine(limits).run(data)
    assert end <= len(data)
    return value


@given(PLAIN, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_plain_data_is_what_pickle_says(value: Any, protocol: int) -> None:
    assert run(pickle.dumps(value, protocol)) == value


@given(st.integers(257, 20_000), st.booleans(), st.sampled_from([0, 2, 5]))
def test_a_number_that_counts_nothing_is_none(bits: int, is_negative: bool, protocol: int) -> None:
    value = (-1 if is_negative else 1) << (bits - 1)
    if protocol == 0 and bits > 13_000:  # too long for a line
        return
    found = run(pickle.dumps({"n": value, "list": [value]}, protocol))
    assert type(found["n"]) is Huge and type(found["list"][0]) is Huge
    assert words(found["n"]) == f"a number of {bits:,} bits" and whole(found["n"]) is None and real(found["n"]) is None
    assert json.loads(json.dumps(to_plain(found)))["list"] == [words(found["n"])]


def test_several_pickles_in_a_row_and_what_stands_behind() -> None:
    data = pickle.dumps([1]) + pickle.dumps({"a": 2}) + b"rest"
    machine = Machine()
    first, at = machine.run(data)
    second, at = machine.run(data, at)
    assert (first, second, data[at:]) == ([1], {"a": 2}, b"rest")


def test_cycles_and_shared_objects_stay_as_they_are() -> None:
    ring: list[Any] = []
    ring.append(ring)
    shared = [1]
    value = run(pickle.dumps({"ring": ring, "a": shared, "b": shared}, 2))
    assert value["ring"][0] is value["ring"]
    assert value["a"] is value["b"]
    assert key_tree(value)["ring"]  # a walk over a cycle ends


def test_containers_of_the_standard_library_become_plain() -> None:
    value = {
        "ordered": collections.OrderedDict(a=1, b=2),
        "counted": collections.Counter("aab"),
        "default": collections.defaultdict(list, x=[1]),
        "bytes": b"\xff\0",
        "array": bytearray(b"ab"),
    }
    for protocol in (2, 3, 4):
        found = run(pickle.dumps(value, protocol))
        assert found["ordered"] == {"a": 1, "b": 2} and list(found["ordered"]) == ["a", "b"]
        assert found["counted"] == {"a": 2, "b": 1}
        assert found["default"] == {"x": [1]}
        assert (found["bytes"], found["array"]) == (b"\xff\0", b"ab")


def test_sets_and_foreign_keys_are_never_hashed() -> None:
    value = run(pickle.dumps({(1, 2): "a", 2.5: "b", frozenset({1}): "c", "plain": {3, 4}, 7: "d"}, 4))
    assert value[7] == "d"
    assert sorted(type(key).__name__ for key in value) == ["Key", "Key", "Key", "int", "str"]
    assert type(value["plain"]) is Inert and sorted(value["plain"].items or []) == [3, 4]


# ---- nothing is executed


@pytest.mark.parametrize("kind", sorted(assemble.payloads("x")))
def test_no_payload_runs_and_the_rest_is_read(kind: str, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    payload = assemble.payloads(str(marker))[kind]
    for data in (
        pickled(good(extra=payload)),
        pickled({"a": [payload], "stage": "pretrain"}),
        b"\x80\x02" + payload + b".",
    ):
        value = run(data)
        assert value == "pretrain" or type(value) is not dict or value["stage"] == "pretrain"
        key_tree(value), words(value)
    assert not marker.exists()


def test_a_payload_as_a_key_leaves_the_others() -> None:
    value = run(b"\x80\x02}(" + assemble.call("os", "system", "x") + push(1) + text("epoch") + push(2) + b"u.")
    assert value["epoch"] == 2
    assert [type(key) for key in value] == [Key, str]


def test_names_are_collected_not_imported() -> None:
    machine = Machine()
    machine.run(pickled([Op(name("no_such_module.deeper", "Thing")), Op(name("..", "x"))]))
    assert [str(one) for one in machine.globals.values()] == ["no_such_module.deeper.Thing", "...x"]


# ---- limits: each refusal is quick, and one clear sentence

DEEP = 300_000

BOMBS = {
    "lists on the stack": b"\x80\x02" + b"]" * 3_100_000 + b".",
    "pushed and popped": b"\x80\x02" + b"N0" * 2_000_000 + b"N.",
    "memo index": b"\x80\x02Nr" + struct.pack("<I", 1 << 28) + b".",
    "memo index of 32 bits": b"\x80\x02Nr\xff\xff\xff\xff.",
    "memo index as text": b"Np99999999999999999999\n.",
    "marks": b"\x80\x02" + b"(" * 1_000_000 + b".",
    "a tebibyte of bytes": b"\x80\x04\x8e" + struct.pack("<Q", 1 << 40) + b"x.",
    "2 GiB of text": b"\x80\x02X" + struct.pack("<I", 1 << 31) + b"x.",
    "a number of 2 GiB": b"\x80\x02\x8b" + struct.pack("<i", (1 << 31) - 1) + b"x.",
    "a number of negative length": b"\x80\x02\x8b\xff\xff\xff\xff.",
    "5,000 digits": b"I" + b"9" * 5000 + b"\n.",
    "an endless name": b"c" + b"a" * 10_000 + b"\nb\n.",
    "many names": b"\x80\x02" + b"".join(b"cm\nn%d\n0" % index for index in range(20_000)) + b"N.",
}


@pytest.mark.parametrize("kind", sorted(BOMBS))
def test_bombs_are_refused(kind: str) -> None:
    start = time.perf_counter()
    with pytest.raises(OverLimit) as refusal:
        run(BOMBS[kind])
    assert time.perf_counter() - start < 10
    assert "\n" not in refusal.value.what and len(refusal.value.what) < 120


def test_a_deadline_holds() -> None:
    start = time.perf_counter()
    with pytest.raises(OverLimit, match=r"longer than 0\.001 s"):
        run(b"\x80\x02" + b"N0" * 1_400_000 + b"N.", Limits(deadline_seconds=0.001))
    assert time.perf_counter() - start < 10


def test_wide_texts_count_together() -> None:
    wide = text("😀" * 2000)
    with pytest.raises(OverLimit, match="texts"):
        run(b"\x80\x02" + (wide + b"0") * 20 + b"N.", Limits(max_wide_text_bytes=100_000))


def test_too_many_tensors() -> None:
    data = pickled([tensor("0", (2,))] * 3000)
    with pytest.raises(OverLimit, match="tensors"):
        run(data, Limits(max_tensors=1000))


def _with(key: str, opcodes: bytes) -> bytes:
    """A dict with an epoch, and under `key` what `opcodes` leave."""
    return b"\x80\x02}(" + text("epoch") + push(2) + text(key) + opcodes + b"u."


def _references() -> bytes:
    levels = range(40)
    lists = [b"](" + (b"h" + bytes([level])) * 10 + b"eq" + bytes([level + 1]) for level in levels]
    return b"](K\x01eq\x00" + b"".join(lists) + b"(h\x28e"


_ONE_HASH = [b"\x8a\x0a" + (((1 << 61) - 1) * (index + 1)).to_bytes(10, "little") + b"N" for index in range(20_000)]

LEGAL = {
    "deep tuple as key": b"\x80\x02}(" + text("epoch") + push(2) + b"N" + b"\x85" * DEEP + push(1) + b"u.",
    "deep list": _with("x", b"]" * DEEP + b"a" * (DEEP - 1)),
    "deep calls": _with("x", name("a", "b") + b")R" * DEEP),
    "20,000 keys with one hash": _with("x", b"}(" + b"".join(_ONE_HASH) + b"u"),
    "sets of unhashables": _with("s", b"\x8f(]}\x90").removesuffix(b"u.") + text("f") + b"(]}\x91u.",
    "unhashable keys": b"\x80\x02}(" + text("epoch") + push(2) + b"]" + push(1) + b"}" + push(2) + b"u.",
    "references of references": _with("x", _references()),
    "pop, dup and pop_mark": b"\x80\x02(N1(NN1}(" + text("epoch") + push(2) + b"u20.",
    "out of band buffers": _with("a", b"\x97\x98"),
}


@pytest.mark.parametrize("kind", sorted(LEGAL))
def test_odd_but_legal_pickles_are_read(kind: str) -> None:
    start = time.perf_counter()
    value = run(LEGAL[kind])
    assert value["epoch"] == 2
    key_tree(value)
    del value
    assert time.perf_counter() - start < 10


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", CutShort),
        (b"\x80\x02}", CutShort),
        (b"\x80\x02X\x05\0\0\0abc", CutShort),
        (b"\x80\x02J\x05\0", CutShort),
        (b"cos\nsys", CutShort),
        (b"\x80\x09}.", Damaged),
        (b"\x80\x02\xfe.", Damaged),
        (b"\x80\x02. ", Damaged),
        (b"\x80\x02h\x07. ", Damaged),
        (b"\x80\x02N(" + text("a") + push(1) + b"u. ", Damaged),
        (b"\x80\x02Ne. ", Damaged),
        (b"\x80\x02}(" + text("a") + b"u. ", Damaged),
        (b"\x80\x02X\x02\0\0\0\xff\xfe. ", Damaged),
        (b"Inine\n. ", Damaged),
        (b"K\x010000000000. ", Damaged),
    ],
)
def test_what_is_no_pickle_says_so(data: bytes, error: type[UnreadableFile]) -> None:
    with pytest.raises(error):
        run(data)


def test_tensors_with_senseless_arguments_stay_inert() -> None:
    weights = {
        "args": assemble.call("torch._utils", "_rebuild_tensor_v2", 1, 2),
        "none": Op(name("torch._utils", "_rebuild_tensor_v2") + b")R"),
        "negative": Op(bytes(tensor("1", (3,))).replace(push((3,)), push((-3,)), 1)),
        "parameter": assemble.call("torch._utils", "_rebuild_parameter", None),
        "good": tensor("0", (2, 2)),
    }
    machine = Machine()
    value, _ = machine.run(pickled(weights))
    assert [type(one).__name__ for one in value.values()] == ["Inert", "Inert", "Inert", "Inert", "Tensor"]
    assert machine.tensors == [value["good"]]
    assert words(value["negative"]) == "unknown tensor"


def test_surrogates_in_texts_are_read_and_shown_escaped() -> None:
    value = run(pickled({"a\ud800b": 1, "stage": "x\udc80y"}))
    assert value["stage"] == "x\udc80y"
    assert list(key_tree(value)) == [r"a\ud800b", "stage"]


def test_one_memory_bound_for_a_file_of_lists(tmp_path: Path) -> None:
    """In a process of its own: 8 million lists from a file of a few kilobytes stay under 300 MB."""
    path = tmp_path / "lists.pt"
    path.write_bytes(assemble.zipped(b"\x80\x02" + b"]" * (8 << 20) + b".", packed=True))
    assert path.stat().st_size < 20_000
    answer = subprocess.run([sys.executable, "-c", _PEAK, str(path)], capture_output=True, text=True, check=True)
    wholeness, peak_kib = answer.stdout.split("|")
    assert wholeness == "over a limit"
    assert int(peak_kib) < 300 << 10


_PEAK = """
import sys
from lavender_tui.checkpoints import read_checkpoint
found = read_checkpoint(sys.argv[1])
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(found.wholeness, peak.split()[1], sep="|")
"""


# ---- tensors at a stroke: exactly what step by step gives


def _shape_of(value: Any) -> Any:
    """A tree that can be compared: inert objects by their parts, tensors by all that they say."""
    if type(value) is Tensor:
        return ("tensor", value.dtype, value.shape, value.stride, value.offset, _shape_of(value.storage))
    if type(value) is Global:
        return ("global", str(value))
    if type(value) is Storage:
        return ("storage", value.dtype, value.key, value.location, value.numel)
    if type(value) is Inert:
        return ("inert", value.type_name, _shape_of(value.args), _shape_of(value.state))
    if type(value) is dict:
        return {key: _shape_of(one) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_shape_of(one) for one in value)
    return value


def test_tensors_at_a_stroke_are_those_of_single_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    import io
    import zipfile

    import torch

    weights = {f"layer.{index}": torch.zeros(index % 5 + 1, 300 if index % 3 else 7) for index in range(120)}
    weights |= {"scalar": torch.tensor(1.0), "empty": torch.zeros(0, 5), "five": torch.zeros(1, 2, 1, 2, 70_000)}
    weights |= {"view": torch.zeros(40, 40)[3:, 5:], "half": torch.zeros(2, dtype=torch.float16), "one": torch.zeros(1)}
    weights |= {
        "grad": torch.zeros(4, requires_grad=True),
        "tied": weights["layer.100"],
        "int": torch.zeros(3, dtype=torch.int64),
    }
    out = io.BytesIO()
    torch.save({"model": weights, "again": list(weights.values())}, out)
    with zipfile.ZipFile(out) as archive:
        data = archive.read(next(one for one in archive.namelist() if one.endswith("data.pkl")))
    fast = Machine()
    at_once, _ = fast.run(data)
    assert fast._runs.made > 60
    monkeypatch.setattr("lavender_tui.checkpoints.tensor_runs.TensorRuns.match", staticmethod(lambda data, at: None))
    slow = Machine()
    by_steps, _ = slow.run(data)
    assert _shape_of(at_once) == _shape_of(by_steps)
    assert _shape_of(fast.memo) == _shape_of(slow.memo)
    assert len(fast.tensors) == len(slow.tensors)


def test_an_overwritten_memo_entry_is_not_read_from_the_past() -> None:
    """Tensors are read at a stroke by what GETs stand for; a pickle may change that in between."""
    head = [b"\x80\x02]", b"q\0"] + [b"N" + b"r" + struct.pack("<I", index) + b"0" for index in range(1, 300)]

    def put(index: int, value: bytes) -> bytes:
        return value + b"r" + struct.pack("<I", index) + b"0"

    head += [
        put(1, name("torch._utils", "_rebuild_tensor_v2")),
        put(2, text("storage")),
        put(3, name("torch", "FloatStorage")),
    ]
    head += [put(4, text("cpu")), put(5, name("collections", "OrderedDict"))]

    def stroke(first: int) -> bytes:
        puts = [b"r" + struct.pack("<I", first + index) for index in range(7)]
        return (
            b"h\x01((h\x02h\x03" + text("0") + puts[0] + b"h\x04K\x06t" + puts[1] + b"QK\0K\x02K\x03\x86" + puts[2]
            + b"K\x03K\x01\x86" + puts[3] + b"\x89h\x05)R" + puts[4] + b"t" + puts[5] + b"R" + puts[6]
        )  # fmt: skip

    body = b"(" + stroke(300) + put(3, name("torch", "LongStorage")) + stroke(307) + b"e."
    value = run(b"".join(head) + body)
    assert [one.dtype for one in value] == ["float32", "int64"]
