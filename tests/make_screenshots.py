"""Pictures of the screens into screenshots/, as SVG and PNG, from real directories through the real app.

    python -m tests.make_screenshots [NAME…]

Runs are made by torch, one of them is resumed through the sheet and lives while its picture is taken. PNGs need
resvg-py and the DejaVu fonts; without them only SVGs are written.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from lavender_tui.launch import KILL, stop
from lavender_tui.tui.app import LavenderApp
from lavender_tui.tui.screens.runs import RunsScreen
from lavender_tui.tui.start import Look
from tests.tui import runs
from tests.tui.conftest import text_of

TARGET = Path(__file__).resolve().parent.parent / "screenshots"
FONTS = Path("/usr/share/fonts/truetype/dejavu")
FACES = ("Mono", "Mono-Bold", "Mono-Oblique", "", "-Bold")
FAILED = "run-2026-04-24_18-53-41"
HOUR = 3600.0


def corpus(home: Path) -> dict[str, object]:
    """A real table, and what a checkpoint records of how it is read."""
    import lancedb
    import pyarrow

    uri = str(home / "exp" / "data")
    table = lancedb.connect(uri).create_table("corpus", pyarrow.table({"row": range(80_000)}))
    return {
        "uri": uri, "table": "corpus", "version": table.version, "tag": None, "filter": None, "shuffle": True,
        "shuffle_clump_size": None, "columns": ["row"], "num_rows": 80_000, "on_transform_error": "raise",
    }  # fmt: skip


def interpreter(home: Path) -> Path:
    """The Python that runs this, under a name that anybody could have."""
    python = home / "env" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    python.symlink_to(sys.executable)
    return python


def story(home: Path, data: dict[str, object]) -> Path:
    """Runs as a week of training leaves them."""
    root = home / "exp" / "checkpoints"
    failed = root / FAILED
    for count in range(52, 61):
        runs.save(failed, count, loss=2.71 - count / 200, each=6_100 - (60 - count) * 640, world_size=4, data=data,
                  age_seconds=3 * HOUR + (60 - count) * 660)  # fmt: skip
    runs.metrics(failed, runs.falling(318, start=4.3, end=2.4))
    (failed / "train.log").write_text("".join(log_lines()))
    _, *script = runs.script(home / "exp")
    runs.launched(failed, [str(interpreter(home)), *script])
    runs.ended(failed, signal="SIGKILL", error="rank 2: out of memory", ago=3 * HOUR - 660)
    earlier(root)
    cut = root / "run-2026-04-23_10-00-01"
    for count in range(14, 20):
        runs.save(cut, count, stage="sft", epoch=2, epochs=2, loss=1.42 - count / 60, hours=3.1, each=count * 10,
                  world_size=8, age_seconds=2 * HOUR + (19 - count) * 900,
                  cut_at=0.43 if count == 19 else None)  # fmt: skip
    runs.metrics(cut, runs.falling(120, start=1.9, end=1.1))
    runs.launched(cut, ["torchrun", "sft.py"], world_size=8)
    runs.stopped(cut, "anna")
    done = root / "run-2026-04-20_22-41-55"
    runs.save(done, 112, stage="final", epoch=3, loss=0.9873, hours=0.0, complete=True, each=None, world_size=8,
              age_seconds=4 * 24 * HOUR)  # fmt: skip
    runs.metrics(done, runs.falling(200, start=3.1, end=0.99))
    tuned = root / "run-2026-04-19_08-03-12"
    runs.save(tuned, 9, stage="dpo", epoch=1, epochs=1, loss=0.4410, hours=0.0, complete=True, each=None, world_size=2,
              age_seconds=5 * 24 * HOUR)  # fmt: skip
    runs.metrics(tuned, runs.falling(60, start=0.7, end=0.44))
    diverged = root / "run-2026-04-17_21-15-40"
    runs.save(diverged, 7, loss=float("nan"), each=70, world_size=4, age_seconds=7 * 24 * HOUR)
    runs.metrics(diverged, [*runs.falling(30), 3.9, 8.0, "NaN", "NaN"])
    runs.launched(diverged, ["torchrun", "pretrain.py"])
    runs.ended(diverged, code=1, error="loss is nan at step 3,300")
    return root


def log_lines() -> Iterator[str]:
    """What the failed run printed: 318 times ten steps, then its end."""
    for number, loss in enumerate(runs.falling(318, start=4.3, end=2.4), 1):
        yield f"[default0]:step={number * 10} loss={loss:.4f} lr=2.1e-4 tokens/s=41{number * 37 % 90:02d}\n"
        if number * 10 % 320 == 0:
            yield f"[default0]:saved pretrain {number * 10 // 320 + 51:04d}\n"
    yield from (
        "[default2]:Traceback (most recent call last):\n",
        '[default2]:  File "/home/anna/exp/train.py", line 88, in train_step\n',
        "[default2]:    loss.backward()\n",
        "[default2]:RuntimeError: DataLoader worker (pid 41872) is killed by signal: Killed.\n",
    )


def earlier(root: Path) -> None:
    """A resumed run of the week before, and some that ended well."""
    lost, again = root / "run-2026-04-21_16-20-33", root / "run-2026-04-22_08-05-10"
    runs.save(lost, 31, loss=1.7420, each=3_100, world_size=8, age_seconds=70 * HOUR)
    runs.metrics(lost, runs.falling(150, start=4.1, end=1.75))
    runs.launched(lost, ["torchrun", "pretrain.py"], world_size=8)
    runs.ended(lost, code=1, error="rank 5: NCCL error: remote process exited", ago=70 * HOUR)
    for count in range(1, 15):
        runs.save(again, count, epoch=2, loss=1.74 - count / 100, each=3_100 + 300 * count, world_size=4,
                  age_seconds=60 * HOUR - count * HOUR)  # fmt: skip
    runs.metrics(again, runs.falling(140, start=1.8, end=1.59))
    runs.launched(again, ["torchrun", "pretrain.py"], world_size=4, source=lost)
    runs.stopped(again, "anna")
    for name, stage, loss, days in (
        ("run-2026-04-18_11-47-02", "sft", 1.0312, 6), ("run-2026-04-16_09-12-50", "dpo", 0.4726, 8),
        ("run-2026-04-14_22-03-18", "final", 1.0144, 10), ("run-2026-04-13_07-55-41", "pretrain", 2.6180, 11),
    ):  # fmt: skip
        runs.save(root / name, 40 + days, stage=stage, epoch=2, epochs=2, loss=loss, hours=0.0, complete=True,
                  each=None, world_size=4, age_seconds=days * 24 * HOUR)  # fmt: skip
        runs.metrics(root / name, runs.falling(90, start=2.6 * loss, end=loss))


class Camera:
    """Takes pictures of an app under a name."""

    def __init__(self, wanted: set[str]) -> None:
        self.wanted = wanted

    def take(self, app: LavenderApp, name: str) -> None:
        if self.wanted and name not in self.wanted:
            return
        TARGET.mkdir(exist_ok=True)
        svg = re.sub(r"terminal-\d+-", "terminal-", app.export_screenshot(title="lavender-tui"))
        (TARGET / f"{name}.svg").write_text(svg)
        png = to_png(svg)
        if png is not None:
            (TARGET / f"{name}.png").write_bytes(png)
        print(name, "svg" if png is None else "svg + png", flush=True)


def to_png(svg: str) -> bytes | None:
    """The picture in fonts that have Braille; None without resvg-py or the fonts."""
    fonts = [str(FONTS / f"DejaVuSans{face}.ttf") for face in FACES]
    try:
        import resvg_py
    except ImportError:
        return None
    if not all(map(os.path.exists, fonts)):
        return None
    svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S)
    svg = svg.replace("Fira Code", "DejaVu Sans Mono").replace("arial", "DejaVu Sans")
    return bytes(resvg_py.svg_to_bytes(svg_string=svg, skip_system_fonts=True, font_files=fonts))


Scene = Callable[..., Awaitable[None]]


async def until(pilot, condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit("the screen that was to be pictured never came")
        await pilot.pause(0.05)


async def play(root: Path, size: tuple[int, int], scene: Scene, *, theme: str | None = None, **options) -> None:
    """Run the app headless and play a scene on it."""
    app = LavenderApp([str(root)], **options)
    async with app.run_test(size=size) as pilot:
        if theme:
            app.theme = theme
        await until(pilot, lambda: app.snapshot is not None and app.snapshot.is_complete)
        await pilot.pause()
        if isinstance(app.screen, RunsScreen) and app.runs:
            app.screen.go_to_run(str(root / FAILED))
        await scene(pilot, app)


async def press(pilot, *pressed: str) -> None:
    for key in pressed:
        await pilot.press(key)
        await pilot.pause()


def picture(camera: Camera, name: str, *pressed: str, settle: float = 0.5) -> Scene:
    """A scene that presses keys, waits for the screen to be quiet, and takes one picture."""

    async def scene(pilot, app: LavenderApp) -> None:
        await press(pilot, *pressed)
        await until(pilot, lambda: not getattr(app.screen, "_is_waiting", False))
        await pilot.pause(settle)
        camera.take(app, name)

    return scene


async def resume_and_live(camera: Camera, root: Path, data: dict[str, object]) -> None:
    """Resume the failed run through the sheet, and picture the list with the new run alive."""

    async def scene(pilot, app: LavenderApp) -> None:
        await press(pilot, "r", "1", "tab", "tab", "tab")
        await until(pilot, lambda: not app.screen._is_waiting)
        while "[local]" not in text_of(app):  # where Slurm is installed the row has one value more
            await press(pilot, "right")
            await until(pilot, lambda: not app.screen._is_waiting)
        await press(pilot, "enter")
        await until(pilot, lambda: isinstance(app.screen, RunsScreen) and app.screen.cursor_run.is_alive)
        run = Path(app.screen.cursor_run.path)
        try:
            for count in (1, 2, 3):
                runs.save(run, count, loss=2.40 - count / 300, each=6_100 + 100 * count, world_size=1, data=data,
                          age_seconds=240 - 60 * count)  # fmt: skip
            await until(pilot, lambda: len(app.screen.cursor_run.checkpoints) == 3)
            await press(pilot, "f5")
            await pilot.pause(9.0)  # the notice goes, the loss has some points
            camera.take(app, "live")
        finally:
            stop(str(run), KILL)

    await play(root, (120, 32), scene)


async def main(wanted: set[str]) -> None:
    camera = Camera(wanted)
    home = os.path.join(tempfile.gettempdir(), "anna")  # it is seen in the pictures
    os.mkdir(home)
    try:
        os.environ["HOME"] = home
        data = corpus(Path(home))
        root = story(Path(home), data)
        await play(root, (120, 36), picture(camera, "runs"))
        await play(root, (80, 24), picture(camera, "runs-80x24"))
        await play(root, (200, 60), picture(camera, "runs-200x60"))
        await play(root, (120, 40), picture(camera, "run", "enter", settle=2.0))
        await play(root, (80, 24), picture(camera, "run-80x24", "enter", settle=1.0))
        await play(root, (120, 40), picture(camera, "loss", "enter", "3", *["left"] * 12, settle=2.0))
        await play(root, (120, 30), picture(camera, "data", "enter", "4", "right", settle=1.0))
        await play(root, (120, 32), picture(camera, "log", "l", "e", settle=1.5))
        await play(root, (80, 24), picture(camera, "loss-ascii", "enter", "3", *["left"] * 12, settle=2.0),
                   look=Look(ascii=True))  # fmt: skip
        await play(root, (120, 40), picture(camera, "compare", "space", "space", "space", "c", settle=2.0))
        await play(root, (120, 30), picture(camera, "disk", "D", settle=1.0))
        await play(root, (120, 36), picture(camera, "filter", "slash", *"state:failed | loss<1"))
        await play(root, (120, 40), picture(camera, "resume", "r", "left"))
        await play(root, (80, 24), picture(camera, "resume-80x24", "r", "left"))
        await play(root, (120, 36), picture(camera, "refused", "r", "3"))
        await play(root, (100, 36), picture(camera, "help", "question_mark"))
        await play(root, (120, 36), picture(camera, "light"), theme="lavender-light")
        await play(root, (120, 36), picture(camera, "ansi"), theme="ansi-dark")
        await play(root, (120, 36), picture(camera, "ascii"), look=Look(ascii=True))
        await resume_and_live(camera, root, data)
        shutil.rmtree(root)
        await play(root, (100, 24), picture(camera, "empty"))
    finally:
        shutil.rmtree(home)


if __name__ == "__main__":
    asyncio.run(main(set(sys.argv[1:])))
