"""Mutations of real files: an answer within the limits, and never anything else."""

from __future__ import annotations

import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lavender_tui.checkpoints import Limits, read_checkpoint
from lavender_tui.checkpoints.inert import Machine
from lavender_tui.checkpoints.words import key_tree, to_plain
from lavender_tui.errors import UnreadableFile
from lavender_tui.model.export import checkpoint_document
from lavender_tui.model.text import strict_json
from tests.checkpoints.assemble import good, legacy, payloads, pickled, zipped

SAMPLES = Path(__file__).parents[1] / "data" / "samples" / "variants"
TIGHT = Limits(max_ops=200_000, max_blob_bytes=1 << 20, deadline_seconds=2.0, max_nodes=100_000)


def _pickles() -> list[bytes]:
    """data.pkl of small real files of every kind."""
    found = []
    for path in sorted(SAMPLES.glob("*.pt")):
        if zipfile.is_zipfile(path) and path.stat().st_size < 20_000:
            with zipfile.ZipFile(path) as archive:
                found += [archive.read(name) for name in archive.namelist() if name.endswith("/data.pkl")]
    assert len(found) > 30
    return found


PICKLES = _pickles()
FILES = [path.read_bytes() for path in sorted(SAMPLES.glob("*.pt")) if path.stat().st_size < 8000]
FILES += [zipped(pickled(good())), legacy(pickled(good()))]

MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(["set", "insert", "delete", "double"]),
        st.integers(0, 1 << 20),
        st.binary(min_size=1, max_size=6),
    ),
    min_size=1,
    max_size=8,
)


def mutated(content: bytes, mutations: list[tuple[str, int, bytes]]) -> bytes:
    for kind, place, raw in mutations:
        at = place % (len(content) + 1)
        if kind == "set":
            content = content[:at] + raw + content[at + len(raw) :]
        elif kind == "insert":
            content = content[:at] + raw + content[at:]
        elif kind == "delete":
            content = content[:at] + content[at + 4 * len(raw) :]
        else:
            content = content[:at] + content[max(0, at - 64) :]
    return content


@pytest.mark.long
@given(st.sampled_from(PICKLES), MUTATIONS)
@settings(max_examples=6000, deadline=None)
def test_mutated_pickles(data: bytes, mutations: list[tuple[str, int, bytes]]) -> None:
    start = time.perf_counter()
    try:
        value, _ = Machine(TIGHT).run(mutated(data, mutations))
        key_tree(value)
        to_plain(value, TIGHT)
    except UnreadableFile as error:
        assert error.what and "\n" not in error.what
    assert time.perf_counter() - start < 10


@pytest.mark.long
@given(st.sampled_from(FILES), MUTATIONS, st.booleans())
@settings(max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files(
    tmp_path: Path, content: bytes, mutations: list[tuple[str, int, bytes]], is_recent: bool
) -> None:
    path = tmp_path / "pretrain-10-00-00-0007.pt"
    path.write_bytes(mutated(content, mutations))
    found = read_checkpoint(str(path), now=path.stat().st_mtime + (0 if is_recent else 1e6), limits=TIGHT)
    assert found.is_whole == (found.reason is None)
    strict_json(checkpoint_document(found, with_keys=True)).encode("utf-8")


@pytest.mark.long
@given(st.sampled_from(sorted(payloads("x"))), MUTATIONS)
@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_payloads_run_nothing(tmp_path: Path, kind: str, mutations: list[tuple[str, int, bytes]]) -> None:
    marker = tmp_path / "marker"
    data = pickled(good(extra=payloads(str(marker))[kind]))
    try:
        Machine(TIGHT).run(mutated(data, mutations))
    except UnreadableFile:
        pass
    assert not marker.exists()


@pytest.mark.long
@given(st.binary(max_size=400))
@settings(max_examples=3000, deadline=None)
def test_noise_is_no_pickle_or_a_small_one(data: bytes) -> None:
    try:
        Machine(TIGHT).run(b"\x80\x04" + data)
    except UnreadableFile:
        pass
