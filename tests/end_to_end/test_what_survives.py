"""The README's table of what is killed, what survives it, and what is said then: each row really killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lavender_tui.launch import start
from lavender_tui.launch.run_dir import new_run_dir
from lavender_tui.model.kept import kept_words
from lavender_tui.model.plan import Launch
from lavender_tui.model.run import Run
from lavender_tui.watch.scan import scan
from tests.end_to_end.chaos import TRAINING, Family, kill, lives
from tests.resume.saves import save
from tests.test_readme import between


@pytest.fixture(scope="session")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("shelf")
    first = save(str(place), 1, epochs=9)
    for count in range(2, 40):
        shutil.copy(first, place / f"pretrain-10-00-00-{count:04d}.pt")
    return place


@pytest.fixture
def family(tmp_path: Path, shelf: Path, until: Callable[..., Any], nothing_survives: object) -> Iterator[Family]:
    """A run of an agent and two ranks, which has saved."""
    script = tmp_path / "train.py"
    script.write_text(TRAINING)
    made = Family(str(tmp_path / "checkpoints"), is_kept=True)
    words = (sys.executable, str(script), str(shelf))
    start(Launch(backend="local", argv=words, cwd=str(tmp_path)), new_run_dir(made.root), command=words, world_size=1)
    until(lambda: made.has_saved and len(made.ranks()) == 2, what="its first save")
    yield made
    if made.keeper is not None:
        made.keeper.kill()
        made.keeper.wait()


def keep(family: Family, until: Callable[..., Any]) -> None:
    words = ["supervise", family.root, "--backoff", "60"]
    family.keeper = subprocess.Popen(
        [sys.executable, "-m", "lavender_tui", *words], stderr=subprocess.DEVNULL, cwd=os.path.dirname(family.root)
    )
    until(lambda: shown(family).keeper is not None, what="the keeper")


def shown(family: Family) -> Run:
    return next(run for run in scan((family.root,)) if run.path == family.current[0])


def says(run: Run) -> str:
    kept = kept_words(run.keeper, time.time()) if run.keeper is not None else ""
    return f"{run.state}: {run.state_reason}; {kept}"


def agent(family: Family) -> dict[str, Any]:
    return family.current[1]["leader"]


def supervisor(family: Family) -> dict[str, Any]:
    return family.current[1]["supervisor"]


def a_rank(family: Family, until: Any) -> None:
    kill(family.ranks()[0])


def the_agent(family: Family, until: Any) -> None:
    kill(agent(family))


def the_supervisor(family: Family, until: Any) -> None:
    kill(supervisor(family))


def the_supervisor_then_the_training(family: Family, until: Any) -> None:
    kill(supervisor(family))
    until(lambda: "its supervisor is gone" in says(shown(family)), what="its supervisor's end to be seen")
    os.kill(agent(family)["pid"], signal.SIGTERM)  # ends its ranks, and by itself


def both_at_once(family: Family, until: Any) -> None:
    kill(supervisor(family))
    kill(agent(family))


def all_at_once(family: Family, until: Any) -> None:
    ranks = family.ranks()
    both_at_once(family, until)
    for rank in ranks:
        kill(rank)


def the_keeper(family: Family, until: Any) -> None:
    keep(family, until)
    assert family.keeper is not None
    family.keeper.kill()


def keeper_and_training(family: Family, until: Any) -> None:
    the_keeper(family, until)
    kill(agent(family))


ROWS: list[tuple[str, Callable[[Family, Any], None], int, bool]] = [
    # (how the row begins, the kill, how many ranks survive, does the agent?)
    ("a rank", a_rank, 0, False),
    ("torchrun's agent, or a training of one process", the_agent, 0, False),
    ("the supervisor", the_supervisor, 2, True),
    ("the supervisor, then the training", the_supervisor_then_the_training, 0, False),
    ("supervisor and agent at once", both_at_once, 2, False),
    ("all of them at once", all_at_once, 0, False),
    ("the keeper", the_keeper, 2, True),
    ("keeper and training", keeper_and_training, 0, False),
]


@pytest.mark.parametrize(("row", "strike", "ranks", "is_alive"), ROWS, ids=lambda one: getattr(one, "__name__", ""))
def test_what_the_readme_says_of_a_kill_is_so(
    family: Family, until: Any, row: str, strike: Any, ranks: int, is_alive: bool
) -> None:
    told = words_of(row)
    assert told[0] in ("running", "failed") and len(told) > 1
    strike(family, until)
    until(lambda: all(word in says(shown(family)) for word in told), 30, lambda: f"{told}: {says(shown(family))}")
    until(lambda: len(family.ranks()) == ranks, 30, f"{ranks} ranks")
    assert lives(agent(family)) == is_alive


def test_every_row_that_this_table_can_try_is_tried() -> None:
    rows = [line.split("|")[1].strip() for line in between("survives").splitlines()[2:]]
    elsewhere = {"the app, its terminal, the connection", "a resume in the middle"}  # chaos and fault injection
    assert {row for row, *_ in ROWS} == set(rows) - elsewhere


def words_of(row: str) -> list[str]:
    """What stands in backticks in the last column."""
    line = next(line for line in between("survives").splitlines() if line.startswith(f"| {row} |"))
    return [word for word in line.split("|")[3].split("`")[1::2] if word != "x"]
