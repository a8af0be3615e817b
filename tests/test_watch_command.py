"""`lavender-tui watch` on a real root whose runs really end, with a real hook."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lavender_tui import config
from lavender_tui.cli import run
from lavender_tui.launch import hooks, start
from lavender_tui.model.notices import Event, Notice
from lavender_tui.model.plan import Launch
from tests.model import build
from tests.tui import runs

HOOK = "import os, sys; open(sys.argv[1], 'a').write(repr((sys.argv[2:], os.environ['LAVENDER_REASON'])) + chr(10))"


def until(condition: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], list[str]]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(*args: str) -> tuple[subprocess.Popen[str], list[str]]:
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "lavender_tui", "watch", *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        started.append(process)
        lines: list[str] = []
        threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True).start()
        return process, lines

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_a_run_that_dies_is_told_and_the_hook_gets_its_name_as_it_is(
    tmp_path: Path, watching: Callable[..., tuple[subprocess.Popen[str], list[str]]]
) -> None:
    root = tmp_path / "checkpoints"
    run_dir = root / "run-2026-04-24_18-53-41 $(touch x); '\"{reason}"
    runs.save(run_dir, 1)
    told, argv = tmp_path / "told", (sys.executable, "-c", "import time; time.sleep(600)")
    record = start(Launch(backend="local", argv=argv, cwd=str(tmp_path)), str(run_dir))
    hook = f"failed='{sys.executable}' -c \"{HOOK}\" '{told}' {{run}} {{event}}"
    process, lines = watching(str(root), "--json", "--on", hook)
    assert "1 run, 1 alive" in process.stderr.readline()
    os.kill(record.leader.pid, signal.SIGKILL)
    until(lambda: told.exists() and told.read_text().endswith("\n"), "the hook")
    until(lambda: lines, "the line")
    words, reason = ast.literal_eval(told.read_text())
    assert words == [run_dir.name, "failed"] and "killed by signal 9" in reason
    assert json.loads(lines[0])["event"] == "failed" and json.loads(lines[0])["run"] == run_dir.name
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130 and not (Path.cwd() / "x").exists()


PWN = 'RuntimeError("it broke (here) $(touch PWNED) `touch PWNED`; touch PWNED")'
HOOKS = (
    "sh -c 'echo \"$1\" > told' _ {reason}",
    "sh -c 'echo \"$LAVENDER_REASON\" > told'",
    "env cp -t {path} /etc/hostname",
)


@pytest.mark.parametrize("hook", HOOKS)
def test_what_a_training_raises_is_run_by_no_shell(hook: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    run_dir, told = tmp_path / "run $(touch PWNED)", tmp_path / "told"
    run_dir.mkdir()
    news = Notice(event=Event.FAILED, run=build.run(path=str(run_dir)), words=PWN)
    hooks.start(hooks.parse(hook), news, said.append)
    copied = run_dir / "hostname"
    until(lambda: copied.is_file() or (told.is_file() and told.read_text() == f"{PWN}\n"), "the hook")
    assert not said and not list(tmp_path.rglob("PWNED"))


def test_words_in_a_shells_program_are_refused_before_anything_is_watched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["watch", str(tmp_path), "--on", "failed=sh -c 'echo {reason} >> hook.txt'"]) == 2
    told = capsys.readouterr().err
    assert "{reason} stands in what sh reads as a program" in told and "sh -c 'echo \"$1\"' _ {reason}" in told


def test_a_hook_of_the_settings_is_judged_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAVENDER_TUI_CONFIG", str(tmp_path / "settings.toml"))
    text = "[notify]\nfailed = '''bash -lc \"echo {run}\"'''\nfinished = 'true {run}'\n"
    (tmp_path / "settings.toml").write_text(text)
    settings, notices = config.load()
    assert settings.notify.failed == "" and settings.notify.finished == "true {run}"
    assert len(notices) == 1 and "{run} stands in what bash reads as a program" in notices[0]
    assert '"$LAVENDER_RUN"' in notices[0]
    monkeypatch.setenv("LAVENDER_TUI_NOTIFY_NAN", "env sh -c 'echo {reason}'")
    assert config.load()[0].notify.nan == "" and "{reason} stands in" in config.load()[1][1]


@pytest.mark.parametrize(
    ("on", "words"), [("died=true", "it is EVENT=COMMAND"), ("failed", "EVENT=COMMAND"), ("failed='a", "quot")]
)
def test_what_is_no_hook_is_refused(on: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["watch", str(tmp_path), "--on", on]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "problem", "seconds"),
    [("/no/such/program", "can't be started", 30), ("false", "exit code 1", 30), ("sleep 60", "was ended", 0.2)],
)
def test_a_hook_that_fails_is_said(command: str, problem: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "SECONDS", seconds)
    said: list[str] = []
    hooks.start(hooks.parse(command), Notice(event=Event.FAILED, run=build.run(), words="why"), said.append)
    until(lambda: said, "the sentence")
    assert problem in said[0]
