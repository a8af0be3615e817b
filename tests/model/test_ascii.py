"""ASCII in as many cells as before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from lavender_tui.model.ascii import to_ascii
from lavender_tui.model.series import trend


def test_the_signs_of_the_screens_stay_apart() -> None:
    glyphs = "●◐✓✗■○"
    assert len(set(to_ascii(glyphs))) == len(glyphs)
    assert to_ascii("├ run → résumé…") == "| run > resume~"
    assert to_ascii(trend([1.0, 2, 3, 4, 5, 6, 7, 8])).isascii()
    assert to_ascii("plain text") == "plain text"


def test_a_curve_falls_in_ascii_too() -> None:
    assert to_ascii("⠉⠒⠤⣀") == '"--_' and to_ascii("⠀") == " "


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), max_size=30))
def test_nothing_but_ascii_is_left(words: str) -> None:
    assert to_ascii(words).isascii()


@given(st.text(alphabet=st.sampled_from("aé漢字…─⠉▇́😀x"), max_size=20))
def test_no_cell_moves(words: str) -> None:
    assert cell_len(to_ascii(words)) == cell_len(words)
