"""Runs side by side: what differs in their settings, versions and commands, and their loss at the same steps. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lavender_tui.model import command_line, text
from lavender_tui.model.run import LossPoint, Run
from lavender_tui.model.settings import settings_of

STEPS = 8  # at how many common steps the losses are compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One thing, and what each run has there; "" where a run has nothing of the kind."""

    name: str
    values: tuple[str, ...]

    @property
    def differs(self) -> bool:
        return len(set(self.values)) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Lines of one kind. Of long kinds only what differs is listed: `same` says how many lines were alike."""

    title: str
    lines: tuple[Line, ...]
    same: int = 0


def compare(runs: Sequence[Run]) -> tuple[Section, ...]:
    """Every section that has something to say, for two runs or more."""
    sections = (
        _facts(runs),
        _losses(runs),
        _differences("settings", [settings_of(run) for run in runs]),
        _differences("versions", [_versions(run) for run in runs]),
        _differences("data", [_data(run) for run in runs]),
        Section(title="command", lines=(Line(name="command", values=tuple(_command(run) for run in runs)),)),
    )
    return tuple(section for section in sections if section.lines or section.same)


_FACTS: tuple[tuple[str, Callable[[Run], str]], ...] = (
    ("state", lambda run: run.state.value),
    ("stage", lambda run: (run.newest.stage or "") if run.newest else ""),
    ("epoch", lambda run: text.of(run.newest.epoch, run.newest.epochs) if run.newest else ""),
    ("step", lambda run: text.count(run.newest.step) if run.newest else ""),
    ("saves", lambda run: text.save_count(run.newest.save_count) if run.newest else ""),
    ("loss", lambda run: text.loss(run.newest.loss, run.newest.loss_text) if run.newest else ""),
    ("lowest loss", lambda run: _lowest(run)),
    ("lr", lambda run: f"{run.newest.lr:g}" if run.newest and run.newest.lr is not None else ""),
    ("world_size", lambda run: text.count(run.world_size)),
    ("global batch", lambda run: text.count(run.newest.global_batch) if run.newest else ""),
    ("parameters", lambda run: text.count(run.newest.parameters) if run.newest else ""),
    ("format", lambda run: run.format),
    ("host", lambda run: run.host or ""),
    ("resumed from", lambda run: run.resumed_from.run.rstrip("/").rpartition("/")[2] if run.resumed_from else ""),
)


def _facts(runs: Sequence[Run]) -> Section:
    lines = [Line(name=name, values=tuple(_known(read(run)) for run in runs)) for name, read in _FACTS]
    return Section(title="runs", lines=tuple(line for line in lines if any(line.values)))


def _known(words: str) -> str:
    return "" if words in (text.NONE, f"{text.NONE}/{text.NONE}") else words


def _lowest(run: Run) -> str:
    known = [point.loss for point in run.losses if point.loss is not None]
    return text.loss(min(known)) if known else ""


def _losses(runs: Sequence[Run]) -> Section:
    """The loss of each at steps that all of them reached, the last common one included."""
    curves = [[point for point in run.losses if point.loss is not None] for run in runs]
    if len({run.losses_by for run in runs}) > 1 or not all(curves):
        return Section(title="loss", lines=())
    unit = runs[0].losses_by
    lines = [
        Line(name=f"{unit} {step:,}", values=tuple(text.loss(loss_at(curve, step)) for curve in curves))
        for step in common_steps(curves)
    ]
    return Section(title="loss at the same " + unit, lines=tuple(lines))


def common_steps(curves: Sequence[Sequence[LossPoint]], most: int = STEPS) -> list[int]:
    """Up to `most` steps, evenly spread over the span that every curve covers, both ends included; none where no step
    is covered by all."""
    first, last = max(curve[0].step for curve in curves), min(curve[-1].step for curve in curves)
    if first > last:
        return []
    count = min(most, last - first + 1)
    if count == 1:
        return [last]
    return sorted({first + (last - first) * at // (count - 1) for at in range(count)})


def loss_at(curve: Sequence[LossPoint], step: int) -> float | None:
    """The last logged loss up to that step."""
    at = bisect_right([point.step for point in curve], step)
    return curve[at - 1].loss if at else None


def _differences(title: str, columns: Sequence[Mapping[str, str]]) -> Section:
    names = dict.fromkeys(name for column in columns for name in column)
    lines = [Line(name=name, values=tuple(column.get(name, "") for column in columns)) for name in names]
    different = tuple(line for line in lines if line.differs)
    return Section(title=title, lines=different, same=len(lines) - len(different))


def _versions(run: Run) -> Mapping[str, str]:
    return {name: text.value(value) for name, value in ((run.newest.versions if run.newest else None) or {}).items()}


def _data(run: Run) -> Mapping[str, str]:
    return {name: text.value(value) for name, value in ((run.newest.data if run.newest else None) or {}).items()}


def _command(run: Run) -> str:
    return command_line.shown(run.launched_command)
