"""The settings: where they come from, what a bad one does, what is printed of them."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path

import pytest

from lavender_tui.cli import run
from lavender_tui.config import Config, load, origins


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "settings.toml"
    monkeypatch.setenv("LAVENDER_TUI_CONFIG", str(path))
    return path


def test_what_is_printed_can_be_saved_and_means_the_same(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('theme = "nord"\npoll_seconds = 5\n[slurm]\npartition = "gpu"\noptions = ["--mem=0"]\n')
    before = load()
    assert run(["config"]) == 0
    printed = capsys.readouterr().out
    assert str(file) in printed and f'theme = "nord"   # {file}' in printed
    file.write_text(printed)
    assert load() == before and before[0].slurm.options == ("--mem=0",)
    assert set(tomllib.loads(printed)) == set(Config.__dataclass_fields__)


def test_the_origin_of_each_is_said(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('theme = "nord"\nmouse = "perhaps"\n')
    environ = {"LAVENDER_TUI_CONFIG": str(file), "LAVENDER_TUI_ROOT": "here", "LAVENDER_TUI_SLURM_TIME": "60"}
    found = origins(environ)
    assert found["theme"] == str(file) and found["root"] == "LAVENDER_TUI_ROOT" and found["mouse"] == "default"
    assert found["slurm.time"] == "LAVENDER_TUI_SLURM_TIME" and found["slurm.gres"] == "default"
    assert run(["config", "--json"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out)["settings"]["mouse"] is True and "mouse can't be 'perhaps'" in told.err


@pytest.mark.parametrize("content", [b"theme = [", b"\xff\xfe", b"slurm = 3\n", b"[theme]\na = 1\n", b"unknown = 1\n"])
def test_a_bad_file_is_one_sentence_and_the_defaults(
    file: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_bytes(content)
    config, notices = load()
    assert config == Config() and len(notices) == 1
    assert run(["config"]) == 0
    assert "Traceback" not in (told := capsys.readouterr()).err and str(file) in told.err


@pytest.mark.parametrize(
    ("hook", "why"), [("{nope}", "{nope} is nothing"), ("true {nope}", "{nope} is nothing"), ("say a\\u0000b", "NUL")]
)
def test_a_hook_that_could_never_do_its_work_is_one_notice_and_none(file: Path, hook: str, why: str) -> None:
    file.write_text(f'[notify]\nnan = "{hook}"\nfailed = "true {{run}}"\n')
    config, notices = load()
    assert (config.notify.nan, config.notify.failed) == ("", "true {run}")
    assert len(notices) == 1 and why in notices[0] and f"{file}, [notify]: nan can't be" in notices[0]
    assert origins({"LAVENDER_TUI_CONFIG": str(file)})["notify.nan"] == "default"


def test_without_a_file_the_defaults_are_shown(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config"]) == 0
    assert "not there" in capsys.readouterr().out and not file.exists()


def test_a_pipe_in_the_files_place_holds_nothing_up(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)
    os.mkfifo(file)
    config, notices = load({"LAVENDER_TUI_CONFIG": str(file)})
    assert config == Config() and "no regular file" in notices[0]


def test_who_asks_for_protection_in_whatever_words_has_it() -> None:
    config, notices = load({"LAVENDER_TUI_CONFIG": os.devnull, "LAVENDER_TUI_READONLY": "maybe"})
    assert config.readonly and notices == ("the environment: readonly can't be 'maybe'; true is used",)
