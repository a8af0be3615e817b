"""What a file is that is no checkpoint, in plain words, from its first bytes."""

from __future__ import annotations

from lavender_tui.checkpoints.files import OpenFile
from lavender_tui.checkpoints.limits import CutShort, Damaged, Foreign
from lavender_tui.errors import UnreadableFile

ALL_ZEROS = "it is filled with zeros: its name and size reached the disk, its content did not"
_SPOT = 4096
_SPOTS = 16

# (first bytes, its kind, what it is)
_SIGNATURES = (
    (
        b"version https://git-lfs",
        "git-lfs",
        "it is a git-lfs pointer: the real file was never downloaded (git lfs pull)",
    ),
    (b"\x1f\x8b", "gzip", "it is packed with gzip: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd", "it is packed with zstd: unpack it first"),
    (b"BZh", "bzip2", "it is packed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "xz", "it is packed with xz: unpack it first"),
    (b"\x89HDF", "hdf5", "it is an HDF5 file (Keras writes these)"),
    (b"GGUF", "gguf", "it is a GGUF file (weights for llama.cpp)"),
    (b"\x93NUMPY", "numpy", "it is a numpy array"),
    (b"\x7fELF", "program", "it is a program"),
    (b"#!", "script", "it is a script"),
)


def explain(file: OpenFile, head: bytes) -> UnreadableFile:
    """The error to raise for a file that begins with `head` and is neither archive nor pickle."""
    if not head.strip(b"\0"):
        return Damaged(ALL_ZEROS) if _is_all_zeros(file) else Foreign("it begins with zeros, as no checkpoint does")
    for magic, kind, text in _SIGNATURES:
        if head.startswith(magic):
            return Foreign(text, kind=kind)
    if b"PK\x03\x04".startswith(head):
        return CutShort("it ends in its first bytes")
    if head[257:262] == b"ustar":
        return Foreign("it is a tar archive", kind="tar")
    if len(head) > 9 and int.from_bytes(head[:8], "little") < 100_000_000 and head[8:9] == b"{":
        return Foreign("it is a safetensors file: weights only, without a training's state", kind="safetensors")
    return _explain_text(head)


def _explain_text(head: bytes) -> UnreadableFile:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html")):
        return Foreign("it is a web page, saved in the place of a file", kind="html")
    if start.startswith((b"<?xml", b"<error")):
        return Foreign("it is an XML text, perhaps a download's error message", kind="xml")
    try:
        text = head.decode("utf-8", "strict") if len(head) < 512 else head[:-3].decode("utf-8", "ignore")
    except UnicodeDecodeError:
        return Foreign("it is no file that torch.save writes")
    if not all(character.isprintable() or character in "\r\n\t" for character in text):
        return Foreign("it is no file that torch.save writes")
    if start.startswith((b"{", b"[")):
        return Foreign("it is a JSON text", kind="json")
    return Foreign("it is a text file", kind="text")


def _is_all_zeros(file: OpenFile) -> bool:
    """Looked at in some places over the whole length; a file may be far too long to read it all."""
    step = max(_SPOT, file.size // _SPOTS)
    places = [*range(0, file.size, step), max(0, file.size - _SPOT)]
    return not any(file.at(place, _SPOT).strip(b"\0") for place in places)
