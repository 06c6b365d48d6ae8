"""Depthwise convolutions on the patch grid, with weights shared or made per image."""

import torch.nn.functional as F
from torch import Tensor, nn

TAPS = 9


def to_grid(patches: Tensor, grid: tuple[int, int]) -> Tensor:
    """Patch tokens (B, h * w, C) to an image (B, C, h, w)."""
    return patches.transpose(1, 2).unflatten(2, grid)


def to_tokens(image: Tensor, prefix_tokens: int) -> Tensor:
    """An image (B, C, h, w) to tokens (B, prefix + h * w, C), zeros in front."""
    return F.pad(image.flatten(2).transpose(1, 2), (0, 0, prefix_tokens, 0))


def conv_shared(patches: Tensor, conv: nn.Conv2d, grid: tuple[int, int]) -> Tensor:
    """Depthwise `conv` over patch tokens (B, h * w, C), as an image (B, C, h, w)."""
    weight, bias = conv.weight.to(patches.dtype), conv.bias.to(patches.dtype)
    return F.conv2d(to_grid(patches, grid), weight, bias, 1, conv.padding, 1, conv.groups)


def neighbourhoods(image: Tensor) -> Tensor:
    """The 3 x 3 surroundings, zero padded, of every pixel: (B, C, h, w) to (B * C, 9, h * w)."""
    return F.unfold(image.flatten(0, 1).unsqueeze(1), 3, padding=1)
