"""What in a filter can match no run at all: a column that isn't there, a state that no run can be in. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from lavender_tui.model import query as queries
from lavender_tui.model.run import Run, RunState
from lavender_tui.model.settings import settings_of
from lavender_tui.model.text import clean

_LIKENESS = 0.6
_SPACED = re.compile(rf"(?:^|\s)!?({queries.NAME})(\s*)({queries.SIGN})(\s*)([^\s|]+)")
_MOST_RUNS = 500  # whose settings are looked through for a name


def fault_of(query: str, runs: Sequence[Run]) -> str | None:
    """ "there is no column stat (did you mean state?)"; None where nothing is wrong with the words themselves.

    To be asked where no run matches: a name that no run has as a setting is taken for a mistake only then.
    """
    for group in queries.terms(query):
        for term in group:
            if term["field"] and term["value"] and (fault := _fault(term, runs)):
                return fault
    return _spaced(query)


def _spaced(query: str) -> str | None:
    """ "loss < 2" are three words."""
    for found in _SPACED.finditer(query):
        name, before, sign, after, wanted = found.groups()
        if before or after:
            return f"type {clean(name, 40)}{sign}{clean(wanted, 40)}, with no space around {sign}"
    return None


def _fault(term: re.Match[str], runs: Sequence[Run]) -> str | None:
    name, operator, wanted = term["field"], term["op"], term["value"].strip('"')
    field = queries.field_named(name)
    if field is None:
        return _no_column(name, runs)
    if field.name == "state" and operator in (":", "=", "!="):
        return _no_state(wanted, is_whole=operator != ":")
    if operator in ("<", "<=", ">", ">=") and queries.number_of(wanted) is None:
        asked = f"{clean(name, 40)}{operator}"
        such = " or ".join(asked + one for one in field.examples)
        return f"{asked} wants {field.kind}, such as {such}: {clean(wanted, 40)} is none"
    return None


def _no_column(name: str, runs: Sequence[Run]) -> str | None:
    settings = {one.lower().lstrip("-"): one for run in runs[:_MOST_RUNS] for one in settings_of(run)}
    if name.lower().lstrip("-") in settings or len(runs) > _MOST_RUNS:
        return None
    columns = [one for field in queries.FIELDS for one in (field.name, *field.names)]
    near = get_close_matches(name.lower(), [*columns, *settings], n=1, cutoff=_LIKENESS)
    meant = f" (did you mean {clean(near[0], 40)}?)" if near else ", and no run has such a setting"
    return f"there is no column {clean(name, 40)}{meant}"


def _no_state(wanted: str, *, is_whole: bool) -> str | None:
    states = [state.value for state in RunState]
    folded = wanted.lower()
    if any(folded == state if is_whole else folded in state for state in states):
        return None
    if "|" in wanted:
        either = " | ".join(f"state:{clean(one, 20)}" for one in wanted.split("|")[:3])
        return f"| stands between whole terms: {either}"
    return f"there is no state {clean(wanted, 40)}: {', '.join(states)}"
