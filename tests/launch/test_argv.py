"""Words and paths arrive byte for byte: from the command line through plan, supervisor and record to the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from lavender_tui import launch
from lavender_tui.launch import command
from lavender_tui.launch.record import read_exit, read_launch
from lavender_tui.model.command_line import exact
from lavender_tui.model.plan import Launch
from tests.launch.conftest import Lab
from tests.model.test_command_line import NASTY, words

# Notes its words and its directory as bytes, beside the launch record.
NOTES = """
import json, os, sys
told = {"words": [os.fsencode(word).hex() for word in sys.argv[1:]], "cwd": os.fsencode(os.getcwd()).hex()}
with open(os.path.join(os.environb[b"LAVENDER_RUN_DIR"], b"told." + os.environb.get(b"RANK", b"0")), "w") as file:
    json.dump(told, file)
"""
SETTINGS = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def told(run_dir: str, rank: int = 0) -> tuple[list[str], str]:
    with open(os.path.join(run_dir, f"told.{rank}")) as file:
        document = json.load(file)
    return [os.fsdecode(bytes.fromhex(word)) for word in document["words"]], os.fsdecode(bytes.fromhex(document["cwd"]))


@SETTINGS
@given(words)
def test_words_reach_the_training_and_its_record(lab: Lab, given_words: list[str]) -> None:
    argv = (sys.executable, lab.script(NOTES), *given_words)
    run_dir, record = lab.start(*argv, command=argv)
    lab.ended(run_dir)
    assert told(run_dir)[0] == given_words
    assert record.argv == argv == record.command == read_launch(run_dir).argv  # type: ignore[union-attr]


@SETTINGS
@given(words)
def test_the_shown_command_pasted_into_a_shell_starts_the_same(lab: Lab, given_words: list[str]) -> None:
    built = command.build([sys.executable, lab.script(NOTES), *given_words], world_size=1, run_dir=lab.run_dir())
    pasted = lab.directory / "pasted.sh"
    pasted.write_text(exact(built.argv), encoding="utf-8")
    environment = {**os.environ, "LAVENDER_RUN_DIR": str(lab.directory)}
    subprocess.run(["bash", str(pasted)], check=True, env=environment)
    assert told(str(lab.directory))[0] == given_words


@pytest.fixture
def nasty_place(tmp_path: Path, nothing_survives: object) -> Iterator[str]:
    place = os.path.join(str(tmp_path), "a b'\"$HOME\n\udcff -x")
    os.mkdir(place)
    yield place


def test_so_do_paths(nasty_place: str, until: Callable[..., Any]) -> None:
    script, cwd = os.path.join(nasty_place, "-train me.py"), os.path.join(nasty_place, "--cwd")
    os.mkdir(cwd)
    with open(script, "w") as file:
        file.write(NOTES)
    run_dir = os.path.join(nasty_place, "run-2026-01-02_03-04-05")
    os.mkdir(run_dir)
    record = launch.start(Launch(backend="local", argv=(sys.executable, script, script), cwd=cwd), run_dir)
    assert until(lambda: read_exit(run_dir)).code == 0
    assert told(run_dir) == ([script], cwd)
    assert (record.run_dir, record.cwd, record.env["LAVENDER_RUN_DIR"]) == (run_dir, cwd, run_dir)


def lavender(*arguments: str, cwd: str) -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "lavender_tui", *arguments]
    return subprocess.run(argv, cwd=cwd, capture_output=True, check=True, timeout=60)


def test_a_command_line_starts_them_and_a_resume_starts_them_again(nasty_place: str, until: Callable[..., Any]) -> None:
    from tests.resume.saves import save

    script, root = os.path.join(nasty_place, "train.py"), os.path.join(nasty_place, "ro ot")
    with open(script, "w") as file:
        file.write(NOTES)
    lavender("resume", "--latest", root, "--", sys.executable, script, *NASTY, cwd=nasty_place)
    first = [os.path.join(root, name) for name in os.listdir(root) if name.startswith("run-")]
    assert len(first) == 1
    until(lambda: read_exit(first[0]))
    assert told(first[0]) == (NASTY, nasty_place)
    save(first[0])
    done = lavender("resume", first[0], "--policy", "replay-epoch", cwd="/")
    second = os.fsdecode(done.stdout.removesuffix(b"\n"))
    runs = [os.path.join(root, name) for name in sorted(os.listdir(root)) if name.startswith("run-")]
    assert len(runs) == 2 and os.path.basename(runs[1]) in second
    until(lambda: read_exit(runs[1]))
    assert told(runs[1]) == (NASTY, nasty_place)


@pytest.mark.long
def test_torchrun_hands_every_word_to_every_rank(lab: Lab) -> None:
    run_dir = lab.run_dir()
    built = command.build([sys.executable, lab.script(NOTES), *NASTY], world_size=2, run_dir=run_dir)
    launch.start(built, run_dir)
    assert lab.ended(run_dir, 90).code == 0
    assert told(run_dir, 0)[0] == told(run_dir, 1)[0] == NASTY
