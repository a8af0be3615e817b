"""The formats that are known, in the order in which they are tried.

A format is two functions over a file's content: `recognises(content) -> bool` and `read(content) -> Fields`.
To add one, write a module with these two and put it before `torch`, which takes everything. Formats that are
directories (one checkpoint in several files) will have a registry of their own beside this one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lavender_tui.checkpoints.formats import lancedb, lavender, torch
from lavender_tui.checkpoints.formats.fields import Content, Fields

__all__ = ["FILE_FORMATS", "Content", "Fields", "FileFormat", "read_fields"]


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFormat:
    """A format whose checkpoints are single files."""

    name: str
    recognises: Callable[[Content], bool]
    read: Callable[[Content], Fields]


FILE_FORMATS: tuple[FileFormat, ...] = (
    FileFormat(name="lavender", recognises=lavender.recognises, read=lavender.read),
    FileFormat(name="lancedb", recognises=lancedb.recognises, read=lancedb.read),
    FileFormat(name="torch", recognises=torch.recognises, read=torch.read),
)


def read_fields(content: Content) -> Fields:
    """The simple fields, by the first format that recognises the content."""
    return next(one for one in FILE_FORMATS if one.recognises(content)).read(content)
