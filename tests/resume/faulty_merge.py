"""The merging child with a fault at one of its own steps: `python -m tests.resume.faulty_merge`."""

from __future__ import annotations

import json
import os

from tests.resume import faulty

if __name__ == "__main__":
    raise SystemExit(faulty.merge(json.loads(os.environ[faulty.SPEC])))
