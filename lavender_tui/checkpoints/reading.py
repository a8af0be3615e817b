"""One checkpoint file as a record: whatever lies at the path, there is an answer, and never an exception."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lavender_tui.checkpoints.collector import collector_paused
from lavender_tui.checkpoints.container import Tree, read_open
from lavender_tui.checkpoints.files import OpenFile, file_facts
from lavender_tui.checkpoints.formats import Content, Fields, read_fields
from lavender_tui.checkpoints.limits import CutShort, Damaged, Foreign, Limits, OverLimit
from lavender_tui.checkpoints.names import is_one_of_ranks
from lavender_tui.checkpoints.parts import family_of, likely_family
from lavender_tui.checkpoints.refused import refused_globals
from lavender_tui.checkpoints.states import states_of
from lavender_tui.checkpoints.weights import count_elements, tensors_in
from lavender_tui.checkpoints.what import ALL_ZEROS
from lavender_tui.checkpoints.words import key_tree, to_plain, words
from lavender_tui.errors import LavenderError, UnreadableFile
from lavender_tui.model.checkpoint import Checkpoint, FileFacts, RankStatesSummary, Wholeness, parse_name
from lavender_tui.model.data_rows import table_rows
from lavender_tui.model.rank_state import summarise

WRITING_SECONDS = 5.0  # a file that is not whole and was written to so recently is still being written
_NO_FACTS = FileFacts(dev=0, inode=0, size_bytes=0, mtime_ns=0, ctime_ns=0)
_SMALL = Limits(max_nodes=10_000)
_BY_ENDING = {".ckpt": "lightning"}


def read_checkpoint(
    path: str,
    *,
    known: FileFacts | None = None,
    now: float | None = None,
    names: Iterable[str] | None = None,
    limits: Limits | None = None,
) -> Checkpoint:
    """The checkpoint at `path`, as far as it can be read. Never raises, whatever lies there.

    `known`: what stat said of it earlier (a file that grew since is being written). `now`: unix seconds, for telling a
    file that is being written from one that was cut. `names`: what its directory holds, if known, so that it is not
    listed again for its rank files. A file that can't be read keeps its row: stage and save_count from its name.
    """
    with collector_paused():
        here = None if names is None else tuple(names)
        return _Reading(path, known, time.time() if now is None else now).record(here, limits or Limits())


@dataclass(slots=True)
class _Reading:
    path: str
    known: FileFacts | None
    now: float
    facts: FileFacts = _NO_FACTS
    has_changed: bool = False

    def record(self, names: Iterable[str] | None, limits: Limits) -> Checkpoint:
        try:
            return self.with_content(self.tree(limits), names, limits)
        except (LavenderError, OSError) as error:
            return self.without_content(error)
        except (MemoryError, RecursionError):
            return self.without_content(UnreadableFile("reading it takes more memory than there is"))

    def tree(self, limits: Limits) -> Tree:
        with OpenFile(self.path) as file:
            self.facts = file.facts
            try:
                return read_open(file, limits)
            finally:
                self.has_changed = file.has_changed()

    # ---- whole, being written or cut

    def is_being_written(self) -> bool:
        """It changed while it was read, it grew since it was last seen, or it was written to a moment ago."""
        return self.has_changed or self._has_grown() or abs(self.now - self.facts.mtime_ns / 1e9) <= WRITING_SECONDS

    def _has_grown(self) -> bool:
        facts, known = self.facts, self.known
        if known is None or (known.dev, known.inode) != (facts.dev, facts.inode):
            return False
        return (known.size_bytes, known.mtime_ns) != (facts.size_bytes, facts.mtime_ns)

    def judge(self, wholeness: Wholeness, reason: str | None) -> tuple[Wholeness, str | None]:
        unfinished = wholeness is Wholeness.CUT or reason == ALL_ZEROS
        if unfinished and self.is_being_written():
            return Wholeness.WRITING, f"it is being written ({self.facts.size_bytes:,} bytes so far)"
        if self.has_changed and wholeness is Wholeness.DAMAGED:
            return Wholeness.WRITING, "it was written to while it was read"
        return wholeness, reason

    # ---- records

    def without_content(self, error: Exception) -> Checkpoint:
        """The row that is left: stage and count from the name, and why."""
        if self.facts is _NO_FACTS:
            self.facts = _facts_or_none(self.path) or self.known or _NO_FACTS
        what = error.what if isinstance(error, LavenderError) else str(error)
        wholeness = getattr(error, "wholeness", Wholeness.UNREADABLE)
        wholeness, reason = self.judge(wholeness, what)
        name = os.path.basename(self.path)
        stage, count = parse_name(name)
        format = error.kind if isinstance(error, Foreign) else _format_of_name(self.path)
        family = likely_family(name) if isinstance(error, CutShort | Damaged | OverLimit) else None
        if family is not None:  # cut or whole, it would be none
            format, wholeness, reason = family.format, Wholeness.FOREIGN, family.reason
        return Checkpoint(
            path=self.path,
            format=format,
            facts=self.facts,
            wholeness=wholeness,
            reason=reason,
            name_stage=stage,
            name_save_count=count,
        )

    def with_content(self, tree: Tree, names: Iterable[str] | None, limits: Limits) -> Checkpoint:
        name = os.path.basename(self.path)
        stage, count = parse_name(name)
        content = Content(value=tree.value, name=name, container=tree.container)
        fields = read_fields(content)
        wholeness, reason = self.judge(tree.wholeness, tree.reason)
        refused = refused_globals(tree.globals)
        model = tensors_in(fields.model)
        shared = is_one_of_ranks(self.path, names)
        family = family_of(content, fields.format, has_model=bool(model), is_one_of_ranks=shared)
        if family is not None:
            fields.format, wholeness, reason = family.format, Wholeness.FOREIGN, family.reason
        parameters, odd = count_elements(model)
        data, versions = _plain_dict(fields, "data"), _plain_dict(fields, "versions")
        if data and data.get("num_rows") is not None and table_rows(data) is None:
            fields.warn(f"data.num_rows is {words(data['num_rows'], 60)}, which is no number of rows")
        _warn(fields, refused, odd)
        return Checkpoint(
            path=self.path,
            facts=self.facts,
            wholeness=wholeness,
            reason=reason,
            name_stage=stage,
            name_save_count=count,
            tensors=len(tree.tensors),
            parameters=parameters,
            has_model=bool(model),
            rank_states=self._rank_states(tree, fields, names, limits),
            data=data,
            versions=versions,
            keys=key_tree(tree.value) if type(tree.value) is dict else {"content": words(tree.value)},
            refused_globals=refused,
            warnings=tuple(fields.warnings),
            **{name: getattr(fields, name) for name in _COPIED},
        )

    def _rank_states(
        self, tree: Tree, fields: Fields, names: Iterable[str] | None, limits: Limits
    ) -> RankStatesSummary:
        try:
            found, problems = states_of(self.path, tree, names=names, limits=limits)
        except UnreadableFile as error:
            found, problems = [], [(self.path, error.what)]
        if not found and not problems:
            return _none_or_empty(tree, fields)
        summary = summarise(found, world_size=fields.world_size)
        if not problems:
            return summary
        unread = tuple(f"{words(os.path.basename(path), 120)}: {what}" for path, what in problems)
        values = {name: getattr(summary, name) for name in RankStatesSummary.__slots__}
        return RankStatesSummary(**{**values, "complete": False, "problems": (*summary.problems, *unread)})


def _none_or_empty(tree: Tree, fields: Fields) -> RankStatesSummary:
    """A list without a single state is no absence: something gathered nothing."""
    held = tree.value.get("dataset") if type(tree.value) is dict else None
    if type(held) in (list, tuple) and not held:
        return RankStatesSummary(expected=fields.world_size, problems=("its list of rank states is empty",))
    return RankStatesSummary()


_COPIED = (
    "format", "stage", "save_count", "epoch", "epochs", "epoch_complete", "step", "loss", "loss_text", "loss_key", "lr",
    "remaining_hours", "world_size", "global_batch", "num_workers", "has_optimizer", "has_scheduler", "has_rng",
)  # fmt: skip


def _warn(fields: Fields, refused: tuple[str, ...], odd: int) -> None:
    if refused:
        shown = ", ".join(words(name, 80) for name in refused[:4]) + (", …" if len(refused) > 4 else "")
        fields.warn(f"it may be fine, but it is not plain data: torch's safe loading refuses {shown}")
    if odd:
        fields.warn(f"{odd} of its tensors claim more elements than they have")


def _plain_dict(fields: Fields, name: str) -> dict[str, Any] | None:
    value = getattr(fields, name)
    if type(value) is not dict:
        return None
    try:
        return to_plain(value, _SMALL)
    except OverLimit:
        fields.warn(f"its {name} record is far too large to be one")
        return None


def _facts_or_none(path: str) -> FileFacts | None:
    try:
        return file_facts(path)
    except (OSError, ValueError):
        return None


def _format_of_name(path: str) -> str:
    """The format as far as a name tells it, for a file that can't be read."""
    name = os.path.basename(path)
    if parse_name(name)[0] is not None:
        return "lavender"
    return _BY_ENDING.get(os.path.splitext(name)[1], "unknown")
