"""From rank states on disk to a resumed training: choose, gather, check, propose, merge, launch.

The names are resolved when first used, so that asking for one costs only what it needs. No submodule has the name of
a function: importing it would put the module in the place of the function.
"""

from __future__ import annotations

from importlib import import_module

_HOMES = {
    "Launched": "request",
    "Options": "request",
    "Prepared": "request",
    "Target": "request",
    "Child": "child",
    "carry_out": "carrying_out",
    "examine": "examining",
    "examined": "examining",
    "is_examined_by_default": "examining",
    "look_at_table": "looking",
    "merge_files": "merging",
    "propose": "proposing",
    "verified": "looking",
    "warm_child": "carrying_out",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lavender_tui.resume.carrying_out import carry_out, warm_child
    from lavender_tui.resume.child import Child
    from lavender_tui.resume.examining import examine, examined, is_examined_by_default
    from lavender_tui.resume.looking import look_at_table, verified
    from lavender_tui.resume.merging import merge_files
    from lavender_tui.resume.proposing import propose
    from lavender_tui.resume.request import Launched, Options, Prepared, Target

__all__ = [
    "Child", "Launched", "Options", "Prepared", "Target", "carry_out", "examine", "examined", "is_examined_by_default",
    "look_at_table", "merge_files", "propose", "verified", "warm_child",
]  # fmt: skip


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
