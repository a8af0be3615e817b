"""The libraries and the code that the checkpoint was saved with, and those that are here now."""

from __future__ import annotations

import os
import platform
import re
import sys
from typing import Any

from lavender_tui.launch.arguments import parse
from lavender_tui.launch.code_version import CodeVersion, code_version
from lavender_tui.launch.sources import CommandSource
from lavender_tui.model import text
from lavender_tui.model.plan import Check
from lavender_tui.model.state_rules import passed, warn
from lavender_tui.resume.situation import Situation

# What another version of it costs; what isn't listed is only said.
COSTS = {
    "torch": "numbers may differ in their last bits, and an older torch may not read what a newer one saved",
    "lancedb": "the order of rows in an epoch is lancedb's own, and may be another one",
}
_PACKAGES = {"torch": "torch", "lancedb": "lancedb", "lavender_tui": "lavender-tui"}
_VERSION = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})(?:\.([0-9]{1,6}))?")
_TIMEOUT_SECONDS = 1.0


def version_checks(it: Situation) -> list[Check]:
    """() where the checkpoint says nothing of either."""
    recorded = it.checkpoint.versions or {}
    return [*_libraries(recorded), *_code(it, recorded)]


def _libraries(recorded: dict[str, Any]) -> list[Check]:
    pairs = [(name, text.value(recorded[name]), installed(name)) for name in (*_PACKAGES, "python") if name in recorded]
    if not pairs:
        return []
    other = [(name, then, here) for name, then, here in pairs if _release(then) != _release(here)]
    if not other:
        listed = ", ".join(f"{name} {text.value(then, 40)}" for name, then, _ in pairs)
        return [passed("checkpoint.versions", f"the same versions as then: {listed}")]
    what = "; ".join(_difference(*one) for one in other)
    costs = [COSTS[name] for name, then, here in other if name in COSTS and _is_far(then, here)]
    if not costs:
        return [passed("checkpoint.versions", what)]
    return [warn("checkpoint.versions", what, "; ".join(costs), "the versions of then make the same numbers as then")]


def installed(name: str) -> str:
    """The version here, "" where it isn't installed. Nothing of it is imported."""
    if name == "python":
        return platform.python_version()
    from importlib import metadata

    try:
        return metadata.version(_PACKAGES[name])
    except metadata.PackageNotFoundError:
        return ""


def _difference(name: str, then: str, here: str) -> str:
    if not here:
        return f"{name} {text.value(then, 40)} then, none here"
    old, new = _release(then), _release(here)
    word = "" if old is None or new is None else " (newer)" if new > old else " (older)"
    return f"{name} {text.value(then, 40)} then, {text.value(here, 40)}{word} here"


def _release(version: str) -> tuple[int, int, int] | None:
    """Without what stands behind it: the same torch is built for several devices ("2.6.0+cu126")."""
    match = _VERSION.match(version)
    return (int(match[1]), int(match[2]), int(match[3] or 0)) if match else None


def _is_far(then: str, here: str) -> bool:
    """Other than by a bugfix."""
    old, new = _release(then), _release(here)
    return old is None or new is None or old[:2] != new[:2]


# ---- code


def _code(it: Situation, recorded: dict[str, Any]) -> list[Check]:
    commit, changed = recorded.get("git_commit"), recorded.get("git_changed")
    if not isinstance(commit, str) or it.command is None:
        return []
    then = CodeVersion(commit=commit, changed=changed if type(changed) is int else None)
    place = _place(it.command)
    here = code_version(place, timeout_seconds=_TIMEOUT_SECONDS)
    where = text.clean(place)
    if here is None:
        what = f"the code was at commit {_short(then)}; what it is now can't be seen: no repository there"
        return [warn("checkpoint.code", what, where, "run it from the repository, to be told what changed")]
    if here.commit != then.commit:
        what = f"other code: commit {_short(then)} then, {_short(here)} now"
        remedy = f"what changed: git log {_short(then)[:12]}..{_short(here)[:12]}"
        return [warn("checkpoint.code", what, where, remedy)]
    if then.changed or here.changed:
        what = (
            f"the same commit {_short(then)}, but with uncommitted changes: {_changes(then)} then, {_changes(here)} now"
        )
        return [warn("checkpoint.code", what, where, "whether the code is the same can't be seen; look at git diff")]
    return [passed("checkpoint.code", f"the same code: commit {_short(then)}", where)]


def _place(command: CommandSource) -> str:
    """Where the training's script or module lies, else where it runs."""
    told = parse(command.argv)
    name = told.script[0] if told.script and "{" not in told.script[0] else ""
    if told.runs == "module":
        return _place_of_module(name, command, told.interpreter) or command.cwd
    path = os.path.join(command.cwd, name)
    return os.path.dirname(os.path.realpath(path)) if name and os.path.isfile(path) else command.cwd


def _place_of_module(name: str, command: CommandSource, interpreter: str | None) -> str | None:
    """Where `-m` would find it, by names alone: nothing of it is imported."""
    parts = name.split(".")
    if not all(part.isidentifier() for part in parts):
        return None
    searched = {**command.remembered, **os.environ, **command.env}.get("PYTHONPATH", "")
    roots = [command.cwd, *(os.path.join(command.cwd, one) for one in searched.split(os.pathsep) if one)]
    if interpreter is None or os.path.dirname(interpreter) in ("", os.path.dirname(sys.executable)):
        roots += _installed_in(parts[0])
    for root in roots:
        path = os.path.join(root, *parts)
        for file in (f"{path}.py", os.path.join(path, "__main__.py")):
            if os.path.isfile(file):
                return os.path.dirname(os.path.realpath(file))
    return None


def _installed_in(package: str) -> list[str]:
    """The directories that hold it among this interpreter's packages."""
    from importlib.util import find_spec

    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    places = list(spec.submodule_search_locations or ()) or ([spec.origin] if spec.origin else [])
    return [os.path.dirname(place) for place in places]


def _short(code: CodeVersion) -> str:
    return text.clean(code.commit[:12])


def _changes(code: CodeVersion) -> str:
    return "unknown" if code.changed is None else text.plural(code.changed, "file")
