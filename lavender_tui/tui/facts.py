"""What is known of a run, as lines: where it is, what ran, with what; and how that differs from where it came from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from rich.cells import cell_len

from lavender_tui.model import command_line, text
from lavender_tui.model.run import Run
from lavender_tui.model.settings import settings_of
from lavender_tui.tui import ages
from lavender_tui.tui.proof_words import evidence_lines
from lavender_tui.tui.usage_words import left_over_words, processes_words, usage_rows
from lavender_tui.tui.widgets.inks import Span, shown_path

Line = list[Span]
_LABEL = 13
_LABEL_MOST = 28  # cells of a column of names: a longer name pushes its value to the right
_MOST = 400  # settings that are listed


def fact_lines(run: Run, now: float) -> list[Line]:
    """What is known of the run, a line each; warnings first."""
    lines: list[Line] = [[("! ", "warn"), (text.clean(one, 300), "")] for one in run.warnings]
    facts = [
        ("path", shown_path(run.path, home=os.path.expanduser("~"))),
        ("format", text.clean(run.format, 40)),
        ("started", ages.since(run.started_at, now)),
        ("last save", ages.since(ages.last_save(run), now)),
        ("saves every", _interval(run.save_interval_seconds)),
        ("world_size", text.count(run.world_size)),
        ("processes", processes_words(run.processes)),
        ("left over", left_over_words(run)),
        *usage_rows(run),
        ("host", text.clean(run.host, 60) if run.host else text.NONE),
        ("resumed from", _source(run)),
        ("command", command_line.beginning(run.launched_command, 600) if run.launched_command else text.NONE),
    ]
    lines += [
        [(f"{label:<{_LABEL}}", "quiet"), (words, "")]
        for label, words in facts
        if words != text.NONE or label == "saves every"
    ]
    return lines + evidence_lines(run)


def _interval(seconds: float | None) -> str:
    """Files that were copied, or saved as fast as a disk writes, tell no interval."""
    return text.NONE if seconds is None or seconds < 1 else text.duration(seconds)


def _source(run: Run) -> str:
    if run.resumed_from is None:
        return text.NONE
    name = run.resumed_from.run.rstrip("/").rsplit("/", 1)[-1]
    checkpoint = run.resumed_from.checkpoint
    return text.clean(name, 80) + (f", {text.clean(checkpoint.rsplit('/', 1)[-1], 80)}" if checkpoint else "")


def settings_lines(run: Run, source: Run | None, wanted: str = "") -> list[Line]:
    """Versions, then every setting whose name or value has `wanted` in it, then what differs from the source."""
    return [*_versions(run), *_settings(run, wanted), *_differences(run, source)]


def _versions(run: Run) -> list[Line]:
    versions = (run.newest.versions if run.newest is not None else None) or {}
    if not versions:
        return []
    return [[], [("versions", "title")], *_pairs({name: text.value(value) for name, value in versions.items()})]


def _settings(run: Run, wanted: str) -> list[Line]:
    settings = settings_of(run)
    folded = wanted.lower()
    found = {name: value for name, value in settings.items() if folded in f"{name} {value}".lower()}
    if not settings:
        return []
    shown = f"{len(found):,} of {len(settings):,}" if wanted else f"{len(settings):,}"
    head: Line = [("settings", "title"), (f"   {shown}", "quiet")]
    if wanted:
        head.append((f"   with {text.clean(wanted, 40)}", "accent"))
    return [[], head, *_pairs(dict(list(found.items())[:_MOST]))]


def _differences(run: Run, source: Run | None) -> list[Line]:
    if source is None:
        return []
    lines = [
        *_different(settings_of(source), settings_of(run)),
        *_different(_plain(source), _plain(run)),
    ]
    head: Line = [("differs from ", "title"), (text.clean(source.name, 60), "quiet")]
    return [[], head, *(lines or [[("in no setting and no version", "quiet")]])]


def _plain(run: Run) -> dict[str, str]:
    """What else is worth comparing."""
    newest = run.newest
    versions = (newest.versions if newest is not None else None) or {}
    found = {name: text.value(value) for name, value in versions.items()}
    found["world_size"] = text.count(run.world_size)
    found["global batch"] = text.count(newest.global_batch) if newest is not None else text.NONE
    found["host"] = run.host or text.NONE
    return found


def _different(before: Mapping[str, str], after: Mapping[str, str]) -> list[Line]:
    names = [name for name in after if after[name] not in (before.get(name, text.NONE), text.NONE)]
    label = _labels(names)
    lines: list[Line] = []
    for name in names:
        lines.append(
            [(label(name), "quiet"), (text.clean(before.get(name, text.NONE), 120), "faint"), (" → ", "quiet")]
        )
        lines[-1].append((text.clean(after[name], 120), "strong"))
    return lines


def _pairs(values: Mapping[str, str]) -> list[Line]:
    """Names and values in two columns."""
    label = _labels(values)
    return [[(label(name), "quiet"), (text.clean(value, 300), "")] for name, value in values.items()]


def _labels(names: Iterable[str]) -> Callable[[str], str]:
    """What writes a name of these as wide as the widest, so that the values stand below one another."""
    widest = max((cell_len(text.clean(name, 60)) for name in names), default=0)
    width = min(max(_LABEL, widest + 1), _LABEL_MOST + 1)
    return lambda name: (shown := text.clean(name, 60)) + " " * max(1, width - cell_len(shown))
