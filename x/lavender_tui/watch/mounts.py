"""Which file system a directory lies on, and whether that one tells of changes made elsewhere."""

from __future__ import annotations

import os

MOUNTINFO = "/proc/self/mountinfo"
# Events on these come for changes made on this machine and through this mount only: other hosts write unseen.
_SILENT = ("nfs", "cifs", "smb", "fuse", "9p", "virtiofs", "lustre", "beegfs", "gpfs", "ceph", "afs", "glusterfs")
_SILENT_EXACTLY = ("overlay", "aufs", "gfs2", "ocfs2", "orangefs", "pvfs2", "coda", "vboxsf", "vmhgfs", "prl_fs")


def file_system_of(path: str, mountinfo: str = MOUNTINFO) -> str | None:
    """The type of the file system that holds `path` ("ext4", "nfs4", "fuse.sshfs"); None where that can't be told."""
    path = os.path.realpath(path)
    best, kind = -1, None
    try:
        with open(mountinfo, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    for line in lines:
        point, found = _parse(line)
        # Of mounts on the same point the last one lies on top.
        if point is not None and len(point) >= best and _lies_under(path, point):
            best, kind = len(point), found
    return kind


def is_silent(kind: str | None) -> bool:
    """Do changes on such a file system happen without an event here?"""
    return kind is not None and (kind.startswith(_SILENT) or kind in _SILENT_EXACTLY)


def _parse(line: bytes) -> tuple[str | None, str | None]:
    """(mount point, type): `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw` (proc(5))."""
    head, dash, tail = line.partition(b" - ")
    fields = head.split()
    if not dash or len(fields) < 5 or not tail.split():
        return None, None
    return os.fsdecode(_unescape(fields[4])), os.fsdecode(tail.split()[0])


def _unescape(field: bytes) -> bytes:
    for code, character in ((b"\\040", b" "), (b"\\011", b"\t"), (b"\\012", b"\n"), (b"\\134", b"\\")):
        field = field.replace(code, character)
    return field


def _lies_under(path: str, point: str) -> bool:
    return path == point or path.startswith(point if point.endswith("/") else point + "/")
