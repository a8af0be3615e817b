from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lavender_tui.checkpoints import remembered
from tests.resume import real_states


@pytest.fixture
def run(tmp_path: Path) -> str:
    """The directory of a run; who needs it makes it."""
    return str(tmp_path / "checkpoints" / "run-2026-04-24_18-53-41")


@pytest.fixture
def nothing_remembered(isolated_home: Path) -> None:
    """No deep look of another test is known."""
    remembered.forget_all()


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """1,000 rows, read in 8 splits."""
    return real_states.make_table(str(tmp_path_factory.mktemp("lance") / "db"))


@pytest.fixture(scope="session")
def first(table: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """4 ranks started fresh, after 24 cycles over the 8 splits."""
    return real_states.train(table, rows=48)


@pytest.fixture(scope="session")
def second(table: Any, first: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """The same ranks resumed from the merged state, 26 cycles on: what they say of others' splits is 24 cycles old."""
    from lancedb.streaming import StreamingDataset

    states, ids = real_states.train(table, rows=52, state=StreamingDataset.merge_state_dicts(first[0]))
    return states, first[1] + ids


@pytest.fixture(scope="session")
def loaded(table: Any) -> tuple[list[dict[str, Any]], list[int]]:
    """4 ranks that read through StreamingDataLoader, 24 cycles."""
    return real_states.train_by_loader(table, 6)
