"""A run's progress in one line, for the log of training and for `linvit status` (no torch)."""

from collections.abc import Mapping
from typing import Any


def line(state: Mapping[str, Any]) -> str:
    """epoch 40/100  loss 0.412  val 78.3 %  2,105 images/s  0:01:12 left"""
    return (
        f"epoch {state['epoch']:g}/{state['epochs']}  loss {state['train_loss']:.3f}  "
        f"val {state['val_top1']:.1f} %  {state['images_per_s']:,.0f} images/s  "
        f"{duration(state['seconds_left'])} left"
    )


def duration(seconds: float) -> str:
    """h:mm:ss, cut to whole seconds."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
