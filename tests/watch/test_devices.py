from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.watch import devices
from lavender_tui.watch.devices import Device, from_proc, visible

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
SLICE = "MIG-bbbbbbbb-cccc-dddd-eeee-ffffffffffff"
HERE = (Device(name=FIRST), Device(name=SECOND, slices=(SLICE,)))
FROM_PROC = (Device(name=FIRST), Device(name=SECOND))


@pytest.mark.parametrize("here", [HERE, FROM_PROC])
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
        (f"MIG-{SECOND}/1/0", 1),
        ("no-such", 0),
        ("٣", 0),
        ("9" * 400, 0),
    ],
)
def test_visible_devices_are_counted_as_cuda_does(setting: str | None, count: int, here: tuple[Device, ...]) -> None:
    assert visible(setting, here) == count


def test_a_slice_that_is_not_there_hides_what_follows() -> None:
    assert visible("MIG-00000000-0000-0000-0000-000000000000", HERE) == 0
    assert visible("MIG-bbbb", HERE) == 1


def test_where_every_device_is_sliced_a_process_sees_one_slice() -> None:
    assert visible(None, (Device(name=SECOND, slices=(SLICE, "MIG-1")),)) == 1


def test_a_full_name_is_believed_where_the_driver_hides_the_names() -> None:
    hidden = (Device(name="0000:01:00.0"),)
    assert visible(FIRST, hidden) == 1 and visible("0", hidden) == 1


def test_nothing_is_visible_without_the_driver() -> None:
    assert visible("0", ()) == 0 and visible(SLICE, ()) == 0


def test_the_kernels_directory_is_read(tmp_path: Path) -> None:
    for place, text in (("0000:01:00.0", f"Model: \t H\nGPU UUID:   \t {FIRST}\n"), ("0000:02:00.0", "GPU UUID: ?\n")):
        (tmp_path / place).mkdir()
        (tmp_path / place / "information").write_text(text)
    (tmp_path / "0000:03:00.0").mkdir()
    assert [one.name for one in from_proc(str(tmp_path))] == [FIRST, "0000:02:00.0", "0000:03:00.0"]
    assert from_proc(str(tmp_path / "none")) == ()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = devices._Driver()
    monkeypatch.setattr(devices, "_driver", made)
    return made


def test_it_answers_on_any_machine_and_from_many_threads(driver: Any) -> None:
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(devices.devices_here())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers)) == 1


def test_a_driver_that_hangs_is_given_up_and_not_asked_again_at_once(
    driver: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(devices, "_listen", release.wait)
    begun = time.monotonic()
    assert devices._ask(0.05) is None
    asked = driver.asking
    assert devices._ask(120.0) is None and driver.asking is asked
    assert time.monotonic() - begun < 60
    release.set()
    asked.join()


class Nvml:
    """The functions of the driver's library that are called, for two devices of which one is cut into slices."""

    class NVMLError(Exception):
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: Any) -> str | bytes:
        return {0: FIRST, 1: SECOND.encode()}.get(handle, SLICE)

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: int) -> int:
        if handle == 0:
            raise self.NVMLError("not supported")
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: int, index: int) -> str:
        if index != 2:
            raise self.NVMLError("not found")
        return "slice"


def test_what_the_library_tells_of_whole_and_sliced_devices() -> None:
    assert tuple(devices._device(Nvml(), index) for index in range(2)) == HERE
