from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lavender_tui.watch import machine
from lavender_tui.watch.mounts import file_system_of, is_silent

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
SLICE = "MIG-bbbbbbbb-cccc-dddd-eeee-ffffffffffff"


@pytest.mark.parametrize(
    ("setting", "count"),
    [
        (None, 2),
        ("", 0),
        ("-1", 0),
        ("0", 1),
        ("0,1", 2),
        ("1,0", 2),
        ("0, 1", 2),
        ("0,-1,1", 1),
        ("7", 0),
        ("0,0", 0),
        (FIRST, 1),
        ("GPU-1111", 1),
        ("GPU-", 0),
        (f"{SECOND},0", 2),
        (f"{FIRST},0", 0),
        (SLICE, 1),
        (f"{SLICE},{SLICE}", 1),
        ("no-such", 0),
        ("٣", 0),
        ("9" * 400, 0),
    ],
)
def test_visible_devices_are_counted_as_cuda_does(setting: str | None, count: int):
    assert machine.visible_devices(setting, [FIRST, SECOND]) == count


def test_a_full_name_is_believed_where_the_driver_hides_the_names():
    assert machine.visible_devices(FIRST, ["0000:01:00.0"]) == 1
    assert machine.visible_devices("0", ["0000:01:00.0"]) == 1


def test_nothing_is_visible_without_the_driver():
    assert machine.visible_devices("0", []) == 0
    assert machine.visible_devices(SLICE, []) == 0


def test_devices_answers_on_any_machine():
    assert machine.devices({}) >= 0
    assert machine.devices({"CUDA_VISIBLE_DEVICES": ""}) == 0


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
