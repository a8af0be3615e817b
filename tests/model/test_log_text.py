"""What a terminal would show: bars in their last state, codes gone or escaped, nothing real hidden."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.progress import Progress

from lavender_tui.model.log_text import Row, bar_of, fold, plain, row_at

ESC, BEL = "\x1b", "\x07"
CODES = {chr(number) for number in (*range(32), *range(127, 160))}


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("as it is", "as it is"),
        (f"{ESC}[1;31mred{ESC}[0m {ESC}[38;2;1;2;3mx", "red x"),
        (f"{ESC}]8;;http://x{ESC}\\link{ESC}]8;;{ESC}\\ {ESC}]8;;y{BEL}too{ESC}]8;;{BEL}", "link too"),
        (f"a{ESC}]52;c;Zm9v{BEL}b{ESC}]0;title{ESC}\\c{ESC}P1$tx{ESC}\\d{ESC}_apc{ESC}\\e", "abcde"),
        (f"{ESC}[2J{ESC}[Hnothing is cleared {ESC}[?1049l{ESC}(B{ESC}7", "nothing is cleared "),
        (f"kept{ESC}[2Jtoo", "kepttoo"),
        (f"{ESC}]52;it never ends", "\\x1b]52;it never ends"),
        ("\x9b31m and \x85", "\\x9b31m and \\x85"),
        ("  0%\r 50%\r100%", "100%"),
        ("a long one\rshort", "shortg one"),
        (f"a long one\r{ESC}[Kshort", "short"),
        ("gone\r         \rmessage", "message"),
        ("windows\r", "windows"),
        ("10%\b\b\b99%", "99%"),
        (f"abc{ESC}[2Dx{ESC}[10Gy", "axc      y"),
        ("a\tb", "a       b"),
        ("\0" * 2000 + "x\0y", "[2,000 NUL bytes]x\\x00y"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("学習 🚂 e\u0301", "学習 🚂 e\u0301"),
        (f"[default1]:{ESC}[31m 1%\r 2%", "[default1]: 2%"),
        (f"0: {ESC}[32m 1%\r 2%", "0:  2%"),
    ],
)
def test_one_line_as_it_is_on_the_screen(line: str, shown: str) -> None:
    assert plain(line) == shown


@given(st.text(st.sampled_from("\x1b[]PX^_()0123456789;?ABCDEFGHJKMhlm\\\r\b\x07\x9b\x9d\0aé学\u202e"), max_size=60))
def test_no_control_code_is_ever_left(line: str) -> None:
    assert not CODES & set(plain(line)) and not CODES & set("".join(row.text for row in fold([(0, line)] * 3)))


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=30), max_size=8))
def test_offsets_stay_in_order(lines: list[str]) -> None:
    offsets = [row.offset for row in fold(list(enumerate(lines)))]
    assert offsets == sorted(offsets)


def test_a_hostile_line_takes_no_time() -> None:
    for part in (f"{ESC}]", f"{ESC}[", f"{ESC}P", "\r", f"{ESC}[9999C", f"{ESC}[A", "[default0]:", "9%|", " 1it [00:0"):
        fold([(0, part * 20_000)])


def shown(*lines: str) -> list[str]:
    return [row.text for row in fold(list(enumerate(lines)))]


def test_nested_bars_that_move_the_cursor_up_leave_their_last_state() -> None:
    """As tqdm writes two bars, one below the other, and a line in between."""
    assert shown(
        "start",
        "\router:   0%|          | 0/2",
        f"\rinner:   0%|          | 0/3{ESC}[A",
        f"\rinner:  33%|###       | 1/3{ESC}[A",
        f"\rinner: 100%|##########| 3/3{ESC}[A\router:  50%|#####     | 1/2",
        f"\rinner: 100%|##########| 3/3{ESC}[A\router: 100%|##########| 2/2",
        "",
        "done",
    ) == ["start", "outer: 100%|##########| 2/2", "inner: 100%|##########| 3/3", "done"]


def test_a_real_rich_progress_leaves_its_last_state_and_every_line_that_was_printed() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=60, legacy_windows=False)
    with Progress(console=console, auto_refresh=False) as progress:
        tasks = [progress.add_task(f"task {number}", total=20) for number in range(3)]
        for step in range(20):
            for task in tasks:
                progress.advance(task)
            progress.refresh()
            if step % 10 == 0:
                progress.console.print(f"a real line at {step}")
    print("after", file=out)
    lines = [line.rstrip() for line in shown(*out.getvalue().split("\n")) if line.strip()]
    assert [line for line in lines if "real" in line] == ["a real line at 0", "a real line at 10"]
    assert len(lines) == 6 and lines[-1] == "after"
    assert all(line.startswith(f"task {number}") and "100%" in line for number, line in enumerate(lines[2:5]))


def bar(rank: int, percent: int, name: str = "epoch 1") -> str:
    return f"[default{rank}]:{name}: {percent:3}%|{'█' * (percent // 10):10}| {percent}/100 [00:05<00:05, 2.00it/s]"


def test_bars_that_torchrun_copied_line_by_line_leave_one_line_a_rank() -> None:
    states = [bar(rank, percent) for percent in range(0, 101, 10) for rank in (0, 1)]
    assert shown("[default0]:", *states, "[default0]:loss 2.1") == [bar(0, 100), bar(1, 100), "[default0]:loss 2.1"]


def test_a_bar_that_begins_again_keeps_the_end_of_the_one_before() -> None:
    assert shown(bar(0, 50), bar(0, 100), bar(0, 0), bar(0, 10)) == [bar(0, 100), bar(0, 10)]
    assert shown(bar(0, 100, "epoch 1"), bar(0, 5, "epoch 2")) == [bar(0, 100, "epoch 1"), bar(0, 5, "epoch 2")]
    assert shown(bar(0, 50), "[default0]:a line", bar(0, 60)) == [bar(0, 50), "[default0]:a line", bar(0, 60)]


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (" 10%|█         | 1/10 [00:01<00:09,  1.00s/it]", ("", 10.0)),
        ("Train: 100%|██████████| 1.2k/1.2k [1:00:05<00:00, 2.0it/s, loss=0.1]", ("Train:", 100.0)),
        ("1234it [00:05, 240.00it/s]", ("", 1234.0)),
        ("rows: 1.5kit [00:05, 240.00it/s]", ("rows", 1500.0)),
        ("epoch 1 loss 2.5 accuracy 50%", None),
        ("[12:30] 50% done", None),
        ("a | b | 10/20 [x]", None),
    ],
)
def test_what_is_a_bar(line: str, found: tuple[str, float] | None) -> None:
    assert bar_of(line) == found


def test_a_cursor_that_moves_up_over_another_ranks_lines_hides_none_of_them() -> None:
    assert shown("[default0]:a", "[default1]:b", f"[default0]:{ESC}[A{ESC}[2Kc", "[default1]:d") == [
        "[default1]:b", "[default0]:c", "[default1]:d",
    ]  # fmt: skip


def test_the_row_at_an_offset() -> None:
    rows = [Row(0, "a"), Row(10, "b"), Row(10, "c"), Row(30, "d")]
    assert [row_at(rows, offset) for offset in (0, 5, 10, 29, 99)] == [0, 0, 2, 2, 3]
