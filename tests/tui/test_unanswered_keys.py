"""A key that can do nothing now, or nothing on this page, says so in one line; and the words of a key are true."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lavender_tui.launch import KILL, journal, start, stop
from lavender_tui.model.plan import Launch
from lavender_tui.tui import keys
from tests.tui.conftest import SMALL, Play, lines_of, press, text_of, until, until_shown
from tests.tui.runs import save

FAILED = "run-2026-04-24_18-53-41"
LOG = """step 1 loss 2.5
[rank0]: Traceback (most recent call last):
[rank0]:   File "train.py", line 3, in <module>
[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:525] Read error [127.0.0.1]:4242: Connection reset by peer
Traceback (most recent call last):
  File "torchrun", line 8, in <module>
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
  <NO_OTHER_FAILURES>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  rank      : 1 (local_rank: 1)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================
"""  # noqa: E501


async def _on_failed(pilot: object, root: Path) -> None:
    pilot.app.screen.go_to_run(str(root / FAILED))  # type: ignore[attr-defined]
    await until_shown(pilot, f"▌▾ {FAILED}")  # type: ignore[arg-type]


async def test_each_key_of_the_list_that_can_do_nothing_says_why(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        for key, words in (
            ("x", "nothing to stop: it is failed"),
            ("c", "mark two runs with ␣ first"),
            ("V", "type a filter with / first"),
            ("percent_sign", "a key for elsewhere: in the log"),
            ("m", "a key for elsewhere: on the sheet, in the comparison, in a run's Loss"),
            ("Y", "a key for elsewhere: in the log"),
        ):
            await press(pilot, key)
            await until_shown(pilot, words)
        await press(pilot, "space", "c")
        await until_shown(pilot, "mark one more run with ␣")


NO_TREE = "· t  no run here goes on from another one, so there is no tree"


async def test_tree_or_flat_says_where_there_is_no_tree(play: Play, one_run: Path) -> None:
    async with play(one_run, size=SMALL) as pilot:
        await press(pilot, "t")
        await until_shown(pilot, NO_TREE)
        assert not pilot.app.screen.view.is_flat


async def test_tree_or_flat_works_on_what_is_folded_and_not_on_half_a_tree(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "t")
        assert pilot.app.screen.view.is_flat
        await press(pilot, "t", "left")
        await until_shown(pilot, f"▌▸ {FAILED}")
        await press(pilot, "t")
        assert pilot.app.screen.view.is_flat
        await press(pilot, "t", "right", "slash", *"09-12", "enter", "t")  # what it goes on from isn't among these
        await until_shown(pilot, NO_TREE)


async def test_a_key_of_many_other_places_begins_with_the_point_at_80_columns(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "r")
        await until(pilot, lambda: pilot.app.screen.query("#body"), "the sheet")
        await press(pilot, "G")
        await until_shown(pilot, "· G  a key for elsewhere: in the list, on a run's page, in the log, …")
        pilot.app.remark("x", "a sentence whose point is its beginning, whatever follows then " + "and so on " * 9)
        await until_shown(pilot, "· x  a sentence whose point is its beginning, whatever follows")


async def test_each_key_of_a_page_that_can_do_nothing_says_why(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "enter", "5", "enter")
        await until_shown(pilot, "a checkpoint is opened under 2")
        await press(pilot, "o")
        await until_shown(pilot, "that is for the curve: 3")
        await press(pilot, "slash")
        await until_shown(pilot, "the settings are on the overview: 1")


@pytest.mark.parametrize("place", keys.PLACES)
def test_a_key_that_nothing_answers_is_named_with_every_place_where_it_works(place: str) -> None:
    pressed = {one for key in keys.TABLE for one in key.keys.split(",")}
    for one in pressed - {"escape"}:
        wherever = {there for key in keys.TABLE if one in key.keys.split(",") for there in key.places}
        said = keys.elsewhere(one, (place,))
        assert set(said) == (set() if wherever & {place, keys.EVERYWHERE} else wherever) and len(said) == len(set(said))


async def test_what_was_said_on_a_page_stays_there_and_is_one_line(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "c")
        await until_shown(pilot, "mark two runs with ␣ first")
        await press(pilot, "D")
        await until_shown(pilot, "of checkpoints")
        assert "mark two runs" not in text_of(pilot.app) and not pilot.app.announcements
        await press(pilot, "escape")
        await until_shown(pilot, f"▌▾ {FAILED}")
        assert "mark two runs" not in text_of(pilot.app)
        pilot.app.copy("x", "/a/directory" * 20 + "/the end")
        await until_shown(pilot, "/the end")
        assert pilot.app.screen.query_one("#announcements").size.height == 1
        pilot.app.notify("it broke", severity="error", title="A run")
        await until_shown(pilot, "it broke")
        await press(pilot, "D")
        await until_shown(pilot, "of checkpoints")
        await until_shown(pilot, "it broke")
        assert "/the end" not in text_of(pilot.app)


async def test_read_only_says_so_for_each_key_on_each_page(play: Play, root: Path) -> None:
    async with play(root, size=SMALL, readonly=True) as pilot:
        await _on_failed(pilot, root)
        for way in ((), ("enter",), ("l",), ("escape", "2", "enter"), ("escape", "escape", "D")):
            await press(pilot, *way)
            for key in ("r", "R", "x", "P", "A"):
                await press(pilot, key)
                await until_shown(pilot, f"· {key}  read-only: nothing is started")


async def test_the_cause_comes_first_and_esc_and_r_do_what_the_words_say(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(LOG)
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "l")
        await until_shown(pilot, "2 errors, first: torchrun: rank 1 failed first, killed")
        for key, words in (
            ("l", "this is the log"),
            ("enter", "a line can't be opened"),
            ("n", "search with / first"),
            ("tab", "there is no other log file"),
        ):
            await press(pilot, key)
            await until_shown(pilot, words)
        await press(pilot, "E")
        await until_shown(pilot, "rank 1 failed first")
        await press(pilot, "E")
        await until_shown(pilot, "a consequence: rank 0")
        assert "esc back" in text_of(pilot.app)
        await press(pilot, "r")
        await until_shown(pilot, "nothing happens until")
        await press(pilot, "escape")
        await until_shown(pilot, "a consequence: rank 0")
        await press(pilot, "escape")
        assert len(pilot.app.screen_stack) == 1  # with one press, as the bar says


async def test_while_a_search_stands_esc_ends_that_and_says_so(play: Play, root: Path) -> None:
    (root / FAILED / "train.log").write_text(LOG)
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "l", "slash", *"rank0", "enter")
        await until_shown(pilot, "“rank0”: match 3 of 3")
        await until_shown(pilot, "esc end search")
        await press(pilot, "escape")
        await until_shown(pilot, "esc back")


async def test_marking_moves_no_name(play: Play, root: Path) -> None:
    async with play(root, size=SMALL) as pilot:
        names = [line.find("run-") for line in lines_of(pilot.app)]
        await press(pilot, "g", "space", "space", "space")
        await until_shown(pilot, "◆run-")
        assert [line.find("run-") for line in lines_of(pilot.app)][:8] == names[:8]


async def test_the_whole_entry_of_the_history_can_be_read(play: Play, root: Path) -> None:
    why = "had to be killed: it did not end within 30 s after it was asked to, and nothing that it did since was saved"
    journal.note(str(root), "killed", run=str(root / FAILED), who="me@here", why=why)
    async with play(root, size=SMALL) as pilot:
        await _on_failed(pilot, root)
        await press(pilot, "enter", "7")
        await until(pilot, lambda: "was saved" in text_of(pilot.app), "the end of the entry, below the table")
        await press(pilot, "enter")
        await until_shown(pilot, "esc back   c copy")
        assert "by me@here" in text_of(pilot.app)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("stat:faild", "there is no column stat (did you mean state?)"),
        ("state:faild", "there is no state faild: running, stalled, finished"),
        ("loss<abc", "loss< wants a number"),
        ("state:running", "No run matches state:running"),
    ],
)
async def test_a_typo_in_the_filter_is_named(play: Play, root: Path, typed: str, words: str) -> None:
    async with play(root, size=SMALL) as pilot:
        await press(pilot, "slash", *typed)
        await until_shown(pilot, words)


@pytest.fixture
def live(root: Path) -> Iterator[str]:
    """A run that lives until it is told to end."""
    run = root / "run-2026-05-01_00-00-00"
    save(run, 3, loss=2.0, each=10)
    sleeping = (sys.executable, "-S", "-c", "import time; time.sleep(600)")
    start(Launch(backend="local", argv=sleeping, cwd=str(root)), str(run))
    yield str(run)
    stop(str(run), KILL)


@pytest.mark.long
async def test_what_still_lives_is_ended_from_the_sheet(play: Play, root: Path, live: str) -> None:
    async with play(root, size=SMALL) as pilot:
        pilot.app.screen.go_to_run(live)
        await until(
            pilot, lambda: (run := pilot.app.screen.cursor_run) and run.key == live and run.is_alive, "it lives"
        )
        await press(pilot, "r")
        await until_shown(pilot, "x stops it first", 60)
        assert "lavender-tui stop" not in text_of(pilot.app)
        await press(pilot, "x")
        await until_shown(pilot, "Stop run-2026-05-01")
