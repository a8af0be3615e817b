"""`lavender-tui export`: every run and checkpoint as json, jsonl, csv or md; `--follow` streams what changes."""

from __future__ import annotations

import csv
import io
import os
import queue
import socket
import stat
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lavender_tui.commands import places
from lavender_tui.commands.printing import put_line
from lavender_tui.errors import LavenderError, UsageError
from lavender_tui.model import text
from lavender_tui.model.export import EXPORT_FORMAT, EXPORT_VERSION, RUN_COLUMNS, export_document, run_documents
from lavender_tui.model.run import Run

if TYPE_CHECKING:
    from lavender_tui.watch.observe import Snapshot

USAGE_SECONDS = 0.5  # over which the usage of live runs is measured
HEARTBEAT_SECONDS = 5.0  # a reader over ssh tells a quiet peer from a dead one by it


def run(
    roots: Sequence[str], *, form: str = "json", output: str | None = None, follow: bool = False, curve: bool = False
) -> int:
    if curve and (follow or form not in ("json", "jsonl")):
        raise UsageError("--curve goes with --format json or jsonl, and not with --follow")
    named = places.resolve_roots(roots)
    if follow:
        if output is not None or form not in ("json", "jsonl"):
            raise UsageError("--follow writes JSON lines to stdout: leave out -o and other formats")
        return stream(named)
    from lavender_tui.watch.scan import scan_all

    runs = scan_all(named, usage_seconds=USAGE_SECONDS if form in ("json", "jsonl") else 0.0).runs
    written = render(runs, form=form, roots=named, with_curve=curve)
    if output is None or output == "-":
        sys.stdout.write(shown(written, form) if sys.stdout.isatty() else written)
        sys.stdout.flush()
    else:
        from lavender_tui.launch.record import write_atomically

        try:
            write_atomically(os.path.abspath(output), written.encode(), replace=True)
        except OSError as error:
            what = f"the export can't be written ({error.strerror or error})"
            raise LavenderError(what, where=output, hint="Name another file") from error
    return 0


def render(runs: Sequence[Run], *, form: str, roots: Sequence[str], with_curve: bool = False) -> str:
    """The whole export as text, ending in a line break."""
    if form == "json":
        document = export_document(runs, host=socket.gethostname(), roots=roots, now=time.time(), with_curve=with_curve)
        return text.strict_json(document, indent=2) + "\n"
    documents = run_documents(runs, with_curve=with_curve)
    if form == "jsonl":
        return "".join(text.strict_json(document) + "\n" for document in documents)
    return render_csv(documents) if form == "csv" else render_md(documents)


def shown(written: str, form: str) -> str:
    """As a terminal may have it: control codes in a csv's names would be obeyed there. JSON and md have none."""
    return "\n".join(map(text.clean, written.split("\n"))) if form == "csv" else written


def render_csv(documents: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(RUN_COLUMNS)
    writer.writerows([cell(document[name]) for name in RUN_COLUMNS] for document in documents)
    return out.getvalue()


def render_md(documents: Sequence[dict[str, Any]]) -> str:
    lines = ["| " + " | ".join(RUN_COLUMNS) + " |", "|" + " --- |" * len(RUN_COLUMNS)]
    for document in documents:
        cells = (text.clean(cell(document[name])).replace("\\", "\\\\").replace("|", "\\|") for name in RUN_COLUMNS)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def cell(value: Any) -> str:
    """A value as one flat cell: empty for null, strict JSON for the rest that isn't text."""
    if value is None:
        return ""
    if isinstance(value, dict):
        value = value.get("run")
    return value if isinstance(value, str) else text.strict_json(value)


def stream(roots: Sequence[str]) -> int:
    """A hello line, a RUN line for each run, then one for each run that changes; ends when the reader is gone."""
    from lavender_tui.watch.observe import Watcher

    changes: queue.Queue[Snapshot | None] = queue.Queue()
    if _stdin_is_a_lifeline():
        threading.Thread(target=_wait_for_end_of_stdin, args=(changes,), daemon=True).start()
    put_line({"hello": EXPORT_FORMAT, "version": EXPORT_VERSION, "host": socket.gethostname()})
    watcher = Watcher(roots, changes.put)
    watcher.start()
    try:
        return _write_changes(changes)
    finally:
        watcher.close()


def _write_changes(changes: queue.Queue[Snapshot | None]) -> int:
    shown: dict[str, dict[str, Any]] = {}
    while True:
        try:
            snapshot = changes.get(timeout=HEARTBEAT_SECONDS)
        except queue.Empty:
            put_line({"heartbeat": text.iso(time.time())})
            continue
        if snapshot is None:
            return 0
        now = {one.key: document for one, document in zip(snapshot.runs, run_documents(snapshot.runs), strict=True)}
        for key, document in now.items():
            if shown.get(key) != document:
                put_line(document)
        for key in shown.keys() - now.keys():
            put_line({"gone": text.utf8(key)})
        shown = now


def _stdin_is_a_lifeline() -> bool:
    """Over ssh stdin is a pipe or socket that ends with the connection; under cron it is /dev/null and says nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError, AttributeError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _wait_for_end_of_stdin(changes: queue.Queue[Snapshot | None]) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    changes.put(None)
