"""The small documents in a run's directory: who started it, how it ended, what it was resumed from."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from lavender_tui.launch import living
from lavender_tui.launch.files import LARGEST_PLAN_BYTES, read_document
from lavender_tui.launch.record import LaunchRecord, end_facts, examine_launch
from lavender_tui.launch.requests import examine_request
from lavender_tui.model.ending import StopRequest
from lavender_tui.model.run import EndFacts, Lineage, Planned
from lavender_tui.model.text import clean
from lavender_tui.watch.index import Index
from lavender_tui.watch.listing import Listing


@dataclass(frozen=True, slots=True)
class Papers:
    """What a run's documents say; None where there is no such document or it can't be used."""

    launch: LaunchRecord | None = None
    has_launch: bool = False
    copied_from: str | None = None  # the run whose launch record this is, where the directory is a copy of it
    private_to: str | None = None  # the user who alone may read the launch record
    end: EndFacts | None = None
    resumed_from: Lineage | None = None
    request: StopRequest | None = None
    planned_world_size: int | None = None
    planned: Planned | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Plan:
    lineage: Lineage | None = None
    world_size: int | None = None
    planned: Planned | None = None
    warning: str | None = None


def read_papers(listing: Listing, index: Index) -> Papers:
    """Read them through the index, so that unchanged ones aren't opened again. Never raises."""
    documents = listing.documents
    if not documents:
        return Papers()
    launch, reason, copied_from = None, None, None
    if facts := documents.get("launch.json"):
        path = os.path.join(listing.path, "launch.json")
        launch, reason, copied_from = index.document(path, facts, lambda: _launch(listing.path))  # type: ignore[misc]
    end = _end(listing, index)
    plan = _plan(listing, index)
    request, unread = None, None
    if facts := documents.get("request.json"):
        path = os.path.join(listing.path, "request.json")
        request, unread = index.document(path, facts, lambda: examine_request(listing.path))  # type: ignore[misc]
    warnings = _said(
        (f"launch.json {reason}" if reason else None, plan.warning, f"request.json {unread}" if unread else None)
    )
    return Papers(
        launch=launch,
        has_launch="launch.json" in documents,
        copied_from=copied_from,
        private_to=living.private_to(listing.path) if reason else None,
        end=end,
        resumed_from=plan.lineage or (launch.resumed_from if launch else None),
        request=request if end is None else None,
        planned_world_size=plan.world_size,
        planned=plan.planned,
        warnings=warnings,
    )


def _launch(run_dir: str) -> tuple[LaunchRecord | None, str | None, str | None]:
    """(record, why it can't be used, whose it is). A copy carries the pids of the run that it was copied from."""
    record, reason = examine_launch(run_dir)
    if record is None or living.belongs_here(record, run_dir):
        return record, reason, None
    return None, None, clean(os.path.basename(record.run_dir), 80)


def _end(listing: Listing, index: Index) -> EndFacts | None:
    present = [listing.documents[name] for name in ("stop.json", "exit.json") if name in listing.documents]
    if not present:
        return None
    # Each is written once, so that what is there names the state; the newer one's facts stand for both.
    newest = max(present, key=lambda facts: (facts.mtime_ns, facts.inode))
    path = os.path.join(listing.path, f"{len(present)} of stop.json and exit.json")
    return index.document(path, newest, lambda: end_facts(listing.path))  # type: ignore[return-value]


def _plan(listing: Listing, index: Index) -> _Plan:
    facts = listing.documents.get("resume.json")
    if facts is None:
        return _Plan()
    path = os.path.join(listing.path, "resume.json")
    return index.document(path, facts, lambda: _read_plan(path))  # type: ignore[return-value]


def _read_plan(path: str) -> _Plan:
    document, reason = read_document(path, most_bytes=LARGEST_PLAN_BYTES)
    if document is None:
        return _Plan(warning=f"resume.json {reason}" if reason else None)
    source, sizes = document.get("source"), document.get("world_size")
    run = source.get("run") if isinstance(source, dict) else None
    checkpoint = source.get("checkpoint") if isinstance(source, dict) else None
    following = sizes.get("next") if isinstance(sizes, dict) else None
    return _Plan(
        lineage=Lineage(run=run, checkpoint=checkpoint if isinstance(checkpoint, str) else None)
        if isinstance(run, str)
        else None,
        world_size=_count(following),
        planned=_planned(document.get("start"), source),
    )


def _planned(start: object, source: object) -> Planned | None:
    if not isinstance(start, dict) or not isinstance(source, dict):
        return None
    new_stage = start.get("stage")
    stage = new_stage or source.get("stage")
    return Planned(
        stage=stage if isinstance(stage, str) else None,
        epoch=_count(start.get("epoch")),
        epochs=_count(source.get("epochs")) if new_stage is None else None,
    )


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 < value < 1 << 20 else None


def _said(warnings: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(warning for warning in warnings if warning)
