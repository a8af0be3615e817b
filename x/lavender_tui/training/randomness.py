"""The random generators of one rank: taken as plain values, put back so that the next draw is the one that was due."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any


def take() -> dict[str, Any]:
    """The state of every generator of this process: python, torch, numpy if it was imported, cuda if it was used.

    Tensors, ints and floats only, so that it loads with `weights_only=True` (numpy's own state would not).
    """
    import torch

    version, words, gauss = random.getstate()
    state: dict[str, Any] = {
        "python": {"version": version, "words": torch.tensor(words, dtype=torch.int64), "gauss": gauss},
        "torch": torch.get_rng_state(),
    }
    if "numpy" in sys.modules:
        kind, keys, position, has_gauss, cached = sys.modules["numpy"].random.get_state()
        state["numpy"] = {
            "kind": str(kind),
            "words": torch.tensor(keys.tolist(), dtype=torch.int64),
            "position": int(position),
            "has_gauss": int(has_gauss),
            "gauss": float(cached),
        }
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def put_back(state: dict[str, Any]) -> None:
    """Set every generator that `state` names. cuda's only where this machine has one."""
    import torch

    python = state["python"]
    random.setstate((int(python["version"]), tuple(python["words"].tolist()), python["gauss"]))
    torch.set_rng_state(state["torch"].cpu())
    if "numpy" in state:
        import numpy

        kept = state["numpy"]
        words = kept["words"].numpy().astype("uint32")
        numpy.random.set_state((kept["kind"], words, kept["position"], kept["has_gauss"], kept["gauss"]))
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"].cpu())


def derive(state: dict[str, Any], rank: int, world_size: int) -> None:
    """Seed every generator for a rank of ANOTHER topology: from what rank 0 had, the rank and the world_size.

    There is no exact answer here: four ranks' draws can't be continued by two. Derived, the draws differ between
    ranks, differ from those before the save, and are the same every time the same checkpoint is resumed so.
    """
    import torch

    words = state["torch"].cpu().numpy().tobytes()
    digest = hashlib.sha256(words + f"{rank} of {world_size}".encode()).digest()
    random.seed(digest)
    torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)  # cuda's too
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(list(digest))
