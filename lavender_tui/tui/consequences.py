"""What follows from a resume plan, as lines for the sheet: start, rows repeated, ranks, batch, schedule, table."""

from __future__ import annotations

from lavender_tui.model import command_line, text
from lavender_tui.model.checkpoint import Checkpoint
from lavender_tui.model.data_rows import epoch_rows
from lavender_tui.model.plan import Check, Policy, ResumePlan, Verdict
from lavender_tui.model.rank_state import owned_splits
from lavender_tui.model.topology import same_batches_everywhere

Span = tuple[str, str]
_LABEL = 10
_LONGEST_COMMAND = 4_000  # characters
VERDICT_GLYPHS = {Verdict.PASS: "✓", Verdict.WARN: "!", Verdict.REFUSE: "✗"}
VERDICT_INKS = {Verdict.PASS: "good", Verdict.WARN: "warn", Verdict.REFUSE: "bad"}
_MOST_RANKS, _MOST_MARKS = 8, 8


def lines(plan: ResumePlan, checkpoint: Checkpoint | None) -> list[list[Span]]:
    """Label and words, a line each."""
    if plan.start.stage is not None:
        return _new_stage(plan)
    return [
        _line("starts", _start(plan)),
        _line("repeats", _repeats(plan)),
        *_ranks(plan),
        _line("batch", _batch(plan)),
        _line("schedule", _schedule(plan, checkpoint)),
        *_table(plan),
    ]


def launched_words(plan: ResumePlan) -> str:
    """What was done, in one line: "on 4 ranks, from pretrain 0008, epoch 4, row 1,344"."""
    name = _source_name(plan)
    ranks = f"on {text.plural(plan.world_size, 'rank')}"
    if plan.start.stage is not None:
        return f"{ranks}, stage {text.clean(plan.start.stage, 20)} from the weights of {name}"
    parts = [ranks, f"from {name}", f"epoch {plan.start.epoch}"]
    read = consumed(plan)
    if plan.start.policy is not Policy.EXACT:
        parts.append("from its first batch")
    elif read is not None:
        parts.append(f"row {text.count(read)}")
    return ", ".join(parts)


def _source_name(plan: ResumePlan) -> str:
    """ "pretrain 0060", else the file's name."""
    source = plan.source
    stage = [text.clean(source.stage, 20)] if source.stage else []
    count = [text.save_count(source.save_count)] if source.save_count is not None else []
    return " ".join([*stage, *count]) or text.clean(source.checkpoint.rsplit("/", 1)[-1], 60)


def _new_stage(plan: ResumePlan) -> list[list[Span]]:
    return [
        _line("starts", f"stage {text.clean(plan.start.stage, 20)}, epoch 1, from its first row"),
        _line("takes", f"the weights of {_source_name(plan)}"),
        _line("fresh", "optimizer, schedule, position in the data, steps counted from 0"),
        *_ranks(plan),
    ]


def _line(label: str, words: str) -> list[Span]:
    return [(f"{label:<{_LABEL}}", "quiet"), (words, "")]


def _num_splits(plan: ResumePlan) -> int | None:
    splits = (plan.dataset or {}).get("num_splits")
    return splits if isinstance(splits, int) else None


def consumed(plan: ResumePlan) -> int | None:
    """Rows that the merged state counts as read."""
    counts = (plan.dataset or {}).get("samples_consumed_per_split")
    if isinstance(counts, list | tuple) and all(isinstance(one, int) for one in counts):
        return sum(counts)
    return None


def _start(plan: ResumePlan) -> str:
    where = plan.first_epoch
    if plan.source.epoch is None and plan.dataset is None:
        where += " (the checkpoint names none)"
    if plan.start.policy is not Policy.EXACT:
        return f"{where}, from its first batch"
    read, rows = consumed(plan), epoch_rows(plan.data, (plan.dataset or {}).get("num_splits"))
    if read is None:
        return f"{where}, where in it is not known"
    if rows is None:
        return f"{where}, after {text.count(read)} rows"
    return f"{where}, row {text.count(read)} of {text.count(rows)} ({100 * read / rows:.0f} %)"


def _repeats(plan: ResumePlan) -> str:
    """Both sides, or that they aren't known: without usable rank states nobody can say what was read."""
    replayed = plan.start.samples_replayed
    if plan.start.policy is Policy.EXACT and (replayed is None or plan.dataset is None):
        return "not known   loses not known"
    skipped = plan.start.samples_skipped
    loses = "0 rows" if plan.start.policy is not Policy.SKIP_EPOCH else "the rest of this epoch"
    if skipped is not None:
        loses = text.plural(skipped, "row")
    repeated = "what it read of this epoch" if replayed is None else text.plural(replayed, "row")
    return f"{repeated}   loses {loses}"


def _ranks(plan: ResumePlan) -> list[list[Span]]:
    splits, world = _num_splits(plan), plan.world_size
    if not splits or world < 1 or splits % world:
        shared = f": {text.plural(splits, 'split')} can't be shared by them" if splits else ""
        return [_line("ranks", text.plural(world, "rank") + shared)]
    spans: list[Span] = [(f"{'ranks':<{_LABEL}}", "quiet")]
    for rank in range(min(world, _MOST_RANKS)):
        owned = owned_splits(rank, world, splits)
        bar = "▪" * min(_MOST_MARKS, len(owned))
        which = f"{owned[0]}-{owned[-1]}" if len(owned) > 1 else f"{owned[0]}"
        # no-break spaces: a rank's words stay on one line
        spans += [(f"{rank}\u00a0", "quiet"), (bar, "accent"), (f"\u00a0{which}", ""), ("  ", "")]
    if world > _MOST_RANKS:
        spans.append((f"… {world} ranks ", "quiet"))
    return [[*spans, ("splits", "quiet")]]


def _batch(plan: ResumePlan) -> str:
    batch = plan.batch
    if batch.global_size is None:
        return "as the script says: the checkpoint does not record it"
    words = text.count(batch.global_size)
    if batch.per_rank is None:
        return f"{words}, which {text.plural(plan.world_size, 'rank')} can't share"
    words += f" = {plan.world_size} × {text.count(batch.per_rank)}"
    before = plan.world_size_previous
    if before and before != plan.world_size and batch.global_size % before == 0:
        words += f" (was {before} × {text.count(batch.global_size // before)})"
    same = same_batches_everywhere(batch.global_size, _num_splits(plan))
    return words + {True: ", same batches", False: ", other batches than before", None: ""}[same]


def _schedule(plan: ResumePlan, checkpoint: Checkpoint | None) -> str:
    rate = checkpoint.lr if checkpoint else None
    shown = f", lr {rate:.3g}" if rate is not None else ""
    if plan.start.scheduler_steps is None:
        return f"from the checkpoint{shown}"
    return f"stepped {text.plural(plan.start.scheduler_steps, 'time')}: approximate, no scheduler saved{shown}"


def _table(plan: ResumePlan) -> list[list[Span]]:
    data = plan.data or {}
    name = data.get("table") or data.get("uri")
    if name is None:
        return []
    version = data.get("version")
    pinned = "" if version is None else f" @ version {text.clean(version, 20)}"
    return [_line("table", text.clean(name, 60) + pinned)]


def command_lines(plan: ResumePlan) -> list[list[Span]]:
    """What will run, where, and the directory that is made for it."""
    new = "a new directory beside it; this one is not written to"
    if plan.run_dir:
        new = text.clean(plan.run_dir.rstrip("/").rsplit("/", 1)[-1], 60)
    return [
        [("runs", "quiet"), ("   c copies the way to do it from a shell", "quiet")],
        [(command_line.beginning(plan.launch.argv, _LONGEST_COMMAND), "")],
        [(f"in {text.clean(plan.launch.cwd)}", "quiet")],
        *([[("d shows the job's script", "quiet")]] if plan.launch.script is not None else []),
        [("new run  ", "quiet"), (new, "")],
    ]


def check_lines(checks: tuple[Check, ...]) -> list[list[Span]]:
    """Each check with its sign; what refuses first, then what warns; evidence only where something is wrong."""
    order = (Verdict.REFUSE, Verdict.WARN, Verdict.PASS)
    return [_check_line(check) for check in sorted(checks, key=lambda one: order.index(one.verdict))]


_BY_KEY = {"source.alive": "x stops it", "source.leftovers": "x ends them"}


def remedy_of(check: Check) -> str:
    """As it is done here: where a command would end something, a key is nearer."""
    return _BY_KEY.get(check.id, check.remedy) if "`lavender-tui stop " in check.remedy else check.remedy


def is_stopped_first(check: Check) -> bool:
    """Does it refuse for something that the key for stopping would end?"""
    return check.verdict is Verdict.REFUSE and remedy_of(check) == _BY_KEY.get(check.id)


def _check_line(check: Check) -> list[Span]:
    sign: Span = (f"{VERDICT_GLYPHS[check.verdict]} ", VERDICT_INKS[check.verdict])
    what = text.clean(check.what, 300)
    if check.verdict is Verdict.PASS:
        return [sign, (what, "quiet")]
    spans = [sign, (f"{what}:" if check.evidence else what, "")]
    if check.evidence:
        spans.append((f" {text.clean(check.evidence, 400)}", "quiet"))
    if check.remedy:
        spans.append((f" → {text.clean(remedy_of(check), 300)}", "accent"))
    return spans
