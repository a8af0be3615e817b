"""The app in a real terminal: from the list to a resumed training that lives, in two keys, and lives on without it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys

import pytest

from lavender_tui.launch.living import is_alive

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, the real terminal of this test")


class Terminal:
    """A terminal of 120x40 in a tmux server of its own."""

    def __init__(self, socket: str, command: list[str]) -> None:
        self._tmux = ["tmux", "-S", socket, "-f", os.devnull]
        self._run("new-session", "-d", "-x", "120", "-y", "40", shlex.join(command))

    def press(self, *keys: str) -> None:
        self._run("send-keys", *keys)

    @property
    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    @property
    def is_open(self) -> bool:
        return subprocess.run([*self._tmux, "has-session"], capture_output=True, check=False).returncode == 0

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False)

    def _run(self, *arguments: str) -> str:
        # Where the test runner has imported readline, the C library's environment has LINES and COLUMNS, of 24 by 80.
        environment = dict(os.environ)
        done = subprocess.run([*self._tmux, *arguments], capture_output=True, text=True, check=True, env=environment)
        return done.stdout


@pytest.fixture
def open_terminal(tmp_path):
    opened = []

    def open_it(*command):
        opened.append(Terminal(str(tmp_path / f"tmux{len(opened)}"), [sys.executable, "-m", "lavender_tui", *command]))
        return opened[-1]

    yield open_it
    for terminal in opened:
        terminal.close()


def new_runs(chain):
    """The run directories, started already, that the chain does not know of."""
    paths = (os.path.join(chain.root, name) for name in sorted(os.listdir(chain.root)))
    return [path for path in paths if path not in chain.runs and os.path.exists(os.path.join(path, "launch.json"))]


def test_from_the_list_to_a_resumed_training_in_two_keys(make_chain, coverage_of, open_terminal, until):
    chain = make_chain(pause=0.25)  # it still trains when the app has gone
    chain.start(2)
    chain.wait_for_work_after_a_save(1, not_before=6)
    chain.kill()
    chain.wait_for_end()

    terminal = open_terminal(chain.root)
    until(lambda: "failed" in terminal.screen, 60, "the run in the list")
    terminal.press("r")
    until(lambda: "ready:" in (seen := terminal.screen) and "repeats" in seen, 60, lambda: terminal.screen)
    terminal.press("Enter")
    chain.runs += until(lambda: new_runs(chain), 60, "the new run")
    until(lambda: "running" in terminal.screen, 60, "the new run in the list")
    until(lambda: chain.trained_step() > 0, 120, "its first step")

    terminal.press("q")
    until(lambda: not terminal.is_open, what="the end of the app")
    assert is_alive(chain.run_dir)
    assert chain.wait_for_end() == 0
    coverage = coverage_of(chain)
    assert coverage.is_exact, coverage


def test_the_demo_ends_its_training_when_it_is_left(tmp_path, open_terminal, nothing_survives, until):
    terminal = open_terminal("demo", "--directory", str(tmp_path / "demo"))
    until(lambda: "running" in (seen := terminal.screen) and "q ends the demo" in seen, 60, lambda: terminal.screen)
    assert len(nothing_survives()) >= 3
    terminal.press("q")
    until(lambda: "Leave?" in terminal.screen, 30, lambda: terminal.screen)
    terminal.press("q")
    until(lambda: not terminal.is_open, 30, "the end of the demo")
    left = nothing_survives()
    assert left == []
