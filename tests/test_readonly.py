"""Read-only: whatever changes something is gone from the app and refused by the commands, with no list to keep up."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from lavender_tui.cli import Verb, cli, run
from lavender_tui.tui import keys
from lavender_tui.tui.palette import LavenderCommands
from lavender_tui.tui.screens.run_actions import RunActions
from tests.tui.conftest import LARGE, Play, lines_of, play, press, text_of, until_shown  # noqa: F401
from tests.tui.runs import small_root

CHANGING = {name for name, verb in cli.commands.items() if isinstance(verb, Verb) and verb.changes}


def arguments(verb: click.Command) -> list[str]:
    """The least that the verb takes."""
    return ["nothing" for one in verb.params if isinstance(one, click.Argument) and one.required]


def test_every_verb_and_every_key_says_whether_it_changes_something() -> None:
    assert all(isinstance(verb, Verb) for verb in cli.commands.values())
    assert {"resume", "stop", "demo"} <= CHANGING
    assert {"app", "ls", "export", "inspect", "plan", "logs"}.isdisjoint(CHANGING)
    with pytest.raises(TypeError, match="changes"):
        click.command(cls=Verb)(lambda: None)
    with pytest.raises(TypeError, match="changes"):
        keys.Key(id="new", keys="n", action="new", help="", places=())  # type: ignore[call-arg]
    by_action: dict[str, set[bool]] = {}
    for key in keys.TABLE:
        by_action.setdefault(key.action, set()).add(key.changes)
    assert all(len(said) == 1 for said in by_action.values()), "the same action can't both change something and not"
    assert {key.id for key in keys.TABLE if key.changes} >= {"run.resume", "run.resume_now", "sheet.launch", "run.stop"}


@pytest.mark.parametrize("name", sorted(CHANGING))
def test_a_changing_verb_is_refused_in_one_sentence(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [name, *arguments(cli.commands[name])]
    assert run(["--readonly", *words]) == 1
    assert capsys.readouterr().err == f"lavender-tui: `{name}` changes something, and --readonly forbids that\n"
    monkeypatch.setenv("LAVENDER_TUI_READONLY", "1")
    assert run(words) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_settings_forbids_it_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = tmp_path / "config.toml"
    settings.write_text("readonly = true\n")
    monkeypatch.setenv("LAVENDER_TUI_CONFIG", str(settings))
    assert run(["stop", "nothing"]) == 1
    assert "readonly" in capsys.readouterr().err


def test_looking_goes_on(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = str(small_root(tmp_path))
    assert run(["--readonly", "ls", root]) == 0
    assert run(["--readonly", "export", root]) == 0
    assert run(["--readonly", "resume", root, "--dry-run"]) in (0, 1)
    assert "forbids" not in capsys.readouterr().err


async def test_no_key_that_changes_something_is_left(play: Play, tmp_path: Path) -> None:  # noqa: F811
    root = small_root(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*"))
    async with play(root, size=LARGE, readonly=True) as pilot:
        await until_shown(pilot, "read-only")
        for place in ("list", "run"):
            await _nothing_changes(pilot)
            bar = lines_of(pilot.app)[-1]
            shown = [key for key in keys.of_place(place) if key.label and f" {key.shown} {key.label} " in bar]
            assert shown and not any(key.changes for key in shown), bar
            assert "r resumes" not in text_of(pilot.app)
            await press(pilot, "enter")
        await press(pilot, "question_mark")
        assert not any(key.changes and key.help in text_of(pilot.app) for key in keys.TABLE)
    assert sorted(path for path in tmp_path.rglob("*")) == before


async def _nothing_changes(pilot: object) -> None:
    """Every such key, pressed or run by its name, leads nowhere."""
    app = pilot.app  # type: ignore[attr-defined]
    screen = app.screen
    assert isinstance(screen, RunActions)
    for key in keys.TABLE:
        if key.changes:
            await press(pilot, key.keys.split(",")[0]) if screen.PLACE in key.places else None  # type: ignore[arg-type]
            assert await app.run_action(key.action, screen) is False
            assert app.screen is screen
    offered = [action for _, _, action in LavenderCommands(screen)._actions()]
    assert offered and not any(keys.is_changing(action) for action in offered)


async def test_without_it_they_are_there(play: Play, tmp_path: Path) -> None:  # noqa: F811
    async with play(small_root(tmp_path), size=LARGE) as pilot:
        await until_shown(pilot, "r resume")
        assert "read-only" not in text_of(pilot.app)
