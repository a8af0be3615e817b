"""A model's and an optimizer's state without the wrappers around them, so that any topology can load it."""

from __future__ import annotations

from typing import Any

WRAPPERS = ("DistributedDataParallel", "DataParallel")


def bare(model: Any) -> Any:
    """The script's own module inside DistributedDataParallel and torch.compile: its keys have no `module.` or
    `_orig_mod.` in front, and load into the model as it is written."""
    while True:
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif type(model).__name__ in WRAPPERS:
            model = model.module
        else:
            return model


def is_sharded(model: Any) -> bool:
    """Does every rank hold only a part (FSDP, old or new)? Then reading the state is a collective of all ranks."""
    if model is None:
        return False
    return any(type(module).__name__ == "FullyShardedDataParallel" for module in model.modules()) or any(
        hasattr(parameter, "full_tensor") for parameter in model.parameters()
    )


def take(model: Any, optimizer: Any) -> tuple[Any, Any]:
    """(model state, optimizer state), each None where there is none. Collective where the model is sharded.

    Of a sharded model rank 0 gets everything, on the CPU, and the other ranks empty dicts.
    """
    if is_sharded(model):
        return _take_sharded(model, optimizer)
    return (
        None if model is None else bare(model).state_dict(),
        None if optimizer is None else optimizer.state_dict(),
    )


def put_back(model: Any, optimizer: Any, model_state: Any, optimizer_state: Any) -> None:
    """Load both states, the model's first: a new Adam has no moments of its own that could be lost."""
    if is_sharded(model):
        _put_back_sharded(model, optimizer, model_state, optimizer_state)
        return
    if model is not None and model_state is not None:
        bare(model).load_state_dict(model_state)
    if optimizer is None or optimizer_state is None:
        return
    if _is_by_name(optimizer_state):
        from torch.distributed.checkpoint.state_dict import set_optimizer_state_dict

        set_optimizer_state_dict(bare(model), optimizer, optimizer_state)
    else:
        optimizer.load_state_dict(optimizer_state)


def _is_by_name(optimizer_state: dict[str, Any]) -> bool:
    """Saved from a sharded model: the moments lie under the parameters' names, not their numbers."""
    return any(isinstance(key, str) for key in optimizer_state.get("state", {}))


def _take_sharded(model: Any, optimizer: Any) -> tuple[Any, Any]:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_optimizer_state_dict

    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    optimizer_state = None if optimizer is None else get_optimizer_state_dict(model, optimizer, options=whole)
    return get_model_state_dict(model, options=whole), optimizer_state


def _put_back_sharded(model: Any, optimizer: Any, model_state: Any, optimizer_state: Any) -> None:
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict, set_optimizer_state_dict

    whole = StateDictOptions(full_state_dict=True)
    if model_state is not None:
        set_model_state_dict(model, model_state, options=whole)
    if optimizer is not None and optimizer_state is not None:
        by_name = optimizer_state if _is_by_name(optimizer_state) else _by_name(model, optimizer, optimizer_state)
        set_optimizer_state_dict(model, optimizer, by_name, options=whole)


def _by_name(model: Any, optimizer: Any, optimizer_state: dict[str, Any]) -> dict[str, Any]:
    """A state by the parameters' numbers, as an unsharded run saves it, under their names in this model."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    numbered = [names[id(parameter)] for group in optimizer.param_groups for parameter in group["params"]]
    return {
        "state": {numbered[number]: moments for number, moments in optimizer_state["state"].items()},
        "param_groups": [
            {**group, "params": [numbered[number] for number in group["params"]]}
            for group in optimizer_state["param_groups"]
        ],
    }
