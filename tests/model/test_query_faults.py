"""A typo in a filter is named; what is only true of no run isn't."""

from __future__ import annotations

import pytest

from lavender_tui.model.query_faults import fault_of
from tests.model.build import run


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        ("stat:faild", "there is no column stat (did you mean state?)"),
        ("state:faild", "there is no state faild: running, stalled, finished, failed, stopped, idle"),
        ("state=fail", "there is no state fail: running, stalled, finished, failed, stopped, idle"),
        ("!zzqqyy=1", "there is no column zzqqyy, and no run has such a setting"),
        ("loss<two", "loss< wants a number, such as loss<2: two is none"),
        ("saved<1x", "saved< wants an age, such as saved<1h or saved<30m: 1x is none"),
        ("left>=soon", "left>= wants a time, such as left>=3h or left>=30m: soon is none"),
        ("size>much", "size> wants a size, such as size>10GB: much is none"),
        ("loss < 2", "type loss<2, with no space around <"),
        ("stage=sft loss <2", "type loss<2, with no space around <"),
        ("!loss>= 2", "type loss>=2, with no space around >="),
        ("state : failed", "type state:failed, with no space around :"),
        ("state:failed|stopped", "| stands between whole terms: state:failed | state:stopped"),
        ("loss<2|loss>2", None),
        ("loss< | name:x", None),
        ("state:fail", None),
        ("reason:gone", None),
        ("loss<2 name:x", None),
        ("faild", None),
        ("state:", None),
        ("saved<2h | size>10GB", None),
    ],
)
def test_what_can_match_no_run_is_said(query: str, fault: str | None) -> None:
    assert fault_of(query, [run()]) == fault
