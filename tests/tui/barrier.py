"""`lavender-tui ARGUMENTS…` that is ready to go and waits at a line: what is read from a pipe ends when all may start.

python barrier.py READY START ARGUMENTS...     writes a byte to the descriptor READY, waits for the end of START
"""

from __future__ import annotations

import os
import sys

from lavender_tui import cli, resume  # noqa: F401 (imported now, not while the others run)


def main() -> None:
    ready, start = int(sys.argv[1]), int(sys.argv[2])
    sys.argv = ["lavender-tui", *sys.argv[3:]]
    os.write(ready, b".")
    os.close(ready)
    os.read(start, 1)
    cli.main()


if __name__ == "__main__":
    main()
