"""A recipe's optimiser and schedule, both timm's."""

from timm.models import VisionTransformer
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.scheduler.scheduler import Scheduler
from torch.optim import Optimizer


def make_optimizer(model: VisionTransformer, recipe: dict) -> Optimizer:
    """AdamW; no weight decay on 1-D tensors, position embedding and class token (timm's rule)."""
    return create_optimizer_v2(
        model, opt="adamw", lr=recipe["lr"], weight_decay=recipe["weight_decay"], fused=True
    )


def make_scheduler(optimizer: Optimizer, recipe: dict, steps_per_epoch: int) -> Scheduler:
    """Linear warm-up from 0 inside a cosine to min_lr; `step_update(n)` sets the rate of step n."""
    scheduler, _ = create_scheduler_v2(
        optimizer,
        sched="cosine",
        num_epochs=recipe["epochs"],
        warmup_epochs=recipe["warmup_epochs"],
        warmup_lr=0.0,
        min_lr=recipe["min_lr"],
        step_on_epochs=False,
        updates_per_epoch=steps_per_epoch,
    )
    return scheduler
