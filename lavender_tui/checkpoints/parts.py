"""Files that are no checkpoint of their own: one of several in which another program keeps one.

Such a file may hold a model, or a share of one; taken alone it would start a training from a part of its state. So it
is never usable, and says what it is. A name tells it where only that program writes such names, the content elsewhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lavender_tui.checkpoints.formats import Content

_DIRECTORIES = "such directories can't be resumed from yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One program's way to spread a checkpoint over files. `format` is what a run of only such files is shown as."""

    format: str
    of: str  # "of a DeepSpeed directory checkpoint; …"

    @property
    def reason(self) -> str:
        """Why one such file isn't usable."""
        return f"it is a part {self.of}"

    def said_of(self, names: list[str]) -> str:
        """One sentence on all such files of a directory; `names` are shown as they are."""
        more = len(names) - 1
        if not more:
            return f"{names[0]} is a part {self.of}"
        return f"{names[0]} and {more:,} more {'file' if more == 1 else 'files'} are parts {self.of}"


DEEPSPEED = Family(format="deepspeed", of=f"of a DeepSpeed directory checkpoint; {_DIRECTORIES}")
ACCELERATE = Family(format="accelerate", of=f"of an Accelerate directory checkpoint; {_DIRECTORIES}")
HF_TRAINER = Family(format="hf-trainer", of=f"of a Hugging Face Trainer directory checkpoint; {_DIRECTORIES}")
DCP = Family(format="dcp", of=f"of a directory checkpoint of torch.distributed (DCP, torchtitan); {_DIRECTORIES}")
LIGHTNING = Family(format="lightning-sharded", of=f"of a sharded Lightning checkpoint; {_DIRECTORIES}")
MEGATRON = Family(format="megatron", of=f"of a Megatron-LM directory checkpoint; {_DIRECTORIES}")
COMPOSER = Family(format="composer", of="of a Composer checkpoint of one file a rank; such can't be resumed from yet")
RANKS = Family(
    format="rank-files", of="of another program's checkpoint of one file a rank; such can't be resumed from yet"
)

FAMILIES = {one.format: one for one in (DEEPSPEED, ACCELERATE, HF_TRAINER, DCP, LIGHTNING, MEGATRON, COMPOSER, RANKS)}

# ASCII digits only. These names nobody else gives; a file that has one is not opened to learn what it is.
_NAMES = (
    (
        re.compile(
            r"(?:(?:bf16|fp16)_)?(?:zero_pp_rank|mp_rank|expp_rank|layer|expert)_[0-9].*(?:model|optim)_states\.pt"
        ),
        DEEPSPEED,
    ),
    (re.compile(r"(?:optimizer|scheduler|sampler)(?:_[0-9]{1,9})?\.bin"), ACCELERATE),
    (re.compile(r"(?:random_states|custom_checkpoint)_[0-9]{1,9}\.pkl"), ACCELERATE),
    (re.compile(r"training_args\.bin"), HF_TRAINER),
    (re.compile(r"__[0-9]{1,9}_[0-9]{1,9}\.distcp|\.metadata"), DCP),
    (re.compile(r"model_optim_rng\.pt"), MEGATRON),
    (re.compile(r"(?:ep[0-9]{1,9}-ba[0-9]{1,9}|latest)-rank[0-9]{1,9}\.pt"), COMPOSER),
)
_ENDINGS = (".pt", ".bin", ".pkl", ".distcp", ".metadata")
# Others may call a whole checkpoint so: a part is what has the name and holds no model.
_LIKELY_NAMES = re.compile(r"(?:optimizer|scheduler|scaler)\.pt|rng_state(?:_[0-9]{1,9})?\.pth")
_DEEPSPEED_MARKS = (("module", "dp_world_size", "mp_world_size"), ("optimizer_state_dict", "ds_version"))


def family_of_name(name: str) -> Family | None:
    """The program that alone writes files of this name, as parts; None for all other names. Opens nothing."""
    if not name.endswith(_ENDINGS):
        return None
    return next((family for pattern, family in _NAMES if pattern.fullmatch(name)), None)


def likely_family(name: str) -> Family | None:
    """The same, also by names that a whole checkpoint might bear: for files whose content can't be read."""
    return family_of_name(name) or (HF_TRAINER if _LIKELY_NAMES.fullmatch(name) else None)


def family_of(content: Content, format: str, *, has_model: bool, is_one_of_ranks: bool) -> Family | None:
    """Whose part this file is, by its name and content; None for what stands for itself.

    `format` is the one that was recognised; `is_one_of_ranks`: its name says so, and other ranks' files lie beside it.
    """
    family = family_of_name(content.name)
    if family is not None:
        return family
    if any(all(mark in content.top for mark in marks) for marks in _DEEPSPEED_MARKS):
        return DEEPSPEED
    if format == MEGATRON.format:
        return MEGATRON
    if not has_model:
        if format == "lightning" and "state_dict" not in content.top:
            return LIGHTNING
        return likely_family(content.name)
    if is_one_of_ranks and format not in ("lavender", "lancedb"):
        return COMPOSER if format == COMPOSER.format else RANKS
    return None
