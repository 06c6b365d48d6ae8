"""Random: timm's default ViT initialisation, every tensor drawn from (seed, "init", name).

Linear weights and position embeddings are trunc-normal with std 0.02, the class token normal with
std 1e-6, biases zero, LayerNorm 1 and 0, the patch embedding PyTorch's uniform with bound
1/sqrt(fan_in). Because a tensor depends on its name alone, students of all operators and inits
share every tensor that they have in common; an enlarged one shares its Softmax slice.
"""

import math

import torch
from timm.models import VisionTransformer
from torch import Tensor, nn

from linvit.rng import generator
from linvit.transfer.partition import shared_slices

STD = 0.02


def trunc_normal(shape: tuple[int, ...], std: float, *key: int | str) -> Tensor:
    """Truncated at +-2 (absolute), as timm does."""
    return nn.init.trunc_normal_(torch.empty(shape), std=std, generator=generator(*key))


@torch.no_grad()
def draw_parameters(model: VisionTransformer, seed: int) -> None:
    """Fill all parameters of `model` in place."""
    for prefix, module in model.named_modules():
        if isinstance(module, nn.Linear):
            module.weight.copy_(
                trunc_normal(module.weight.shape, STD, seed, "init", f"{prefix}.weight")
            )
            if module.bias is not None:
                module.bias.zero_()
        elif isinstance(module, nn.LayerNorm):
            module.reset_parameters()
    _draw_stem(model, seed)
    for index, block in enumerate(model.blocks):
        _draw_extra(block.attn, f"blocks.{index}.attn", seed)
    _draw_shared(model, seed)


def _draw_stem(model: VisionTransformer, seed: int) -> None:
    proj = model.patch_embed.proj
    bound = 1 / math.sqrt(proj.weight[0].numel())
    for name in ("weight", "bias"):
        uniform = torch.empty(getattr(proj, name).shape).uniform_(
            -bound, bound, generator=generator(seed, "init", f"patch_embed.proj.{name}")
        )
        getattr(proj, name).copy_(uniform)
    model.pos_embed.copy_(trunc_normal(model.pos_embed.shape, STD, seed, "init", "pos_embed"))
    if model.cls_token is not None:
        normal = torch.empty(model.cls_token.shape).normal_(
            std=1e-6, generator=generator(seed, "init", "cls_token")
        )
        model.cls_token.copy_(normal)


def _draw_extra(attention: nn.Module, prefix: str, seed: int) -> None:
    def draw(name: str, shape: tuple[int, ...], std: float) -> Tensor:
        return trunc_normal(shape, std, seed, "init", f"{prefix}.{name}")

    attention.reset_extra(draw)


def _draw_shared(model: VisionTransformer, seed: int) -> None:
    """Give the Softmax slice of an enlarged weight the very values a Softmax student draws."""
    parameters = dict(model.named_parameters())
    for name, where in shared_slices(model).items():
        slot = parameters[name][where]
        if slot.ndim > 1:
            slot.copy_(trunc_normal(tuple(slot.shape), STD, seed, "init", name))
            rest = trunc_normal(tuple(parameters[name].shape), STD, seed, "init", name, "extra")
            rest[where] = slot
            parameters[name].copy_(rest)
