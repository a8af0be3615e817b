from __future__ import annotations

from pathlib import Path

import pytest

from lavender_tui.watch.container import cpu_limit, memory_limit

GB4 = 4 << 30


def tree(root: Path, files: dict[str, str], own: str = "0::/\n") -> tuple[str, str]:
    for name, content in files.items():
        path = root / "cgroup" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "own").write_text(own)
    return str(root / "cgroup"), str(root / "own")


@pytest.mark.parametrize(
    ("files", "own", "cpus", "memory"),
    [
        ({"memory.max": f"{GB4}\n", "cpu.max": "150000 100000\n"}, "0::/\n", 1.5, GB4),
        ({"memory.max": "max\n", "cpu.max": "max 100000\n"}, "0::/\n", None, None),
        ({"memory/memory.limit_in_bytes": f"{GB4}\n"}, "4:memory:/\n", None, GB4),
        ({"memory/memory.limit_in_bytes": "9223372036854771712\n"}, "4:memory:/\n", None, None),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, "2:cpu:/\n", None, None),
        ({"cpu/j/cpu.cfs_quota_us": "50000\n", "cpu/j/cpu.cfs_period_us": "100000\n"}, "2:cpu,x:/j\n", 0.5, None),
        # the least of the group's own limit and those above it
        ({"a/b/cpu.max": "800000 100000", "a/cpu.max": "200000 100000", "a/memory.max": "7"}, "0::/a/b\n", 2.0, 7),
        ({"cpu.max": "junk", "memory.max": "\0\xff"}, "0::/gone/from/here\n", None, None),
        ({"cpu.max": "0 0"}, "not a line\n", None, None),
    ],
)
def test_the_tightest_limit_counts(
    tmp_path: Path, files: dict[str, str], own: str, cpus: float | None, memory: int | None
) -> None:
    root, listed = tree(tmp_path, files, own)
    assert (cpu_limit(root, listed), memory_limit(root, listed)) == (cpus, memory)


def test_without_control_groups_the_machine_is_the_limit(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "none")
    assert cpu_limit(nowhere, nowhere) is None and memory_limit(nowhere, nowhere) is None
