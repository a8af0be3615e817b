"""What a bad disk, or time, does to a checkpoint."""

from __future__ import annotations

import os
import struct
import time
import zipfile


def flip_a_weight(path: str) -> None:
    """One bit of a tensor's bytes, as a bad disk does it: torch loads that."""
    with zipfile.ZipFile(path) as archive:
        member = max((one for one in archive.infolist() if "/data/" in one.filename), key=lambda one: one.file_size)
    with open(path, "r+b") as file:
        file.seek(member.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(member.header_offset + 30 + name + extra)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0x20]))


def aged(path: str) -> str:
    """Once it was written a while ago: what a deep look finds in a younger file isn't remembered."""
    while time.time() - os.stat(path).st_ctime < 2.1:
        time.sleep(0.05)
    return path
