"""Copy chosen components of a pre-trained Softmax ViT into a student.

The arms differ only in the component set (`linvit.catalog.INITS`): Copy takes the attention,
MLPCopy all that is not attention, MLPCopy-strict fc1 and fc2 alone, FullCopy both.
"""

import math

import torch
from timm.layers import resample_abs_pos_embed
from timm.models import VisionTransformer
from torch import Tensor

from linvit.errors import LinvitError
from linvit.transfer.ledger import Ledger, Line
from linvit.transfer.partition import component, partition, shared_slices


@torch.no_grad()
def copy_components(
    model: VisionTransformer, source: dict[str, Tensor], components: frozenset[str]
) -> Ledger:
    """Overwrite the tensors of `components` with the source's and account for every key.

    Raises:
        LinvitError: a source key of no component, a needed key that is missing, a shape that does
            not fit, or a value that is not finite.
    """
    ledger, groups, shared = Ledger(), partition(model), shared_slices(model)
    ledger.skipped = _skipped(source, groups, components)
    for name, parameter in model.named_parameters():
        before = parameter.norm().item()
        status, reason = "fresh", "not part of this init"
        if groups[name] in components:
            status, reason = _copy(name, parameter, source, shared, model)
        after = parameter.norm().item()
        ledger.lines.append(
            Line(name, groups[name], status, reason, parameter.numel(), before, after)
        )
    return ledger


def _skipped(
    source: dict[str, Tensor], groups: dict[str, str], components: frozenset[str]
) -> dict[str, str]:
    """Source keys that the init leaves, with the reason; what it should take must have a place."""
    skipped = {}
    for key in source:
        group = component(key)
        if group not in components:
            skipped[key] = f"{group} is not part of this init"
        elif key not in groups:
            raise LinvitError(
                f"the source's {key!r} has no place here; source and student must be ViTs of one "
                "depth in timm's layout"
            )
    return skipped


def _copy(
    name: str,
    parameter: Tensor,
    source: dict[str, Tensor],
    shared: dict[str, tuple[slice, ...]],
    model: VisionTransformer,
) -> tuple[str, str]:
    if name not in source:
        raise LinvitError(f"the source has no {name!r}; it is no ViT in timm's layout")
    value, status, reason = source[name], "copied", ""
    if not torch.isfinite(value).all():
        raise LinvitError(f"the source's {name!r} holds NaN or Inf; use undamaged weights")
    slot = parameter
    if name in shared:
        slot, status, reason = parameter[shared[name]], "partly", "the operator enlarges it"
    elif name == "pos_embed" and value.ndim == 3 and value.shape != parameter.shape:
        value, reason = _resample(value, model)
        status = "resized"
    if slot.shape != value.shape:
        raise LinvitError(
            f"{name!r} is {tuple(value.shape)} in the source and {tuple(slot.shape)} here; "
            "source and student must have one width, depth and patch size"
        )
    slot.copy_(value)
    return status, reason


def _resample(pos_embed: Tensor, model: VisionTransformer) -> tuple[Tensor, str]:
    grid, patches = model.patch_embed.grid_size, pos_embed.shape[1] - model.num_prefix_tokens
    if math.isqrt(patches) ** 2 != patches:
        raise LinvitError(
            f"'pos_embed' of the source has {patches} patches, which is no square grid; "
            f"it needs {model.num_prefix_tokens} prefix token(s) and a square image"
        )
    resampled = resample_abs_pos_embed(
        pos_embed, list(grid), num_prefix_tokens=model.num_prefix_tokens
    )
    return resampled, f"bicubic to a grid of {grid[0]} x {grid[1]}"
