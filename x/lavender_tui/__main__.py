"""`lavender-tui` and `python -m lavender_tui`. Ctrl-C before the command line is up ends it without a word."""

from __future__ import annotations

import signal


def main() -> None:
    """The console script."""
    is_ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as behind nohup
    if is_ours:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # while modules are imported nobody catches a KeyboardInterrupt
    from lavender_tui import cli

    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    cli.main()


if __name__ == "__main__":
    main()
