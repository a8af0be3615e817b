"""What checkpoints hold: a small net of two layers, its optimizer, and all else that a resume wants."""

from __future__ import annotations

from typing import Any

import torch


def net() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model(torch.randn(2, 16)).sum().backward()
    optimizer.step()
    return model, optimizer


def parts() -> dict[str, Any]:
    model, optimizer = net()
    return {"model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict()}


def full(**more: Any) -> dict[str, Any]:
    model, optimizer = net()
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    for _ in range(300):
        optimizer.step()
        schedule.step()
    return {
        "model_state_dict": model.state_dict(), "optimizer_state_dict": optimizer.state_dict(), "epochs": 10,
        "scheduler_state_dict": schedule.state_dict(), "rng": [{"torch": torch.get_rng_state()}], **more,
    }  # fmt: skip
