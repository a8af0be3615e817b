"""What is asked of a log's threads while they are busy with something else: it is answered, and by the right file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.message import Message

from lavender_tui.logs.pager import Pager
from lavender_tui.logs.search import Query
from lavender_tui.tui.log_hunter import LogHunter, Order
from lavender_tui.tui.log_reader import PLACE, TAIL, LogReader
from lavender_tui.tui.messages import LogChanged, LogFound, LogRead, LogSought


@pytest.fixture
def logs(tmp_path: Path) -> list[str]:
    paths = [tmp_path / name for name in ("first.log", "second.log")]
    for path in paths:
        path.write_text("".join(f"{path.name} line {number}\n" for number in range(1, 2001)))
    return [str(path) for path in paths]


class Busy:
    """Takes what a thread posts; the first message that `is_it` is answered by `then`, before the thread goes on."""

    def __init__(self, is_it: Callable[[Message], bool], then: Callable[[], None]) -> None:
        self.messages: list[Message] = []
        self._is_it, self._then = is_it, then
        self._was_it = False

    def __call__(self, message: Message) -> bool:
        self.messages.append(message)
        if not self._was_it and self._is_it(message):
            self._was_it = True
            self._then()
        return True


def test_a_place_in_the_next_file_is_not_lost_while_a_page_of_this_one_is_read(tmp_path: Path, logs: list[str], until):
    def open_the_other() -> None:
        reader.show(logs[1], 2)
        reader.ask(2, PLACE, 5000)

    post = Busy(lambda message: isinstance(message, LogRead), open_the_other)
    reader = LogReader(str(tmp_path), post)
    reader.show(logs[0], 1)
    reader.start()

    def answers() -> list[str]:
        return [one.what for one in post.messages if isinstance(one, LogRead) and one.session == 2]

    until(lambda: PLACE in answers(), what=lambda: f"the place: {answers()}")
    reader.close()
    assert answers()[0] == TAIL


def test_a_fault_of_its_own_is_told_and_the_next_file_is_read(
    tmp_path: Path, logs: list[str], until, monkeypatch: pytest.MonkeyPatch
):
    def broken(*_: object) -> None:
        raise ValueError("no such page")

    messages: list[Message] = []
    reader = LogReader(str(tmp_path), lambda message: not messages.append(message))
    with monkeypatch.context() as patch:
        patch.setattr(Pager, "pages_before", broken)
        reader.show(logs[0], 1)
        reader.start()
        until(lambda: [one for one in messages if isinstance(one, LogChanged)], what="the fault")
    reader.show(logs[1], 2)
    until(lambda: [one for one in messages if isinstance(one, LogRead) and one.session == 2], what="the other file")
    reader.close()
    assert [one.words for one in messages if isinstance(one, LogChanged)] == ["ValueError: no such page"]


@pytest.mark.parametrize("next_one", [Order(2, line=7), Order(2, Query.of("line 1234"))], ids=["a line", "a word"])
def test_what_is_looked_for_next_is_not_lost_while_a_line_is_being_found(logs: list[str], until, next_one: Order):
    post = Busy(lambda message: isinstance(message, LogSought), lambda: hunter.look(next_one))
    hunter = LogHunter(post)
    hunter.show(logs[0], 1)
    hunter.look(Order(1, line=1500))
    hunter.start()
    until(lambda: [one for one in post.messages if isinstance(one, LogFound) and one.number == 2], what="the second")
    hunter.close()


def test_what_is_looked_for_in_a_file_that_is_gone_is_given_up(tmp_path: Path, until):
    posted: list[Message] = []
    hunter = LogHunter(lambda message: posted.append(message) is None)
    hunter.show(str(tmp_path / "gone.log"), 1)
    hunter.look(Order(1, Query.of("loss")))
    hunter.start()
    until(lambda: [one for one in posted if isinstance(one, LogSought) and one.number == 1 and one.is_over], what="it")
    hunter.close()
