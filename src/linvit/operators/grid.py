"""Depthwise convolutions on the patch grid: shared weights, or one kernel per image."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_weight

TAPS = 9


def conv_shared(patches: Tensor, conv: nn.Conv2d, grid: tuple[int, int]) -> Tensor:
    """Depthwise `conv` over patch tokens (B, h * w, C), which keep their shape."""
    weight, bias = conv.weight.to(patches.dtype), conv.bias.to(patches.dtype)
    image = patches.transpose(1, 2).unflatten(2, grid)
    out = F.conv2d(image, weight, bias, 1, conv.padding, 1, conv.groups)
    return out.flatten(2).transpose(1, 2)


def to_image(patches: Tensor, grid: tuple[int, int]) -> Tensor:
    """Patch tokens (B, h * w, D) to one image (1, B * D, h, w), channels last in memory."""
    batch, _, width = patches.shape
    return patches.transpose(0, 1).reshape(1, *grid, batch * width).permute(0, 3, 1, 2)


def to_patches(image: Tensor, batch: int) -> Tensor:
    """(1, B * D, h, w) back to patch tokens (B, h * w, D)."""
    return image.permute(0, 2, 3, 1).reshape(-1, batch, image.shape[1] // batch).transpose(0, 1)


def convolve(image: Tensor, kernel: Tensor) -> Tensor:
    """(1, K, h, w) with an own 3 x 3 kernel (K, 1, 3, 3) per channel, zero padded."""
    return _Convolve.apply(image, kernel)


def correlate(image: Tensor, other: Tensor) -> Tensor:
    """The gradient of sum(convolve(image, kernel) * other) by the kernel, (K, 1, 3, 3)."""
    return _Correlate.apply(image, other)


def _conv(image: Tensor, kernel: Tensor) -> Tensor:
    return F.conv2d(image, kernel, padding=1, groups=kernel.shape[0])


def _taps(image: Tensor, other: Tensor) -> Tensor:
    channels = image.shape[1]
    return conv2d_weight(image, (channels, 1, 3, 3), other, padding=1, groups=channels)


class _Convolve(torch.autograd.Function):
    """Its gradients are forwards, which are several times faster than autograd's on CPUs."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, kernel: Tensor) -> Tensor:
        ctx.save_for_backward(image, kernel)
        return _conv(image, kernel)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        image, kernel = ctx.saved_tensors
        return convolve(gradient, kernel.flip(2, 3)), correlate(image, gradient)


class _Correlate(torch.autograd.Function):
    """Linear in both arguments, so its gradients are convolutions."""

    @staticmethod
    def forward(ctx: Any, image: Tensor, other: Tensor) -> Tensor:
        ctx.save_for_backward(image, other)
        return _taps(image, other)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        image, other = ctx.saved_tensors
        return convolve(other, gradient.flip(2, 3)), convolve(image, gradient)
