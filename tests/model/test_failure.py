"""The errors of torch's groups of ranks: what they tell, and whether another rank's end is all of it."""

from __future__ import annotations

import pytest

from lavender_tui.model.failure import brief, lost_rank, peer_gone

GLOO = "/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp"
NCCL = "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/c10d/ProcessGroupNCCL.cpp:2251"
REMOTE = "remote process exited or there was a network error"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            f"RuntimeError: [{GLOO}/pair.cc:553] Connection closed by peer [127.0.0.1]:17846. This is typically caused "
            "by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF!",
            "RuntimeError: Connection closed by peer [127.0.0.1]:17846.",
        ),
        (
            f"RuntimeError: [{GLOO}/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
        ),
        (
            f"{NCCL}, {REMOTE}, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error.\n"
            "Last error:\nsocketProgress: Connection closed by remote peer node1<4242>",
            f"torch.distributed.DistBackendError: NCCL error: {REMOTE}; "
            "socketProgress: Connection closed by remote peer node1<4242>",
        ),
        (f"{NCCL}, {REMOTE}, NCCL version 2.21.5", f"torch.distributed.DistBackendError: NCCL error: {REMOTE}"),
        (
            "RuntimeError: boom Exception raised from create at /pytorch/torch/csrc/x.cpp:1 (most recent call first):",
            "RuntimeError: boom",
        ),
        ("ValueError: [see docs/notes.md] a row [3:4] is bad", "ValueError: [see docs/notes.md] a row [3:4] is bad"),
    ],
)
def test_of_a_librarys_error_the_part_that_tells_something(error: str, words: str) -> None:
    assert brief(error) == words


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        ("RuntimeError: [gloo/pair.cc:553] Connection closed by peer [::1]:5", "Connection closed by peer"),
        (f"{NCCL}, {REMOTE}, NCCL version 2.21.5", REMOTE),
        ("RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation", None),
        ("RuntimeError: [gloo/pair.cc:3] Application timeout caused pair closure", None),
        ("torch.distributed.DistNetworkError: Connection reset by peer", None),  # torch's store, in torchrun
        ("ConnectionResetError: [Errno 104] Connection reset by peer", None),  # of a download, say
    ],
)
def test_that_a_rank_was_lost_is_said_only_where_one_surely_went(error: str, lost: str | None) -> None:
    assert lost_rank(error) == lost
    assert lost is None or peer_gone(error) is not None


def test_a_hostile_error_costs_no_more_than_another() -> None:
    for part in ("[", "[a.", "NCCL error in: x:1, ", "Connection ", "NCCL communicator "):
        assert brief(part * 20_000) and lost_rank(part * 20_000) is None
