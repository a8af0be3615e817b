"""Which globals torch's own safe loading (`weights_only=True`) would refuse, by torch 2.13's list."""

from __future__ import annotations

from collections.abc import Iterable


def _set(names: str) -> frozenset[str]:
    return frozenset(names.split())


_ALLOWED = _set(
    """
    collections.OrderedDict collections.Counter torch.nn.parameter.Parameter torch.serialization._get_layout torch.Size
    torch.Tensor torch.device _codecs.encode builtins.bytearray builtins.set builtins.complex
    torch.storage.TypedStorage torch.storage.UntypedStorage torch._tensor._rebuild_from_type_v2
    torch.per_tensor_affine torch.per_tensor_symmetric torch.per_channel_affine torch.per_channel_symmetric
    torch.per_channel_affine_float_qparams
    """
)
_REBUILD = _set(
    """
    _rebuild_parameter _rebuild_parameter_with_state _rebuild_qtensor _rebuild_tensor _rebuild_tensor_v2
    _rebuild_tensor_v3 _rebuild_sparse_tensor _rebuild_meta_tensor_no_storage _rebuild_nested_tensor
    _rebuild_wrapper_subclass _rebuild_device_tensor_from_numpy _rebuild_device_tensor_from_cpu_tensor
    """
)
_DTYPES = _set(
    """
    float64 float32 float16 bfloat16 complex32 complex64 complex128 int1 int2 int3 int4 int5 int6 int7 int8 int16 int32
    int64 uint1 uint2 uint3 uint4 uint5 uint6 uint7 uint8 uint16 uint32 uint64 bool qint8 qint32 quint8 quint4x2
    quint2x4 bits1x8 bits2x4 bits4x2 bits8 bits16 float8_e5m2 float8_e5m2fnuz float8_e4m3fn float8_e4m3fnuz
    float8_e8m0fnu float4_e2m1fn_x2
    """
)
_REAL_KINDS = ("Double", "Float", "Half", "BFloat16", "Long", "Int", "Short", "Char", "Byte")
_KINDS = (*_REAL_KINDS, "Bool", "ComplexDouble", "ComplexFloat")
_STORAGES = frozenset(f"{kind}Storage" for kind in _KINDS)
_QUANTISED = _set("QUInt8Storage QInt8Storage QInt32Storage QUInt4x2Storage QUInt2x4Storage")
_TENSORS = frozenset(f"{kind}Tensor" for kind in (*_REAL_KINDS, "Bool"))
_SPARSE = frozenset(f"{kind}Tensor" for kind in _REAL_KINDS)
# Python 2's spelling, which protocol 2 still uses.
_OLD_MODULES = {"__builtin__": "builtins", "copy_reg": "copyreg"}
_OLD_NAMES = {
    "builtins.xrange": "builtins.range",
    "builtins.unicode": "builtins.str",
    "builtins.long": "builtins.int",
    "builtins.reduce": "functools.reduce",
}


def modern(name: str) -> str:
    """`module.name` as Python 3 spells it."""
    module, _, last = name.rpartition(".")
    renamed = f"{_OLD_MODULES.get(module, module)}.{last}"
    return _OLD_NAMES.get(renamed, renamed)


def is_allowed(name: str) -> bool:
    """Would `weights_only=True` take this `module.name`?"""
    name = modern(name)
    if name in _ALLOWED:
        return True
    module, _, last = name.rpartition(".")
    if module == "torch":
        return last in _DTYPES or last in _STORAGES or last in _QUANTISED or last in _TENSORS
    if module == "torch.cuda":
        return last in _STORAGES or last in _TENSORS
    if module in ("torch.sparse", "torch.cuda.sparse"):
        return last in _SPARSE
    return module == "torch._utils" and last in _REBUILD


def refused_globals(names: Iterable[str]) -> tuple[str, ...]:
    """Those of `names` that a safe loading would refuse, in order, each once, in Python 3's spelling."""
    return tuple(dict.fromkeys(modern(name) for name in names if not is_allowed(name)))
