"""The app on a disk of its own that is nearly full. Run it inside `unshare -rm`: python small_disk.py DIRECTORY

Prints what the sheet said and what lay in the root afterwards, as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import Any

import torch

from lavender_tui.tui.app import LavenderApp
from tests.resume.saves import save
from tests.tui.conftest import press, text_of, until

RUN = "run-2026-04-24_18-53-41"
ELEMENTS = 200_000  # a save of 800 kB


def leave(root: str, free: int) -> None:
    """Fill the disk, or give back, until so many bytes are free."""
    filler = os.path.join(root, "filler.bin")
    if os.path.exists(filler):
        os.truncate(filler, 0)
    room = os.statvfs(root)
    with open(filler, "wb") as file:
        file.write(bytes(room.f_bavail * room.f_bsize - free))


def below(root: str) -> list[str]:
    return sorted(os.path.join(where, name) for where, dirs, files in os.walk(root) for name in (*dirs, *files))


def words(app: Any) -> str:
    return " ".join(text_of(app).split())


async def look(root: str) -> dict[str, str]:
    said = {}
    app = LavenderApp([root], command=(sys.executable, "-c", "import time; time.sleep(60)"))
    async with app.run_test(size=(100, 120)) as pilot:
        await until(pilot, lambda: app.snapshot is not None and app.snapshot.is_complete, "all runs read")
        await press(pilot, "r")
        await until(pilot, lambda: "can't be launched" in words(app), "the refusal")
        await press(pilot, "enter")
        said["refused"] = words(app)
        await press(pilot, "escape")
        leave(root, 2_000_000)
        await press(pilot, "r")
        await until(pilot, lambda: "checks passed" in words(app), "the answer")
        said["warned"] = words(app)
        leave(root, 0)
        await press(pilot, "enter")
        await until(pilot, lambda: "No space left" in words(app), "the failure", 60)
        said["failed"] = words(app)
    return said


def export(root: str) -> list[object]:
    output = os.path.join(root, "export.json")
    command = [sys.executable, "-m", "lavender_tui", "export", root, "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [done.returncode, done.stderr.count("\n"), done.stderr]


def main(directory: str) -> None:
    root = os.path.join(directory, "checkpoints")
    os.makedirs(root)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", root], check=True)
    for count in (1, 2, 3):
        save(os.path.join(root, RUN), count, model_state_dict={"weight": torch.zeros(ELEMENTS)}, epoch=count)
    leave(root, 300_000)
    before = below(root)
    said = asyncio.run(look(root))
    print(json.dumps({**said, "export": export(root), "before": before, "after": below(root)}))


if __name__ == "__main__":
    main(sys.argv[1])
