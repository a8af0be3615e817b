"""The README says what is true: its key table, its commands, its pictures."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from lavender_tui.errors import LavenderError, NotFound, UsageError
from lavender_tui.launch import hooks
from lavender_tui.model import rhythm
from lavender_tui.tui.keys import markdown

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def between(mark: str) -> str:
    found = re.search(rf"<!-- {mark} -->\n(.*?)<!-- /{mark} -->", README, re.DOTALL)
    assert found, f"the README has no part {mark}"
    return found[1]


def test_the_key_table_is_the_one_that_the_app_binds() -> None:
    assert between("keys").strip() == markdown().strip()


def test_the_silences_that_are_no_stall_are_those_of_the_code() -> None:
    told = " ".join(README.split())
    steps, unproved, saves = rhythm.STEPS_FLOOR_SECONDS, rhythm.UNPROVED_FLOOR_SECONDS, rhythm.SAVES_FLOOR_SECONDS
    assert f"more than {rhythm.STALL_INTERVALS} of its own intervals" in told
    assert f"before {steps:.0f} s by its logged steps ({unproved:.0f} s where these bear no times)" in told
    assert f"and {saves:.0f} s by its saves" in told


def test_every_picture_is_there() -> None:
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", README)
    assert pictures
    assert [path for path in pictures if not (ROOT / path).is_file()] == []


def test_every_verb_and_option_of_the_readme_exists() -> None:
    commands = re.findall(r"^\| `lavender-tui ([a-z]+)([^`]*)`", README, re.MULTILINE)
    assert {verb for verb, _ in commands} >= {
        "ls",
        "export",
        "inspect",
        "merge",
        "plan",
        "resume",
        "stop",
        "logs",
        "demo",
    }
    for verb, rest in commands:
        done = subprocess.run(
            [sys.executable, "-m", "lavender_tui", verb, "--help"], capture_output=True, text=True, check=True
        )
        for option in re.findall(r"--[a-z][a-z-]+", rest):
            assert option in done.stdout, f"{verb} has no {option}"


def test_both_commands_install_with_the_pinned_versions() -> None:
    assert "pip install -c tests/constraints.txt . && lavender-tui demo" in README
    assert "pip install -c tests/constraints.txt '.[test]' && pytest" in README
    pins = (ROOT / "tests" / "constraints.txt").read_text(encoding="utf-8")
    assert "\ntorch==2.13.0\n" in pins


def test_the_example_for_a_training_script_is_the_documented_one() -> None:
    """The README's lines are those of the module's docstring, which a test of the training side runs."""
    import lavender_tui.training

    documented = {line.split("#")[0].strip() for line in (lavender_tui.training.__doc__ or "").splitlines()}
    block = re.search(r"```python\nfrom lavender_tui.training import CheckpointManager.*?```", README, re.DOTALL)
    assert block
    lines = [line.split("#")[0].strip() for line in block[0].splitlines()[2:-1]]
    assert [line for line in lines if line and line not in documented] == []


def test_the_hooks_that_it_shows_are_taken() -> None:
    block = re.search(r"```toml\n(\[notify\].*?)```", README, re.DOTALL)
    assert block
    commands = {name: told for name, told in tomllib.loads(block[1])["notify"].items() if isinstance(told, str)}
    assert len(commands) == 3
    for command in commands.values():
        hooks.parse(command)


def test_exit_codes_are_said_once_and_are_those_of_the_errors() -> None:
    told = re.findall(r"^\| ([0-9]+) \|", README, re.MULTILINE)
    assert told == ["0", "1", "2", "100", "102", "103", "130"]
    assert "xit codes" not in README
    assert {error.exit_code for error in (LavenderError, UsageError, NotFound)} <= set(map(int, told))


def test_what_folds_is_closed_again() -> None:
    assert README.count("<details>") == README.count("</details>") == README.count("<summary>") > 5
    assert len(README[: README.index("# Reference")].splitlines()) < 280
