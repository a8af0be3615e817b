"""Starting, stopping and recording training processes.

The public names are resolved when first used: the supervisor and the training library import this package for one small
module of it, and must not pay for the rest.
"""

from __future__ import annotations

from importlib import import_module

# Name -> module. A checker reads the same names from the TYPE_CHECKING block.
_HOMES = {
    "start": "starting",
    "resume_lock": "locks",
    "stop": "stopping",
    "ask_to_stop": "asking",
    "withdraw": "asking",
    "is_alive": "living",
    "KILL": "stop_order",
    "StopOrder": "stop_order",
    "StopOutcome": "stop_order",
}

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lavender_tui.launch.asking import ask_to_stop, withdraw
    from lavender_tui.launch.living import is_alive
    from lavender_tui.launch.locks import resume_lock
    from lavender_tui.launch.starting import start
    from lavender_tui.launch.stop_order import KILL, StopOrder, StopOutcome
    from lavender_tui.launch.stopping import stop

__all__ = ["KILL", "StopOrder", "StopOutcome", "ask_to_stop", "is_alive", "resume_lock", "start", "stop", "withdraw"]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
