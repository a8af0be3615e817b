"""A shown command pastes back to the same words, byte for byte, in a real shell."""

from __future__ import annotations

import os
import subprocess
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lavender_tui.model import command_line
from lavender_tui.model.command_line import beginning, exact, shown, stop_over_ssh
from lavender_tui.model.secrets import masked

# Each a word of its own; together they have met every quoting rule.
NASTY = [
    "a b", "it's", '"', "$HOME", "`id`", "$(id)", "-n", "--", "-", "", "~", "*", "!x", "#x", "a\\b", "\\", "A=b", "=ls",
    "{a,b}", "l1\nl2", "\t", "\r", "\x1b[31m", "\x7f", "é", "e\u0301", "\u202e", "\u200b", "\udcff\udc80", "\udcff1",
    "a;b", "a|b", "a&b", "<x>", "[x]", "\u00a0", "&&", "%s", "@file", "'\n'", "😀",
]  # fmt: skip
words = st.lists(
    st.one_of(st.sampled_from(NASTY), st.binary(max_size=12).map(lambda data: os.fsdecode(data.replace(b"\0", b"")))),
    max_size=6,
)


def pasted(line: str, directory: Path) -> list[bytes]:
    """The words that bash makes of the line."""
    script = directory / "pasted.sh"
    script.write_text(f"printf '%s\\0' {line}\n", encoding="utf-8")
    out = subprocess.run(["bash", str(script)], check=True, capture_output=True).stdout
    return out.split(b"\0")[:-1]


@settings(max_examples=40)
@given(words)
def test_bash_reads_the_shown_command_as_the_same_words(
    tmp_path_factory: pytest.TempPathFactory, given_words: list[str]
) -> None:
    line = exact(["x", *given_words])
    assert pasted(line, tmp_path_factory.getbasetemp())[1:] == [os.fsencode(word) for word in given_words]
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in line)


def test_every_nasty_word_survives_the_shell(tmp_path: Path) -> None:
    assert pasted(exact(["x", *NASTY]), tmp_path)[1:] == [os.fsencode(word) for word in NASTY]


@pytest.mark.parametrize("program", ["A=b", "if", "time", "=x", "a b", "-x"])
def test_the_first_word_is_a_program_and_nothing_of_the_shells(program: str, tmp_path: Path) -> None:
    place = tmp_path / program
    place.write_text("#!/bin/sh\nprintf '%s' \"$0 $1\"\n")
    place.chmod(0o755)
    script = tmp_path / "script.sh"
    script.write_text(exact([program, "$1"]))
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{place} $1"


def test_secrets_are_shown_hidden_and_copied_whole() -> None:
    assert shown(["python", "t.py", "--token=abc"]) == "python t.py '--token=***'"
    assert exact(["python", "t.py", "--token=abc"]) == "python t.py --token=abc"


@pytest.mark.parametrize("path", ["/r/run-1", "/my runs/it's run-1", "/r/$(id)", "/r/a;b"])
def test_a_stop_over_ssh_arrives_byte_for_byte(path: str) -> None:
    """The local shell splits it once, and the one there once more."""
    command = stop_over_ssh("gpu-07.example", path, "--kill")
    assert command is not None
    local = subprocess.run(
        ["bash", "-c", f"ssh() {{ shift; printf '%s ' \"$@\"; }}; {command}"], capture_output=True, check=True
    )
    there = b"lavender-tui() { printf '%s\\0' \"$@\"; }; " + local.stdout
    words = subprocess.run(["bash", "-c", there], capture_output=True, check=True).stdout.split(b"\0")[:-1]
    assert [os.fsdecode(word) for word in words] == ["stop", path, "--kill"]


@pytest.mark.parametrize("host", ["-oProxyCommand=touch /tmp/x", "a b", "x;y", "", "h\nost", "$(id)"])
def test_what_is_no_host_gives_no_command(host: str) -> None:
    assert stop_over_ssh(host, "/r/run-1") is None


@given(words, st.integers(2, 60))
def test_the_beginning_of_a_short_command_is_that_of_all_of_it(given_words: list[str], most: int) -> None:
    whole = shown(given_words)
    assert beginning(given_words, most) == (whole if len(whole) <= most else whole[: most - 1] + "…")


@pytest.mark.parametrize("before", [0, 500, 8_000, 15_000, 16_000])
def test_the_beginning_of_a_long_command_holds_no_half_of_a_secret(before: int) -> None:
    script = "--token=abc " * (before // 12) + "https://ada:" + "hunter2/" * 900 + "@host " + "x" * 200_000
    told = beginning(["sh", "-c", script], 600)
    assert "hunter2" not in told and told.endswith("…") and len(told) <= 600
    assert "hunter2" not in beginning(["t.py", "--token", "hunter2" * 9_000, "x" * 100], 60)


def test_the_beginning_looks_at_no_more_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []

    def watched(words: list[str]) -> tuple[str, ...]:
        looked_at.append(sum(map(len, words)))
        return masked(words)

    monkeypatch.setattr(command_line, "masked", watched)
    assert beginning(["x" * 10**6, *["y"] * 10**6], 600) == "x" * 599 + "…"
    assert beginning(["y"] * 10**6, 6) == "y y y…"
    assert max(looked_at) < 20_000
