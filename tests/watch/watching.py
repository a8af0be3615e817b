"""What a watcher delivers, collected."""

from __future__ import annotations

from lavender_tui.model.run import Run
from lavender_tui.watch.observe import Snapshot
from tests.watch.saves import RUN


class Seen:
    """Collects snapshots."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def __call__(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    @property
    def last(self) -> Snapshot:
        return self.snapshots[-1] if self.snapshots else Snapshot(
            runs=(), sequence=0, mode="", notes=(), scanned_at=0.0, changed=frozenset(), is_complete=False
        )  # fmt: skip

    def run(self, name: str = RUN) -> Run | None:
        return next((run for run in self.last.runs if run.name == name), None)

    def whole(self, name: str = RUN) -> list[int | None]:
        run = self.run(name)
        return [one.save_count for one in run.checkpoints if one.is_whole] if run else []
