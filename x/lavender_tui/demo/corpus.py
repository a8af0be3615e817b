"""A corpus made on the spot: sentences from a small grammar, in a Lance table. No download, always the same rows."""

from __future__ import annotations

import argparse
import random

TABLE_NAME = "corpus"

_ADJECTIVES = ["grey", "quiet", "early", "patient", "narrow", "bright", "distant", "careful", "hollow", "stubborn"]
_NOUNS = ["heron", "river", "lantern", "miller", "orchard", "ferry", "winter", "harbour", "violin", "sparrow"]
_VERBS = ["follows", "carries", "remembers", "crosses", "watches", "mends", "forgets", "answers", "gathers", "leaves"]
_ENDINGS = ["at dusk", "in the rain", "before the thaw", "without a word", "by candlelight", "once more", "again"]


def sentence(chance: random.Random) -> str:
    """One sentence: "the grey heron follows the river at dusk.", at most 63 bytes of ASCII."""
    subject = f"{chance.choice(_ADJECTIVES)} {chance.choice(_NOUNS)}"
    return f"the {subject} {chance.choice(_VERBS)} the {chance.choice(_NOUNS)} {chance.choice(_ENDINGS)}."


def make_corpus(uri: str, rows: int = 2048, seed: int = 0) -> int:
    """Write `rows` rows (`id`: 0, 1, 2, …; `text`) as the table "corpus" under `uri`, replacing an older one.

    Returns the table's version. The same `rows` and `seed` give the same rows on every machine.
    """
    import lancedb
    import pyarrow

    chance = random.Random(seed)
    columns = {
        "id": pyarrow.array(range(rows), pyarrow.int64()),
        "text": pyarrow.array([sentence(chance) for _ in range(rows)], pyarrow.string()),
    }
    table = lancedb.connect(uri).create_table(TABLE_NAME, pyarrow.table(columns), mode="overwrite")
    return int(table.version)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the demo's corpus as a Lance table.")
    parser.add_argument("uri", help="the directory of the database")
    parser.add_argument("--rows", type=int, default=2048)
    arguments = parser.parse_args()
    make_corpus(arguments.uri, arguments.rows)
