"""One sshd for all tests in here; missing it is said loudly, and is a failure where it must be there."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.ssh.server import Server, why_not

MUST = ("CI", "LAVENDER_TUI_NEED_SSHD")


def must_be_there() -> None:
    if (why := why_not()) is not None:
        if any(os.environ.get(name) for name in MUST):
            pytest.fail(f"ssh is not tested: {why}")
        pytest.skip(f"SSH IS NOT TESTED: {why}")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    must_be_there()
    server = Server(tmp_path_factory.mktemp("sshd"))
    try:
        server.wait()
        yield server
    finally:
        server.stop()
