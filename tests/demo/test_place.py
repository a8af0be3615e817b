"""Where a demo lies: in a directory of its own, whoever begins one at the same time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lavender_tui.demo.story import new_place
from lavender_tui.errors import LaunchFailed


def test_each_takes_the_first_that_is_free(tmp_path: Path) -> None:
    assert [new_place(str(tmp_path)) for _ in range(2)] == [str(tmp_path / "1"), str(tmp_path / "2")]
    (tmp_path / "3").symlink_to("nowhere")
    assert new_place(str(tmp_path)) == str(tmp_path / "4")


def test_one_that_another_demo_takes_in_that_instant_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.mkdir

    def beaten(path: str, *mode: int) -> None:
        if path == str(tmp_path / "1"):
            make(path)
        make(path, *mode)

    monkeypatch.setattr(os, "mkdir", beaten)
    assert new_place(str(tmp_path)) == str(tmp_path / "2")


def test_where_none_can_be_made_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LaunchFailed, match="the demo can't be made there"):
        new_place(str(tmp_path / "file" / "demo"))
