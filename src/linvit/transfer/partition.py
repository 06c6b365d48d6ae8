"""Which component of a ViT a parameter belongs to (a partition, checked for every model)."""

import re

from timm.models import VisionTransformer

from linvit.catalog import COMPONENTS
from linvit.errors import LinvitError

_BLOCK = re.compile(r"blocks\.\d+\.(norm1|norm2|mlp|attn)\.(.+)")
_OUTSIDE = {"patch_embed": "stem", "pos_embed": "stem", "cls_token": "stem"} | {
    "norm": "fnorm",
    "head": "head",
}


def component(name: str, extra: frozenset[str] = frozenset()) -> str:
    """Component of the parameter `name` (timm's naming).

    Args:
        extra: parameters inside `attn` that Softmax lacks, relative to the attention module.
    Raises:
        LinvitError: the name belongs to no component.
    """
    match = _BLOCK.fullmatch(name)
    if match:
        group, rest = match.groups()
        return "extra" if group == "attn" and rest in extra else group
    group = _OUTSIDE.get(name.split(".")[0])
    if group is None:
        raise LinvitError(f"parameter {name!r} belongs to none of {', '.join(COMPONENTS)}")
    return group


def partition(model: VisionTransformer) -> dict[str, str]:
    """Component of every parameter of `model`, by name."""
    extra = frozenset(model.blocks[0].attn.extra_parameters)
    return {name: component(name, extra) for name, _ in model.named_parameters()}


def shared_slices(model: VisionTransformer) -> dict[str, tuple[slice, ...]]:
    """For parameters an operator enlarges: the slice that Softmax has too, by full name."""
    shared = model.blocks[0].attn.shared_slices(model.embed_dim)
    return {
        f"blocks.{index}.attn.{name}": where
        for index in range(len(model.blocks))
        for name, where in shared.items()
    }
