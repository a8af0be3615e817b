"""`lavender-tui demo`."""

from __future__ import annotations


def run(*, headless: bool, directory: str | None) -> int:
    from lavender_tui.demo.story import play

    return play(headless=headless, directory=directory)
