"""A training of the standard library alone: tells how it was started, "trains", saves when told to.

    train.py [--end CODE] [--train] [--deaf] [--save FILE] [--] …

Without `--train` it ends at once with CODE. With it, it goes on until SIGTERM or SIGUSR1, then copies FILE (a real
checkpoint) into its run directory and ends. In a resumed run it ends well by itself.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time

SAVE = "pretrain-10-00-00-0001.pt"


def main() -> int:
    run_dir, words = os.environ["LAVENDER_RUN_DIR"], sys.argv[1:]
    told = {
        "argv": sys.argv,
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "resumed": "LAVENDER_RESUME_PLAN" in os.environ,
        "restarts": os.environ.get("SLURM_RESTART_COUNT"),
    }
    heard: list[int] = []
    for signum in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(signum, lambda number, frame: heard.append(number))
    with open(os.path.join(run_dir, "told.json.new"), "w", encoding="ascii") as file:
        json.dump(told, file)
    os.rename(file.name, os.path.join(run_dir, "told.json"))
    print("it trains", flush=True)
    while "--train" in words and not told["resumed"] and (not heard or "--deaf" in words):
        time.sleep(0.05)
    if "--save" in words and heard:
        shutil.copyfile(words[words.index("--save") + 1], os.path.join(run_dir, "saving.tmp"))
        os.rename(os.path.join(run_dir, "saving.tmp"), os.path.join(run_dir, SAVE))
        print(f"saved, for signal {heard[0]}", flush=True)
    return int(words[words.index("--end") + 1]) if "--end" in words else 0


if __name__ == "__main__":
    sys.exit(main())
