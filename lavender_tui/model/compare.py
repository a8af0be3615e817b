"""Runs side by side: what differs in their settings, versions and commands, and what they logged at the same steps.

Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter

from lavender_tui.model import command_line, text
from lavender_tui.model.run import Run
from lavender_tui.model.series import finite
from lavender_tui.model.settings import settings_of

LOSS, DELETED = "loss", "deleted"
STEPS = 8  # at how many common steps a curve is compared
Points = Sequence[tuple[float, float]]
Metrics = Mapping[str, Points]  # what one run logged: metric → (step, value) points in order of steps


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


def compare(
    runs: Sequence[Run], metrics: Sequence[Metrics] = (), metric: str = LOSS, *, gone: Container[str] = ()
) -> tuple[Section, ...]:
    """Every section that has something to say, for two runs or more.

    `metrics`: all that each of them logged, where it was read; `metric`: the one that is told at several steps.
    `gone`: the keys of runs that are no longer there.
    """
    sections = (
        _facts(runs, gone),
        _at_the_same_steps(runs, metrics, metric),
        _at_one_step(runs, metrics),
        _differences("settings", [settings_of(run) for run in runs]),
        _differences("versions", [_versions(run) for run in runs]),
        _differences("data", [_data(run) for run in runs]),
        Section(title="command", lines=(Line(name="command", values=tuple(_command(run) for run in runs)),)),
    )
    return tuple(section for section in sections if section.lines or section.same)


def curves_of(runs: Sequence[Run], metrics: Sequence[Metrics], metric: str) -> list[Points]:
    """A run's points of that metric, () where it has none. A loss may come from the saves, so it needs no log."""
    if metric == LOSS:
        return [finite((one.step, one.loss) for one in run.losses) for run in runs]
    return [finite(one.get(metric, ())) for one in metrics] or [() for _ in runs]


def metric_names(metrics: Sequence[Metrics]) -> list[str]:
    """The loss, and all else that any of the runs logged, in its order."""
    return list(dict.fromkeys([LOSS, *(name for one in metrics for name in one)]))


_FACTS: tuple[tuple[str, Callable[[Run], str]], ...] = (
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


def _facts(runs: Sequence[Run], gone: Container[str]) -> Section:
    states = tuple(DELETED if run.key in gone else run.state.value for run in runs)
    lines = [Line(name="state", values=states)]
    lines += [Line(name=name, values=tuple(_known(read(run)) for run in runs)) for name, read in _FACTS]
    return Section(title="runs", lines=tuple(line for line in lines if any(line.values)))


def _known(words: str) -> str:
    return "" if words in (text.NONE, f"{text.NONE}/{text.NONE}") else words


def _lowest(run: Run) -> str:
    known = [point.loss for point in run.losses if point.loss is not None]
    return text.loss(min(known)) if known else ""


def _at_the_same_steps(runs: Sequence[Run], metrics: Sequence[Metrics], metric: str) -> Section:
    """What each had at steps that all who have any of it reached, the last common one included."""
    curves = curves_of(runs, metrics, metric)
    units = {run.losses_by if metric == LOSS else "step" for run, curve in zip(runs, curves, strict=True) if curve}
    unit = min(units, default="step")
    title = f"{text.clean(metric, 40)} at the same {unit}"
    there = [curve for curve in curves if curve]
    if len(units) > 1 or len(there) < 2:
        return Section(title=title, lines=())
    lines = [
        Line(name=f"{unit} {step:,}", values=tuple(_at(metric, curve, step) for curve in curves))
        for step in common_steps(there)
    ]
    return Section(title=title, lines=tuple(lines))


def _at_one_step(runs: Sequence[Run], metrics: Sequence[Metrics]) -> Section:
    """What they logged besides the loss, at the last step that each of them reached that logged anything."""
    ends = [max((points[-1][0] for points in one.values() if points), default=None) for one in metrics]
    reached = [end for end in ends if end is not None]
    if not reached:
        return Section(title="metrics", lines=())
    step = min(reached)
    lines = []
    for name in metric_names(metrics):
        values = tuple(_at(name, one.get(name, ()), step) for one in metrics)
        if any(values) and name != LOSS:
            lines.append(Line(name=text.clean(name, 80), values=values))
    return Section(title=f"metrics at step {step:,.0f}", lines=tuple(lines))


def _at(metric: str, curve: Points, step: float) -> str:
    """The value there in words; "" where there is no curve."""
    value = value_at(curve, step)
    if metric == LOSS and curve:
        return text.loss(value)
    return "" if value is None else f"{value:.6g}"


def common_steps(curves: Sequence[Points], most: int = STEPS) -> list[int]:
    """Up to `most` steps, evenly spread over the span that every curve covers, both ends included; none where no step
    is covered by all."""
    first, last = math.ceil(max(curve[0][0] for curve in curves)), math.floor(min(curve[-1][0] for curve in curves))
    if first > last:
        return []
    count = min(most, last - first + 1)
    if count == 1:
        return [last]
    return sorted({first + (last - first) * at // (count - 1) for at in range(count)})


def value_at(curve: Points, step: float) -> float | None:
    """The last logged value up to that step."""
    at = bisect_right(curve, step, key=itemgetter(0))
    return curve[at - 1][1] if at else None


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
