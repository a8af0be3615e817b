from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lavender_tui.watch import machine
from lavender_tui.watch.mounts import file_system_of, is_silent


def test_devices_answers_on_any_machine():
    assert machine.devices({}) >= 0
    assert machine.devices({"CUDA_VISIBLE_DEVICES": ""}) == 0


def test_memory_is_what_this_process_may_fill():
    assert 0 < machine.memory_bytes() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_cpu_count_honours_affinity():
    one = min(os.sched_getaffinity(0))
    code = "from lavender_tui.watch.machine import cpu_count; print(cpu_count())"
    answer = subprocess.run(
        [sys.executable, "-c", f"import os; os.sched_setaffinity(0, [{one}]); {code}"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout == "1\n"


MOUNTS = (
    b"21 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    b"22 21 0:5 / /data rw shared:2 - nfs4 server:/data rw\n"
    b"23 21 0:6 / /data/my\\040own rw - ext4 /dev/sdb rw\n"
    b"24 21 0:7 / /mnt rw - tmpfs tmpfs rw\n"
    b"25 21 0:8 / /mnt rw - fuse.sshfs me@there:/ rw\n"
    b"not a mount at all\n"
)


@pytest.mark.parametrize(
    ("path", "kind", "silent"),
    [
        ("/", "ext4", False),
        ("/datafile", "ext4", False),
        ("/data", "nfs4", True),
        ("/data/x/y", "nfs4", True),
        ("/data/my own/runs", "ext4", False),
        ("/mnt/runs", "fuse.sshfs", True),
    ],
)
def test_the_longest_mount_point_decides(tmp_path, path: str, kind: str, silent: bool):
    mountinfo = tmp_path / "mountinfo"
    mountinfo.write_bytes(MOUNTS)
    assert file_system_of(path, str(mountinfo)) == kind
    assert is_silent(kind) is silent


def test_an_unknown_file_system_is_watched(tmp_path):
    assert file_system_of("/", str(tmp_path / "none")) is None
    assert not is_silent(None)
    assert is_silent("overlay")
