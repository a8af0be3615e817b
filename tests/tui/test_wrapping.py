"""Words on several lines, or cut off: a number keeps its unit, and is never read as another number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.tui.screens.ask import Ask
from lavender_tui.tui.widgets.inks import Span
from lavender_tui.tui.widgets.lines import cut_spans, wrap_spans
from tests.tui.conftest import SMALL, Play, press, text_of, until_shown

AMOUNTS = (
    "2 h ago", "<1 min ago", "~34 k", "1,204 rows", "35 %", "(12 s)", "0.8 s", "7 ranks", "1.2e-4 GB", "96 MB,",
    "4/8 ranks", "less than 10 s ago", "3 min ago:", "2 of 4 ranks",
)  # fmt: skip
WORDS = st.sampled_from([*AMOUNTS, "a", "failed,", "/srv/run-2026/12", "rank", "error:", "  ", "●"])
_TORN = re.compile(r"(?:^|[ (<~])[0-9][0-9.,/e-]*$")


def lines_of(spans: list[Span], width: int, hang: int = 3) -> list[str]:
    return ["".join(words for words, _ in line) for line in wrap_spans(spans, width, hang)]


@given(st.lists(WORDS, max_size=12), st.integers(23, 60), st.integers(0, 4))
def test_no_line_ends_between_a_number_and_its_unit(words: list[str], width: int, hang: int) -> None:
    shown = lines_of([(f"{one} ", ink) for one, ink in zip(words, ["", "warn"] * 6, strict=False)], width, hang)
    assert not [line for line in shown[:-1] if _TORN.search(line.rstrip())]
    assert " ".join(" ".join(shown).split()) == " ".join(" ".join(words).split())


def test_a_number_keeps_its_unit_across_inks() -> None:
    assert lines_of([("saved ", ""), ("2", "strong"), (" h ago", "quiet")], 10, 2) == ["saved", "  2 h ago"]


def test_a_number_is_no_amount_of_the_next_argument() -> None:
    assert lines_of([("torchrun --tee 3 train.py", "")], 16, 2) == ["torchrun --tee 3", "  train.py"]


def test_where_no_line_has_room_for_both_the_words_are_broken_all_the_same() -> None:
    assert lines_of([("12 checkpoints", "")], 11, 0) == ["12", "checkpoints"]


@pytest.mark.parametrize("width", range(8, 30))
@pytest.mark.parametrize("amount", ["2 h ago", "1,204 rows", "12345", "35 %"])
def test_a_cut_leaves_no_part_of_a_number(amount: str, width: int) -> None:
    words = f"it said {amount}, then more"
    cut = "".join(part for part, _ in cut_spans([("it said ", ""), (amount, "warn"), (", then more", "")], width))
    assert len(cut) <= width and cut.endswith("…") == (len(words) > width)
    assert not re.search("[0-9]", cut) or amount in cut


def test_a_number_that_stands_first_is_cut_where_the_room_ends() -> None:
    assert cut_spans([("1,204 rows", "")], 5) == [("1,20…", "")]


async def test_a_question_keeps_its_amounts_whole(play: Play, tmp_path: Path) -> None:
    async with play(tmp_path, size=SMALL) as pilot:
        for padding in range(40, 70, 3):
            detail = f"{'x' * padding} the last save was 12 min ago, 3 h of work"
            await pilot.app.push_screen(Ask(f"Kill {padding}?", detail=detail))
            await until_shown(pilot, f"Kill {padding}?")
            assert "12 min ago" in text_of(pilot.app) and "3 h" in text_of(pilot.app)
            await press(pilot, "escape")
