"""Ranks, workers and batches of the resumed training: what divides what, what changes, what this machine has."""

from __future__ import annotations

from lavender_tui.errors import LavenderError, UsageError
from lavender_tui.launch import command as commands
from lavender_tui.launch.rendezvous import ranks_per_node, refuse_taken, split
from lavender_tui.model import text
from lavender_tui.model.data_rows import epoch_rows
from lavender_tui.model.plan import Check, Policy
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.model.topology import allowed_num_workers, allowed_world_sizes, same_batches_everywhere
from lavender_tui.resume.situation import Situation

_MOST_SIZES = 24


def topology_checks(it: Situation) -> list[Check]:
    rules = (_world_size, _nodes, _devices, _workers, _batch, _memory, _steps, _command)
    return [check for rule in rules for check in rule(it)]


def _world_size(it: Situation) -> list[Check]:
    size, splits = it.world_size, it.num_splits
    allowed = _allowed_sizes(splits)
    if size < 1:
        return [refuse("topology.world-size", f"world_size {size} makes no sense", remedy=f"use one of {allowed}")]
    if splits is not None and splits % size:
        what = f"{splits} splits (num_splits) can't be shared by world_size {size}"
        return [refuse("topology.world-size", what, f"allowed: {allowed}", f"use one of {allowed}")]
    before = f"was {it.saved_by}" if it.saved_by else "how many it was before isn't recorded"
    shared = f"{splits} splits, {splits // size} a rank; allowed: {allowed}" if splits else before
    return [passed("topology.world-size", f"world_size {size} ({before})", shared)]


def _nodes(it: Situation) -> list[Check]:
    """Each host starts as many ranks, and where they meet nobody listens yet."""
    hosts = it.options.hosts
    if hosts.nodes == 1:
        return []
    try:
        each = ranks_per_node(it.world_size, hosts.nodes)
        endpoint = hosts.meeting_point(it.run_path)
    except UsageError:
        return []  # said by the check of the command itself
    try:
        refuse_taken(endpoint)
    except UsageError as error:
        return [refuse("topology.nodes", error.what, error.where or "", remedy=error.hint or "")]
    where = endpoint if hosts.endpoint else f"a free port of {split(endpoint)[0]}"
    what = f"{text.plural(each, 'rank')} on each of {hosts.nodes} nodes, which meet at {text.clean(where, 100)}"
    return [passed("topology.nodes", what, "the others are started with `lavender-tui join` and the new run")]


def _devices(it: Situation) -> list[Check]:
    size = -(-it.world_size // it.options.hosts.nodes)  # on this host
    if not it.devices or size <= it.devices:
        return []
    what = f"world_size {size}, but this machine has {text.plural(it.devices, 'device')}"
    fitting = [one for one in allowed_world_sizes(it.num_splits or size) if one <= it.devices]
    listed = ", ".join(map(str, fitting[-_MOST_SIZES:]))
    evidence = f"{size} ranks on {it.devices}: {-(-size // it.devices)} would share one"
    return [warn("topology.devices", what, evidence, f"choose {listed}, or another machine" if listed else "")]


def _workers(it: Situation) -> list[Check]:
    size, splits, workers = it.world_size, it.num_splits, it.num_workers
    if workers < 0:
        return [refuse("topology.workers", f"{workers} workers make no sense", remedy="0 reads in the rank itself")]
    if splits is None or size < 1 or splits % size:
        return []
    allowed = allowed_num_workers(splits, size)
    listed = ", ".join(map(str, allowed[:_MOST_SIZES]))
    if workers not in allowed:
        what = f"{splits // size} splits a rank can't be shared by {workers} workers"
        return [refuse("topology.workers", what, f"allowed: {listed}", f"use one of {listed}")]
    before = it.checkpoint.num_workers
    if before is not None and before != workers:
        what = f"{workers} workers a rank, {before} before: the same rows in other batches"
        return [warn("topology.workers", what, f"allowed: {listed}")]
    return [passed("topology.workers", f"{workers} workers a rank", f"allowed: {listed}")]


def _batch(it: Situation) -> list[Check]:
    batch, size = it.global_batch, it.world_size
    if batch is None or size < 1:
        return []
    if batch < 1 or batch % size:
        fitting = [one for one in allowed_world_sizes(it.num_splits or batch) if batch > 0 and batch % one == 0]
        listed = ", ".join(map(str, fitting[:_MOST_SIZES]))
        what = f"a global batch of {batch} can't be shared by {size} ranks"
        return [
            refuse("topology.batch", what, f"world sizes that can: {listed}", f"use one of {listed}, or another batch")
        ]
    before = it.checkpoint.global_batch
    if before is not None and before != batch:
        return [warn("topology.batch", f"a global batch of {batch}, {before} before: other steps, another schedule")]
    if same_batches_everywhere(batch, it.num_splits) is False:
        what = f"a global batch of {batch:,} is no multiple of the {it.num_splits} splits"
        cost = "every row once, but a step's rows depend on world_size"
        return [warn("topology.batch", what, cost, f"a multiple of {it.num_splits} gives the same steps everywhere")]
    return [passed("topology.batch", f"batch {batch} = {size} × {batch // size}: the same steps on every world_size")]


def _memory(it: Situation) -> list[Check]:
    """Fewer ranks for the same global batch: each holds more rows at a time than it ever did."""
    now, then = _per_rank(it.global_batch, it.world_size), _per_rank(it.checkpoint.global_batch, it.saved_by)
    if now is None or then is None or now <= then:
        return []
    what = f"the same global batch: {now:,} rows a rank and step instead of {then:,}, so more memory"
    if it.global_batch != it.checkpoint.global_batch:
        what = f"{now:,} rows a rank and step instead of {then:,}: more memory"
    parts = -(-now // then)
    remedy = f"if it doesn't fit, accumulate gradients over {parts} batches of {-(-now // parts):,} rows a rank"
    return [warn("topology.memory", what, f"{it.global_batch} = {it.world_size} × {now}", remedy)]


def _per_rank(batch: int | None, size: int | None) -> int | None:
    return batch // size if batch is not None and size is not None and size > 0 and batch % size == 0 else None


def _steps(it: Situation) -> list[Check]:
    """How much is left, where rows and batch are known; the learning rate that it goes on with."""
    rate = f", learning rate {it.checkpoint.lr:.3g} from the optimizer" if it.checkpoint.lr is not None else ""
    here, each = _steps_in_epoch(it)
    if here is None or each is None:
        return [passed("topology.steps", f"it goes on{rate}")] if rate else []
    what = f"{text.plural(here, 'step')} left in this epoch"
    if it.epoch is not None and it.checkpoint.epochs is not None and it.checkpoint.epochs >= it.epoch:
        what += f", {here + (it.checkpoint.epochs - it.epoch) * each:,} in all"
    return [passed("topology.steps", what + rate, f"{text.count(it.global_batch)} rows a step")]


def _steps_in_epoch(it: Situation) -> tuple[int | None, int | None]:
    """(steps left in the epoch that is started in, steps of a whole one); a last, smaller batch counts as one."""
    epoch, batch = epoch_rows(it.checkpoint.data, it.num_splits), it.global_batch
    is_packed = bool(it.set.states) and it.set.states[0].mode == "packed"
    if epoch is None or not batch or batch < 1 or is_packed:
        return None, None
    merged = it.merged if it.policy is Policy.EXACT else None
    left = epoch - sum(merged["positions_consumed_per_split"]) if merged is not None else epoch
    return -(-max(0, left) // batch), -(-epoch // batch)


def _command(it: Situation) -> list[Check]:
    """What of the training command is replaced, so that it fits."""
    if it.command is None or it.world_size < 1:
        return []
    try:
        told = commands.notes(it.command, world_size=it.world_size, backend=it.options.backend, hosts=it.options.hosts)
    except LavenderError:
        return []  # said by the check of the command itself
    return [passed("topology.command", note) for note in told]


def _allowed_sizes(splits: int | None) -> str:
    if splits is None:
        return "1 or more"
    sizes = allowed_world_sizes(splits)
    return ", ".join(map(str, sizes[:_MOST_SIZES])) + (", …" if len(sizes) > _MOST_SIZES else "")
