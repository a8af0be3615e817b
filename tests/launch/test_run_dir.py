"""A run directory belongs to whoever made it, and goes away only while nobody else used it."""

from __future__ import annotations

import os
import threading
from datetime import datetime
from pathlib import Path

import pytest

from lavender_tui.errors import LaunchFailed
from lavender_tui.launch.run_dir import new_run_dir, remove_if_untouched
from lavender_tui.model.run import started_at_from_name

NOW = datetime(2026, 4, 24, 23, 59, 58)


def test_the_root_is_made_and_the_name_is_the_time(tmp_path: Path) -> None:
    path = new_run_dir(str(tmp_path / "a" / "b"), NOW)
    assert path == str(tmp_path / "a" / "b" / "run-2026-04-24_23-59-58")
    assert started_at_from_name(os.path.basename(path)) == NOW.timestamp()
    assert new_run_dir(str(tmp_path), NOW.timestamp()).endswith("run-2026-04-24_23-59-58")


def test_a_taken_second_gives_the_next_free_one_and_is_left_alone(tmp_path: Path) -> None:
    for second in ("23-59-58", "23-59-59"):
        (tmp_path / f"run-2026-04-24_{second}").mkdir()
        (tmp_path / f"run-2026-04-24_{second}" / "owner.txt").write_text("mine")
    (tmp_path / "run-2026-04-25_00-00-00").symlink_to("nowhere")
    assert new_run_dir(str(tmp_path), NOW) == str(tmp_path / "run-2026-04-25_00-00-01")
    assert os.listdir(tmp_path / "run-2026-04-24_23-59-58") == ["owner.txt"]


def test_many_at_once_get_a_directory_each(tmp_path: Path) -> None:
    made: list[str] = []
    threads = [threading.Thread(target=lambda: made.append(new_run_dir(str(tmp_path), NOW))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 12 == len(os.listdir(tmp_path))


def test_a_root_that_cannot_be_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchFailed, match=r"file/root.*can't be made"):
        new_run_dir(str(tmp_path / "file" / "root"))


def test_only_what_is_ours_is_removed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "launch.json").write_text("{}")
    (run / "theirs.pt").write_text("x")
    assert not remove_if_untouched(str(run), ["launch.json"])
    assert sorted(os.listdir(run)) == ["launch.json", "theirs.pt"]
    (run / "theirs.pt").unlink()
    assert remove_if_untouched(str(run), ["launch.json", "exit.json"])
    assert not run.exists()
    assert remove_if_untouched(str(run), [])


def test_a_directory_under_our_name_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "run" / "ranks").mkdir(parents=True)
    assert not remove_if_untouched(str(tmp_path / "run"), ["ranks"])
