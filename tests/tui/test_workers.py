"""Work that a thread is given is named by us: Textual would write down all that it is given, and each key would wait.

Of two thousand runs that took a second, in which the page of the disk was asked for and nothing moved.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import lavender_tui.tui
from lavender_tui.model.run import Run
from tests.tui.conftest import Play, press, until_shown

SOURCES = sorted(Path(lavender_tui.tui.__file__).parent.rglob("*.py"))


def works_in(path: Path) -> list[ast.Call]:
    """Every `@work(…)`."""
    functions = (one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, ast.FunctionDef))
    calls = (call for one in functions for call in one.decorator_list if isinstance(call, ast.Call))
    return [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "work"]


def described(call: ast.Call) -> object:
    """In words; for none, and for "", Textual would find its own."""
    return next((ast.literal_eval(one.value) for one in call.keywords if one.arg == "description"), "")


def test_every_work_of_a_thread_says_what_it_is_called() -> None:
    found = [(path.name, call) for path in SOURCES for call in works_in(path)]
    assert len(found) > 10
    assert [f"{name}:{call.lineno}" for name, call in found if not described(call)] == []


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (("D",), "free"),
        (("enter", "3"), "last, at"),
        (("enter", "5"), "no process of it lives"),
        (("enter", "7"), "ended: killed by"),
    ],
    ids=["disk", "curve", "processes", "history"],
)
async def test_no_run_is_written_down_to_open_a_page(
    play: Play, root: Path, keys: tuple[str, ...], shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []
    monkeypatch.setattr(Run, "__repr__", lambda run: written.append(run.name) or run.name)
    async with play(root) as pilot:
        await press(pilot, *keys)
        await until_shown(pilot, shown)
        assert written == []
