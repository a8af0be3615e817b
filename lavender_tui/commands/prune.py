"""`lavender-tui prune [ROOT…]`: which checkpoints could go, and after a yes they do."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lavender_tui.commands import places
from lavender_tui.commands.printing import ask, is_terminal, put_json, put_table, say
from lavender_tui.config import load
from lavender_tui.errors import UsageError
from lavender_tui.model import text
from lavender_tui.model.disk import Fate, KeepRules
from lavender_tui.resume.pruning import judged, prune

HEAD = ("RUN", "CHECKPOINT", "SIZE", "")


def run(
    roots: Sequence[str],
    *,
    keep_last: int | None = None,
    keep_best: int | None = None,
    dry_run: bool = False,
    yes: bool = False,
    as_json: bool = False,
) -> int:
    settings = load()[0].prune
    rules = KeepRules(
        last=settings.keep_last if keep_last is None else keep_last,
        best=settings.keep_best if keep_best is None else keep_best,
    )
    named = places.resolve_roots(roots)
    from lavender_tui.watch.scan import scan

    all_fates = judged(scan(named), rules)
    doomed = [fate for fate in all_fates if fate.may_go]
    if not as_json:
        _show(all_fates, doomed)
    if dry_run or not doomed:
        return _put(all_fates, 0, ()) if as_json else 0
    if not yes:
        if not is_terminal():
            raise UsageError("nothing is deleted without a yes", hint="Add --yes, or --dry-run to look only")
        if not ask(f"Delete {text.plural(len(doomed), 'checkpoint')} for good ({_size(doomed)})?"):
            say("nothing was deleted")
            return 1
    done = prune(named, doomed, rules)
    for sentence in done.left:
        say(sentence)
    if as_json:
        _put(all_fates, done.freed_bytes, [fate.checkpoint.path for fate in done.gone])
    else:
        say(f"deleted {text.plural(len(done.gone), 'checkpoint')}: {text.size(done.freed_bytes)} are free again")
    return 1 if done.left else 0


def _size(found: Sequence[Fate]) -> str:
    return text.size(sum(fate.size_bytes for fate in found))


def _show(found: Sequence[Fate], doomed: Sequence[Fate]) -> None:
    if found:
        put_table(HEAD, [_row(fate) for fate in found], right=(2,))
    say(f"{len(doomed):,} of {text.plural(len(found), 'checkpoint')} could go: {_size(doomed)} of {_size(found)}")


def _row(fate: Fate) -> tuple[str, ...]:
    name = text.clean(os.path.basename(fate.checkpoint.path))
    return (text.clean(fate.run.title), name, text.size(fate.size_bytes), fate.why or "could go")


def _put(found: Sequence[Fate], freed: int, gone: Sequence[str]) -> int:
    put_json(
        {
            "checkpoints": [
                {
                    "run": fate.run.name,
                    "path": text.utf8(fate.checkpoint.path),
                    "size_bytes": fate.size_bytes,
                    "may_go": fate.may_go,
                    "why": fate.why or None,
                }
                for fate in found
            ],
            "deleted": [text.utf8(path) for path in gone],
            "freed_bytes": freed,
        }
    )
    return 0
