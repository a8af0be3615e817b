"""ASCII in as many cells as before."""

from __future__ import annotations

import ast
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import lavender_tui
from lavender_tui.model.ascii import to_ascii
from lavender_tui.model.series import trend


def test_the_signs_of_the_screens_stay_apart() -> None:
    glyphs = "●◐✓✗■○"
    assert len(set(to_ascii(glyphs))) == len(glyphs)
    assert to_ascii("├ run → résumé…") == "| run > resume~"
    assert to_ascii(trend([1.0, 2, 3, 4, 5, 6, 7, 8])).isascii()
    assert to_ascii("plain text") == "plain text"


def test_a_curve_falls_in_ascii_too() -> None:
    assert to_ascii("⠉⠒⠤⣀") == "'--." and to_ascii("⠀⡇⢸⣿⢁") == " |||:"


def signs_of_the_package() -> set[str]:
    """Every sign beyond ASCII that is written in a text of the package; those of docstrings and escapes aren't."""
    found: set[str] = set()
    for file in Path(lavender_tui.__file__).parent.rglob("*.py"):
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in spoken]
        found |= {one for node in texts if isinstance(node.value, str) for one in node.value if one in source}
    return {one for one in found if not one.isascii()}


def test_each_sign_of_the_package_has_one_that_says_the_same() -> None:
    signs = signs_of_the_package()
    assert len(signs) > 30 and not {one for one in signs if "?" in to_ascii(one)}


@given(st.text(alphabet=st.characters(exclude_categories=["Cc", "Cs"]), max_size=30))
def test_nothing_but_ascii_is_left(words: str) -> None:
    assert to_ascii(words).isascii()


@given(st.text(alphabet=st.sampled_from("aé漢字…─⠉▇́😀x"), max_size=20))
def test_no_cell_moves(words: str) -> None:
    assert cell_len(to_ascii(words)) == cell_len(words)
