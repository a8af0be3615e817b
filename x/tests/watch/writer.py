"""A trainer that only saves: `python -m tests.watch.writer RUN WAY FIRST COUNT [SECONDS]`, a process of its own.

WAY is `rename` (temporary name, then its own), `direct` (torch.save to the final name), `rsync` (hidden temporary name
in the same directory, then renamed) or `grow` (the final name, written piece by piece over SECONDS). It waits for a
line on stdin before each save, and prints the path and the instant (`time.monotonic()`) at which the file was whole.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.watch import saves

PIECES = 20


def by_rename(target: Path, content: bytes, seconds: float) -> None:
    temporary = target.with_name(target.name + ".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, target)


def by_rsync(target: Path, content: bytes, seconds: float) -> None:
    temporary = target.with_name(f".{target.name}.Zx81Qa")
    temporary.write_bytes(content)
    os.replace(temporary, target)


def directly(target: Path, content: bytes, seconds: float) -> None:
    target.write_bytes(content)


def growing(target: Path, content: bytes, seconds: float) -> None:
    with target.open("wb") as file:
        for piece in range(PIECES):
            file.write(content[len(content) * piece // PIECES : len(content) * (piece + 1) // PIECES])
            file.flush()
            time.sleep(seconds / PIECES)


WAYS: dict[str, Callable[[Path, bytes, float], None]] = {
    "rename": by_rename,
    "rsync": by_rsync,
    "direct": directly,
    "grow": growing,
}


def main(run: str, way: str, first: str, count: str, seconds: str = "0") -> None:
    directory = Path(run)
    contents = {number: saves.as_bytes(save_count=number) for number in range(int(first), int(first) + int(count))}
    print("ready", flush=True)
    for number, content in contents.items():
        sys.stdin.readline()
        directory.mkdir(parents=True, exist_ok=True)
        target = directory / saves.name(number)
        WAYS[way](target, content, float(seconds))
        print(time.monotonic(), target, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
