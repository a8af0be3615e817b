"""Who keeps a run alive, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lavender_tui.config import SuperviseSettings, load, parse_world_sizes
from lavender_tui.model.kept import KeptBy, kept_words

KEEPER = KeptBy(pid=123, host="gpu-03", tries=5, tries_used=3)


def test_who_and_how_much_is_left() -> None:
    assert kept_words(KEEPER, 0) == "kept alive by pid 123 on gpu-03 (2 of 5 tries left)"
    waits = replace(KEEPER, next_try_at=140.0)
    assert kept_words(waits, 100.0).endswith("(2 of 5 tries left; the next in 40 s)")
    assert kept_words(waits, 141.0).endswith("; the next now)")
    assert replace(KEEPER, tries_used=9).tries_left == 0


def test_a_dead_one_and_one_that_cannot_be_seen_say_so() -> None:
    assert kept_words(replace(KEEPER, is_alive=False), 0) == (
        "no longer kept alive: its keeper (pid 123 on gpu-03) is gone"
    )
    assert kept_words(replace(KEEPER, is_alive=None), 0).endswith("as far as can be seen from here")


def test_a_hostile_host_stays_one_line() -> None:
    assert "\x1b" not in kept_words(replace(KEEPER, host="a\x1b[31m\nb"), 0)


@pytest.mark.parametrize("words", ["1,x", "0", "-1", "1,,2", "9" * 20])
def test_world_sizes_are_a_list_of_numbers(words: str) -> None:
    with pytest.raises(ValueError):
        parse_world_sizes(words)
    with pytest.raises(ValueError):
        SuperviseSettings(world_sizes=words)


def test_the_settings_say_how_runs_are_kept() -> None:
    assert parse_world_sizes(" 4,1, 2,4 ") == (1, 2, 4) and parse_world_sizes("") == ()
    config, notices = load({"LAVENDER_TUI_SUPERVISE_TRIES": "7", "LAVENDER_TUI_SUPERVISE_WORLD_SIZES": "1,2"})
    assert (config.supervise.tries, config.supervise.world_sizes, notices) == (7, "1,2", ())
    config, notices = load({"LAVENDER_TUI_SUPERVISE_TRIES": "0"})
    assert config.supervise.tries == 5 and len(notices) == 1
