"""To the clipboard, and what of that is true. tmux takes no copy from a program inside it unless it is told to."""

from __future__ import annotations

import os
import subprocess

from lavender_tui.model.text import utf8

_PATIENCE_SECONDS = 3.0
IN_TMUX = "Copied into tmux's buffer"
TO_TERMINAL = "Sent to the terminal's clipboard"


def is_in_tmux() -> bool:
    """Are we in a pane of tmux?"""
    return bool(os.environ.get("TMUX"))


def into_tmux(words: str) -> bool:
    """Put `words` into tmux's buffer, and let tmux send them on to its terminal; False where it did not take them.

    Waits for tmux: call it in a worker. With its usual settings (`set-clipboard external`) tmux drops the escape
    sequence by which programs copy, and says nothing.
    """
    try:
        done = subprocess.run(
            ["tmux", "load-buffer", "-w", "-"],
            input=utf8(words).encode(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
