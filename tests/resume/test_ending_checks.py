"""What the old run died of is said before it is resumed: a warning where it may come again, never a refusal."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch.identity import boot_id, host_name, pid_namespace
from lavender_tui.launch.record import (
    ExitRecord,
    LaunchRecord,
    ProcessId,
    write_exit,
    write_launch,
)
from lavender_tui.model.failure import Failure
from lavender_tui.model.plan import Check, Verdict
from tests.resume.saves import TRAIN, proposed, save

READING = (
    "Traceback (most recent call last):",
    '  File "/x/train.py", line 9, in <module>',
    "    for rows in loader:",
    '  File "/v/site-packages/torch/utils/data/dataloader.py", line 734, in __next__',
    "    data = self._next_data()",
    "ValueError: bad row",
)


@pytest.fixture
def run(tmp_path: Path) -> str:
    path = str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")
    save(path, 3, batch={"global": 16, "num_workers": 0}, world_size=2)
    return path


def died(
    run: str,
    error: str | None,
    *,
    code: int | None = 1,
    signal: str | None = None,
    host: str = "",
    stop: Any = None,
    **more: Any,
) -> None:
    failure = Failure(words=error or "", rank=1, exception=error, traceback=more.pop("traceback", ()))
    record = LaunchRecord(
        run_id="x", run_dir=run, backend="local", argv=TRAIN, command=TRAIN, cwd="/", host=host or host_name(),
        boot_id=boot_id(), pid_namespace=pid_namespace(), leader=ProcessId(pid=2**22 - 7, start_ticks=1),
        started_at=1_777_000_000.0, written_by="supervisor", world_size=2,
    )  # fmt: skip
    write_launch(run, replace(record, **more))
    write_exit(
        run,
        ExitRecord(
            code=code, signal=signal, ended_at=1_777_000_100.0, error=error, failure=failure.to_json(), stop=stop
        ),
    )


def said(run: str, **options: Any) -> Check | None:
    found = [one for one in proposed(run, **options).checks if one.id == "source.died"]
    assert len(found) < 2
    return found[0] if found else None


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("rank 1: RuntimeError: CUDA error: uncorrectable ECC error encountered", "nvidia-smi -q -d ECC"),
        ("rank 1: torch.AcceleratorError: CUDA error: unspecified launch failure", "CUDA_VISIBLE_DEVICES"),
        ("rank 1: RuntimeError: cuDNN error: CUDNN_STATUS_INTERNAL_ERROR", "nvidia-smi"),
        ("rank 0: torch.distributed.DistBackendError: NCCL error in: x.cpp:77, unhandled system error", "NCCL_DEBUG"),
        ("rank 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", "more ranks"),
        ("rank 1: RuntimeError: CUDA error: out of memory", "more ranks"),
        ("rank 1: RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", "free -h"),
        ("rank 1: MemoryError", "free -h"),
        ("rank 1 was killed by signal 9: out of memory (the kernel's log names it)", "free -h"),
        ("rank 0: ValueError: loss is nan at step 400", "--before-spike"),
        ("rank 0: FloatingPointError: non-finite gradient", "--before-spike"),
        ("rank 0: RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"),
        ("rank 0: ValueError: Caught ValueError in DataLoader worker process 0.", "--policy skip-epoch"),
    ],
)
def test_what_may_come_again_is_warned_of_with_a_remedy(run: str, error: str, remedy: str) -> None:
    died(run, error)
    check = said(run)
    assert check is not None and check.verdict is Verdict.WARN, "never a refusal, and never nothing"
    assert error in check.what and check.evidence and remedy in check.remedy
    assert len(check.remedy) < 110


def test_an_error_at_the_data_is_known_by_where_it_was_raised(run: str) -> None:
    died(run, "rank 1: ValueError: bad row", traceback=READING)
    check = said(run)
    assert check is not None and check.verdict is Verdict.WARN and "the same row comes again" in check.evidence


def test_the_host_of_the_device_is_named(run: str) -> None:
    died(run, "rank 1: RuntimeError: CUDA error: uncorrectable ECC error encountered")
    check = said(run)
    assert check is not None and check.remedy.startswith(f"on {host_name()}: ")


def test_of_several_nodes_it_is_that_of_the_rank(run: str) -> None:
    died(run, "rank 1: RuntimeError: CUDA error: uncorrectable ECC error encountered", nodes=2)
    check = said(run)
    assert check is not None and check.remedy.startswith("on the host of rank 1: ")


def test_another_host_has_other_devices(run: str) -> None:
    died(run, "rank 1: RuntimeError: CUDA error: uncorrectable ECC error encountered", host="gpu-07")
    check = said(run)
    assert check is not None and check.verdict is Verdict.PASS and "that was on gpu-07" in check.what


def test_more_ranks_need_less_memory_each(run: str) -> None:
    died(run, "rank 1: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB")
    check = said(run, world_size=4)
    assert check is not None and check.verdict is Verdict.PASS and "now 4 rows a rank instead of 8" in check.what
    same = said(run, world_size=2)
    assert same is not None and same.verdict is Verdict.WARN


@pytest.mark.parametrize(
    "error",
    [
        "rank 1: KeyError: 'lr'",
        "rank 0: NameError: name 'nan' is not defined",
        "rank 0: FileNotFoundError: [Errno 2] No such file or directory: '/data/nan/part-0.parquet'",
        "PermissionError: [Errno 13] Permission denied: '/data/NCCL/log'",
        "rank 3: ImportError: libcuda.so.1: cannot open shared object file, needed by the CUDA driver",
        "AttributeError: module 'torch' has no attribute 'OutOfMemoryError'; out of memory",
    ],
)
def test_any_other_error_is_only_named(run: str, error: str) -> None:
    """What only names a device or a NaN, as a path or a misspelt name does, warns of nothing."""
    died(run, error)
    check = said(run)
    assert check is not None and check.verdict is Verdict.PASS and error in check.what


@pytest.mark.parametrize(
    ("error", "code", "signal"),
    [
        ("killed by signal 9 that nobody here sent (an administrator, or a memory killer)", None, "SIGKILL"),
        ("rank 1 was killed by signal 9 that nobody here sent (an administrator, or a memory killer)", 1, None),
        ("rank 1 was killed by signal 11 (SIGSEGV)", 1, None),
        ("killed by signal 15 (SIGTERM)", None, "SIGTERM"),
        ("RuntimeError: CUDA error: initialization error", 143, None),
        (None, 3, None),
    ],
)  # fmt: skip
def test_a_signal_or_a_preemption_says_nothing_of_the_next_time(
    run: str, error: str | None, code: int | None, signal: str | None
) -> None:
    died(run, error, code=code, signal=signal)
    assert said(run) is None


def test_a_stop_says_nothing_of_the_next_time(run: str) -> None:
    died(
        run,
        "rank 1: RuntimeError: CUDA error: uncorrectable ECC error encountered",
        stop={"who": "me", "how": "graceful", "asked_at": 1_777_000_090.0},
    )
    assert said(run) is None
