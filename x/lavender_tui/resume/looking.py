"""The deep look into the table, by the child that may open it: version, rows, columns, order, tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lavender_tui.errors import NotFound
from lavender_tui.model.plan import Check, Policy, Proposal, ResumePlan, Verdict
from lavender_tui.model.state_rules import passed, refuse, warn
from lavender_tui.model.text import clean
from lavender_tui.resume.child import Child

# What happened to 1,000 rows read to a fifth, when only one row of the table was deleted or updated in between.
RESHUFFLED = "one row more or less moves all others: 28 to 160 of 1,000 rows come twice, as many never"
REPLAY = "start the epoch again (--policy replay-epoch), and keep the tag on the version from now on"


def look_at_table(proposal: Proposal, child: Child | None = None) -> tuple[Check, ...]:
    """What only opening the table can tell; () where nothing names one, or where it lies on other storage.

    Blocks for as long as the child needs (a second or two with a warm one): call it in a worker. Without `child` one
    is started and ended. Raises LavenderError where the child can't work or is closed meanwhile.
    """
    plan = proposal.plan
    if plan is None or not is_worth_a_look(plan):
        return ()
    if child is not None and child.is_usable:
        return _look(plan, child)
    with Child() as own:
        return _look(plan, own)


def verified(proposal: Proposal, child: Child | None = None) -> Proposal:
    """The proposal with what the deep look found, in the place of what the shallow one could only guess."""
    return with_checks(proposal, look_at_table(proposal, child))


def with_checks(proposal: Proposal, found: tuple[Check, ...]) -> Proposal:
    """`found` replaces checks of the same id and goes where the other checks of the data are."""
    ids = {one.id for one in found}
    kept = [one for one in proposal.checks if one.id not in ids]
    at = max((place for place, one in enumerate(kept, 1) if one.id.startswith("data.")), default=len(kept))
    kept[at:at] = found
    plan = proposal.plan
    if plan is not None:
        plan = replace(plan, warnings=tuple(_sentence(one) for one in kept if one.verdict is Verdict.WARN))
    return replace(proposal, plan=plan, checks=tuple(kept))


def _sentence(check: Check) -> str:
    return f"{check.what} ({check.evidence})" if check.evidence else check.what


def is_worth_a_look(plan: ResumePlan) -> bool:
    uri, table = (plan.data or {}).get("uri"), (plan.data or {}).get("table")
    return isinstance(uri, str) and isinstance(table, str) and "://" not in uri


def _look(plan: ResumePlan, child: Child) -> tuple[Check, ...]:
    data = plan.data or {}
    version = data.get("version")
    where = clean(f"{data['table']} in {data['uri']}", 300)
    is_exact = plan.start.policy is Policy.EXACT
    try:
        seen = child.table(
            data["uri"],
            data["table"],
            version=version if type(version) is int else None,
            tag=_text(data, "tag"),
            filter=_text(data, "filter"),
        )
    except NotFound as error:
        what = f"the table can't be opened: {error.what}"
        verdict = refuse if is_exact else warn
        return (verdict("data.version", what, where, "bring the table back to where it was"),)
    if not seen["opens"]:
        return (_gone(data, seen, where, is_exact=is_exact),)
    checks = [_version(data, seen, where)]
    if is_exact:
        checks += [*_rows(plan, data, seen, where), *_same(data, seen, where)]
    return (*checks, *_columns(data, seen, where), *_tag(data, seen, where))


def _gone(data: Mapping[str, Any], seen: Mapping[str, Any], where: str, *, is_exact: bool) -> Check:
    version = data.get("version")
    what = f"version {version} of the table can't be opened ({clean(seen['reason'], 200)}); now it is {seen['current']}"
    changed = _change(data.get("num_rows"), seen["current_rows"])
    if not is_exact:
        remedy = "the epoch is read from its start, of the version that the table has then"
        return warn("data.version", f"{what}, {changed}", where, remedy)
    return refuse("data.version", f"{what}, {changed}: the whole epoch would be reshuffled", RESHUFFLED, REPLAY)


def _change(then: Any, now: Any) -> str:
    if type(then) is not int or type(now) is not int:
        return "how many rows came or went isn't known"
    if then == now:
        return f"{now:,} rows as before, which need not be the same ones"
    return f"{now - then:+,} rows ({then:,} then, {now:,} now)"


def _version(data: Mapping[str, Any], seen: Mapping[str, Any], where: str) -> Check:
    version, current = data.get("version"), seen["current"]
    if type(version) is not int:
        what = f"the table's version was not recorded: {current} is read, and a changed table can't be noticed"
        return warn("data.version", what, where, "open the table at the version that the saved training read")
    if version == current:
        return passed("data.version", f"the table is at version {version}, as it was", where)
    added, removed = seen["added"], seen["removed"]
    if added is None:
        since = f"{_change(seen['rows'], seen['current_rows'])} since"
    elif not added and not removed:
        since = "no row came or went"
    else:
        since = f"+{added:,} −{removed:,} rows since"
    return passed("data.version", f"version {version} is read; now version {current}: {since}; pinned", where)


def _rows(plan: ResumePlan, data: Mapping[str, Any], seen: Mapping[str, Any], where: str) -> list[Check]:
    rows, recorded = seen["rows"], data.get("num_rows")
    if type(recorded) is int and recorded != rows:
        what = f"{rows:,} rows are there at this version, the old run read {recorded:,}: not the same table"
        return [refuse("data.rows", what, where, REPLAY)]
    state = plan.dataset or {}
    splits, positions = state.get("num_splits"), state.get("positions_consumed_per_split")
    if "pack_sequences" in state or not splits or not positions:
        return [passed("data.rows", f"{rows:,} rows", where)]
    size = rows // splits
    if max(positions) > size:
        what = f"a position lies at row {max(positions):,} of a split, and a split of this table has {size:,}"
        return [refuse("data.rows", what, f"{rows:,} rows in {splits} splits; {where}", REPLAY)]
    return [passed("data.rows", f"{rows:,} rows, {size:,} a split: every position lies within", where)]


def _same(data: Mapping[str, Any], seen: Mapping[str, Any], where: str) -> list[Check]:
    recorded = data.get("sample")
    if not isinstance(recorded, str) or seen["sample"] is None:
        return []
    if recorded == seen["sample"]:
        return [passed("data.same", "sampled rows are the same as then", where)]
    what = "as many rows, but others than then: another table under the same name and version"
    evidence = f"fingerprint {clean(recorded, 40)} then, {seen['sample']} now; {where}"
    return [refuse("data.same", what, evidence, REPLAY)]


def _columns(data: Mapping[str, Any], seen: Mapping[str, Any], where: str) -> list[Check]:
    wanted, there = data.get("columns"), seen["columns"]
    if not isinstance(wanted, list | tuple):
        return []
    lacking = [clean(one, 60) for one in wanted if one not in there]
    if not lacking:
        return []
    what = f"the table has no column {', '.join(lacking)}: reading would fail at the first row"
    return [refuse("data.columns", what, where, f"it has {clean(', '.join(map(str, there)), 200)}")]


def _tag(data: Mapping[str, Any], seen: Mapping[str, Any], where: str) -> list[Check]:
    if type(data.get("version")) is not int or seen["current"] == data["version"]:
        return []
    if seen["tags"]:
        return [passed("data.tag", f"a tag keeps version {data['version']}: {clean(seen['tags'][0], 100)}", where)]
    what = f"no tag keeps version {data['version']}: optimize() and a cleanup remove versions older than 7 days"
    return [warn("data.tag", what, where, "the resumed run tags it, if its script uses CheckpointManager")]


def _text(data: Mapping[str, Any], key: str) -> str | None:
    value = data.get(key)
    return value if isinstance(value, str) and value else None
