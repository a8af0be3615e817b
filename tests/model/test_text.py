from __future__ import annotations

import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lavender_tui.model import text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("plain-name_1", "plain-name_1"),
        ("exp[/x]", "exp[/x]"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\nb\tc", "a\\x0ab\\x09c"),
        ("right\u202eleft", "right\\u202eleft"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("not utf8 \udcff", "not utf8 \\udcff"),
        ("日本語 ok é", "日本語 ok é"),
        ("e" + "\u0301" * 40, "e" + "\u0301" * 2),
        (7, "7"),
    ],
)
def test_clean_shows_foreign_text_as_text(raw: object, shown: str) -> None:
    assert text.clean(raw) == shown


def test_what_a_program_said_on_several_lines_is_one() -> None:
    told = "sbatch: error: Unknown host\r\n\n  sbatch: error: fetch_config \x1b[0m\n"
    assert text.one_line(told) == "sbatch: error: Unknown host / sbatch: error: fetch_config \\x1b[0m"
    assert text.one_line("a\nb\nc", 4) == "a /…" and text.one_line("\n \n") == ""


@given(st.text(), st.integers(1, 40))
def test_cleaned_text_holds_nothing_that_moves_a_terminal(raw: str, limit: int) -> None:
    shown = text.clean(raw, limit)
    assert len(shown) <= limit
    assert not any(unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") for char in shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (-3600, "in the future"),
        (0.2, "now"),
        (4, "4 s ago"),
        (240, "4 min ago"),
        (3 * 3600, "3 h ago"),
        (5 * 86400, "5 d ago"),
    ],
)
def test_age_reads_as_one_would_say_it_and_is_never_negative(seconds: float | None, shown: str) -> None:
    assert text.age(seconds) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (96_400_000, "96.4 MB"),
        (999_999, "1.0 MB"),
        (12_000_000_000, "12.0 GB"),
    ],
)
def test_size(count: int, shown: str) -> None:
    assert text.size(count) == shown


@pytest.mark.parametrize(
    ("value", "instead", "shown"),
    [
        (2.41274, None, "2.4127"),
        (None, "nan", "nan"),
        (math.inf, "inf", "inf"),
        (None, None, "–"),
        (0.0, None, "0.0000"),
        (1e-9, None, "1.000e-09"),
        (123456.0, None, "1.235e+05"),
        (512.3, None, "512.30"),
    ],
)
def test_loss(value: float | None, instead: str | None, shown: str) -> None:
    assert text.loss(value, instead) == shown


def test_times_are_iso_8601_in_utc_and_impossible_ones_are_none() -> None:
    assert text.iso(0) == "1970-01-01T00:00:00.000Z"
    assert text.iso(None) is None
    assert text.iso(1e300) is None
    assert text.iso(math.nan) is None


def test_json_is_strict_whatever_it_is_given() -> None:
    document = {"loss": math.nan, "more": [math.inf, 1.5, ("x", True)], "name\udcff": "a\udcffb\ud800", 3: None}
    read = json.loads(text.strict_json(document), parse_constant=pytest.fail)
    assert read == {"loss": None, "more": [None, 1.5, ["x", True]], "name\ufffd": "a\ufffdb\ufffd", "3": None}


def test_a_path_that_is_no_utf8_keeps_its_bytes_in_percent_encoding() -> None:
    assert text.percent_encoded("run-\udcc3(") == "run-%C3%28"
    assert text.utf8("run-\udcc3(") == "run-\ufffd("
    assert text.utf8("run-é") == "run-é"
    assert text.utf8("x\ud800y") == "x\ufffdy"  # no path has it, but text from a file may


def test_fractions_and_counts() -> None:
    assert text.of(1, 3) == "1/3"
    assert text.of(1, None) == "1/?"
    assert text.of(None, None) == "–"
    assert text.save_count(60) == "0060"
    assert text.save_count(10000) == "10000"
    assert text.count(48800) == "48,800"
    assert text.hours(0.2) == "12 min"
    assert text.hours(31.2) == "31 h"
    assert text.hours(-1) == "–"
    assert text.plural(1, "process", "processes") == "1 process"


def test_lengths_of_time_that_are_none_stay_short() -> None:
    assert (text.hours(1e300), text.duration(1e300)) == ("1e+300 h", "1e+295 d")


def test_a_length_of_time_that_grows_never_seems_to_shrink() -> None:
    lengths = {"s": 1, "min": 60, "h": 3600, "d": 86_400}
    for words in (text.age, text.coarse):
        told = [words(float(seconds)).split() for seconds in range(1, 400_000)]
        values = [int(number) * lengths[unit] for number, unit, *_ in told]
        assert values == sorted(values)
