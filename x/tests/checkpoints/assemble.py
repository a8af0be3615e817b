"""Pickles put together by hand, opcode by opcode, and the containers that torch puts them into."""

from __future__ import annotations

import io
import math
import pickle
import struct
import zipfile
from collections.abc import Sequence
from typing import Any


class Op(bytes):
    """Ready-made opcodes that leave one object on the stack."""


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def number(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw


def push(value: Any) -> bytes:
    """The opcodes (protocol 2) that push `value`."""
    if isinstance(value, Op):
        return bytes(value)
    if value is None or value is True or value is False:
        return {None: b"N", True: b"\x88", False: b"\x89"}[value]
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return b"G" + struct.pack(">d", value)
    if isinstance(value, str):
        return text(value)
    inside = b"".join(map(push, value)) if not isinstance(value, dict) else b""
    if isinstance(value, list):
        return b"](" + inside + b"e"
    if isinstance(value, tuple):
        return b"(" + inside + b"t"
    return b"}(" + b"".join(push(key) + push(one) for key, one in value.items()) + b"u"


def name(module: str, attribute: str) -> bytes:
    return f"c{module}\n{attribute}\n".encode()


def call(module: str, attribute: str, *args: Any) -> Op:
    return Op(name(module, attribute) + push(args) + b"R")


def tensor(key: str, shape: Sequence[int], *, numel: int | None = None, kind: str = "FloatStorage") -> Op:
    """A tensor as torch writes it, without memo."""
    stride = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    storage = text("storage") + name("torch", kind) + text(key) + text("cpu")
    held = b"(" + storage + push(math.prod(shape) if numel is None else numel) + b"tQ"
    rest = b"K\0" + push(tuple(shape)) + push(tuple(stride)) + b"\x89" + name("collections", "OrderedDict") + b")R"
    return Op(name("torch._utils", "_rebuild_tensor_v2") + b"(" + held + rest + b"tR")


def pickled(value: Any) -> bytes:
    return b"\x80\x02" + push(value) + b"."


def good(**changes: Any) -> dict[str, Any]:
    """The content of a small, healthy checkpoint; a change to `...` takes the key away."""
    content: dict[str, Any] = {
        "model_state_dict": {"w": tensor("0", (4, 3)), "b": tensor("1", (3,))},
        "optimizer_state_dict": {"state": {}, "param_groups": [{"lr": 0.25}]},
        "model_cfg": {"dim": 3},
        "stage": "pretrain",
        "save_count": 7,
        "epoch": 2,
        "epochs": 5,
        "epoch_complete": False,
        "pretrain_loss": 2.5,
        "remaining_hours": 1.25,
    }
    content.update(changes)
    return {key: value for key, value in content.items() if value is not ...}


def zipped(
    data: bytes,
    *,
    root: str = "archive",
    packed: bool = False,
    more: Sequence[tuple[str, bytes]] = (),
    data_name: str = "data.pkl",
) -> bytes:
    """A zip as torch.save writes it, with two storages."""
    out = io.BytesIO()
    root = f"{root}/" if root else ""
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(f"{root}{data_name}", data, zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED)
        archive.writestr(f"{root}byteorder", "little")
        for key, size in (("0", 48), ("1", 12)):
            archive.writestr(f"{root}data/{key}", b"\0" * size)
        for member, content in more:
            archive.writestr(member, content)
    return out.getvalue()


LEGACY_HEAD = (
    pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    + pickle.dumps(1001, 2)
    + pickle.dumps(
        {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}, 2
    )
)


def legacy(data: bytes) -> bytes:
    """The container of torch before 1.6, with the two storages of `good()`."""
    storages = b"".join(struct.pack("<q", count) + b"\0" * (4 * count) for count in (12, 3))
    return LEGACY_HEAD + data + pickle.dumps(["0", "1"], 2) + storages


def payloads(marker: str) -> dict[str, Op]:
    """Opcodes that would touch `marker` if anything of them were executed; each leaves one object."""
    shell = f"touch {marker}"
    python = f"open({marker!r}, 'w').close()"
    system = name("os", "system")
    return {
        "reduce": call("os", "system", shell),
        "reduce posix": call("posix", "system", shell),
        "reduce eval": call("__builtin__", "eval", python),
        "reduce exec": call("builtins", "exec", python),
        "reduce Popen": call("subprocess", "Popen", ["touch", marker]),
        "inst": Op(b"(" + text(shell) + b"ios\nsystem\n"),
        "obj": Op(b"(" + system + text(shell) + b"o"),
        "newobj": Op(system + push((shell,)) + b"\x81"),
        "newobj_ex": Op(system + push((shell,)) + b"}\x92"),
        "stack_global": Op(b"\x8c\x02os\x8c\x06system\x93" + push((shell,)) + b"R"),
        "build setstate": Op(system + b")\x81}(" + text("__setstate__") + system + b"ub" + text(shell) + b"b"),
        "getattr chain": Op(
            name("builtins", "getattr") + b"(" + bytes(call("builtins", "__import__", "os")) + text("system") + b"tR"
            + push((shell,)) + b"R"
        ),
        "nested pickle": call("pickle", "loads", Op(push_bytes(b"cos\nsystem\n(S'" + shell.encode() + b"'\ntR."))),
        "torch.load": call("torch", "load", marker),
        "persistent id": Op(
            b"(" + text("storage") + call("os", "system", shell) + text("0") + text("cpu") + b"K\x04tQ"
        ),
        "text persistent id": Op(b"P" + shell.encode() + b"\n"),
        "module record": Op(b"(" + text("module") + system + text("evil.py") + text(python) + b"tQ"),
        "import with effects": Op(name("antigravity", "fly")),
        "extension code": Op(b"\x82\x01"),
        "as a function of a rebuild": call(
            "torch._tensor", "_rebuild_from_type_v2", Op(system), Op(system), (shell,), None
        ),
        "items of an object": Op(system + b")\x81(" + text(shell) + b"e"),
        "pairs of an object": Op(system + b")\x81(" + text(shell) + text(shell) + b"u"),
    }  # fmt: skip


def push_bytes(raw: bytes) -> bytes:
    """Bytes as protocol 2 writes them."""
    return name("_codecs", "encode") + push((raw.decode("latin1"), "latin1")) + b"R"
