"""Nothing is shown as a programming language writes it: no None, True, ['a'] or {'b': 1} on any page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model import text
from lavender_tui.resume.data_checks import reading_words
from tests.tui import runs
from tests.tui.conftest import LARGE, SMALL, Play, press, text_of, until, until_shown

REPR = re.compile(r"\b(None|True|False|NoneType|nan|inf)\b|[\[{(]['\"]|['\"][\]})]|\{\}|\[\]|'[a-z_]+': ")
SETTINGS = {
    "d_model": 256, "bias": True, "tied": False, "dropout": None, "betas": (0.9, 0.95), "layers": [1, 2, 3],
    "names": ["a", "b"], "nothing": [], "one": [7], "inner": {"bias": True, "deep": {"x": None}}, "empty": {},
}  # fmt: skip
DATA = {
    "uri": "/data", "table": "corpus", "version": 7, "tag": None, "filter": None, "shuffle": True,
    "shuffle_clump_size": None, "columns": None, "num_rows": 8000, "on_transform_error": None, "pack_sequences": None,
}  # fmt: skip


@pytest.fixture
def plain_root(tmp_path: Path) -> Path:
    """Two failed runs whose settings and data hold every kind of value."""
    root = tmp_path / "checkpoints"
    for number, name in enumerate(("run-2026-04-24_18-53-41", "run-2026-04-25_18-53-41")):
        settings = {**SETTINGS, "bias": not number, "betas": (0.9, 0.95 + number / 100)}
        data = {**DATA, "shuffle_clump_size": 32 if number else None}
        runs.save(root / name, 60, age_seconds=3600, model_cfg=settings, data=data, versions={"torch": None, "x": "2"})
        runs.metrics(root / name, runs.falling(40))
        runs.launched(root / name, [*runs.script(tmp_path), "--compile", "--lr=3e-4"])
        runs.ended(root / name, code=1)
    return root


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=str)
async def test_no_page_speaks_python(play: Play, plain_root: Path, size: tuple[int, int]) -> None:
    async with play(plain_root, size=size) as pilot:

        async def scan(what: str, shown: str = "") -> None:
            if shown:
                await until_shown(pilot, shown)
            await until(pilot, lambda: not any(not one.is_finished for one in pilot.app.workers), "the workers")
            found = [line for line in text_of(pilot.app).splitlines() if REPR.search(line)]
            assert not found, f"{what}: {found}"

        await scan("list", "✗ failed")
        await press(pilot, "enter")
        await scan("overview", "world_size")
        for key in "2345671":
            await press(pilot, key)
            await scan(f"tab {key}")
        await press(pilot, "slash", *"b", "enter")
        await scan("settings")
        await press(pilot, "escape", "enter", "2", "enter")
        await scan("tree", "model_cfg")
        for _ in range(3):
            await press(pilot, "ctrl+d")
            await scan("tree further down")
        await press(pilot, "escape", "escape", "r")
        await until(pilot, lambda: not pilot.app.screen._is_waiting, "the checks")
        await scan("sheet", "world_size")
        await press(pilot, "pagedown")
        await scan("sheet further down")
        await press(pilot, "escape", "g", "space", "space", "c")
        await scan("comparison")
        await press(pilot, "G")
        await scan("comparison further down")
        await press(pilot, "escape", "D")
        await scan("disk")
        await press(pilot, "escape", "question_mark")
        await scan("help")
        await press(pilot, "escape", "ctrl+p")
        await scan("palette", "this run")


def test_values_in_words() -> None:
    shown = {text.value(value): value for value in (None, True, (0.9, 0.95), ["a", "b"], {"lr": 0.1, "x": None}, [], 4)}
    assert list(shown) == ["none", "true", "0.9, 0.95", "a, b", "lr 0.1, x none", "nothing", "4"]
    assert text.value(["[/]", "it's", "\x1b[2J"]) == "[/], it's, \\x1b[2J"
    assert text.value(10**5000).endswith("bits") and text.value(list(range(10**6))).endswith(", …")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(), lambda one: st.lists(one, max_size=4)))
def test_no_nested_value_is_shown_as_code(value: object) -> None:
    assert not re.search(r"None|True|False|\[|\]", text.value(value))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, "no filter, shuffled with seed 7, all columns"),
        ({"shuffle": False}, "no filter, in the table's order, all columns"),
        ({"shuffle_clump_size": 32}, "no filter, shuffled with seed 7 in clumps of 32, all columns"),
        (
            {"filter": "length > 10", "columns": ["tokens", "id"]},
            "only rows where length > 10, shuffled with seed 7, columns tokens, id",
        ),
    ],
)
def test_how_the_rows_are_read_is_said_in_english(changed: dict[str, object], words: str) -> None:
    assert reading_words({**DATA, **changed}, 7) == words
