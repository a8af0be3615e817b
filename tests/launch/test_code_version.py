"""Which code runs, as git tells it: in a real repository, and where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from lavender_tui.launch.code_version import CodeVersion, code_version
from lavender_tui.training import provenance
from lavender_tui.training.provenance import versions


def git(directory: Path, *words: str) -> str:
    name = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    out = subprocess.run(["git", *name, *words], cwd=directory, capture_output=True, text=True, check=True)
    return out.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    place = tmp_path / "code"
    (place / "inner").mkdir(parents=True)
    git(place, "init", "-q")
    (place / "inner" / "train.py").write_text("print(1)\n")
    git(place, "add", ".")
    git(place, "commit", "-qm", "first")
    return place


def snapshot(directory: Path) -> dict[str, int]:
    return {
        os.path.join(at, name): os.stat(os.path.join(at, name)).st_mtime_ns
        for at, _, names in os.walk(directory)
        for name in names
    }


def test_the_commit_and_what_was_changed_since(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert code_version(str(repository / "inner"), timeout_seconds=60) == CodeVersion(commit=commit, changed=0)
    (repository / "inner" / "train.py").write_text("print(2)\n")
    (repository / "checkpoints").mkdir()
    (repository / "checkpoints" / "a.pt").write_text("git doesn't know of it")
    before = snapshot(repository)
    assert code_version(str(repository), timeout_seconds=60) == CodeVersion(commit=commit, changed=1)
    assert snapshot(repository) == before


def test_no_repository_no_commit_no_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_version(str(tmp_path)) is None
    assert code_version(str(tmp_path / "absent")) is None
    git(tmp_path, "init", "-q")
    assert code_version(str(tmp_path)) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert code_version(str(tmp_path)) is None


def test_variables_that_point_elsewhere_dont_count(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(repository / ".git"))
    assert code_version(str(tmp_path)) is None


def test_nothing_that_a_repository_names_is_run(repository: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(trap))
    assert code_version(str(repository), timeout_seconds=60) is not None
    assert not (tmp_path / "sprung").exists()


def test_a_git_that_hangs_is_left(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 120\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    start = time.monotonic()
    assert code_version(str(repository), timeout_seconds=0.3) is None
    assert time.monotonic() - start < 60


def test_a_training_records_the_code_of_its_script(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(repository / "inner" / "train.py"), raising=False)
    monkeypatch.setattr(provenance, "code_version", partial(code_version, timeout_seconds=60))
    found = versions()
    assert (found["git_commit"], found["git_changed"]) == (git(repository, "rev-parse", "HEAD"), 0)
    assert {"torch", "lancedb", "python", "lavender_tui"} <= found.keys()
