"""`ttt` (ViT^3, Han et al. 2026): an inner model trained on the image's tokens by one step."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linvit.operators.base import INIT_STD, Draw, Operator
from linvit.operators.grid import TAPS, convolve, correlate, to_image, to_patches

STEP = 1 / 3


class Ttt(Operator):
    """Branch 1: a gated linear unit per head; branch 2: a depthwise 3 x 3 kernel on patches.

    inner_std: standard deviation of the inner weights, or "fan_in" for 1 / sqrt(inputs), with
    which a random module starts alive.
    """

    needs_grid = True
    inner_std: ClassVar[float | str] = INIT_STD
    option_values: ClassVar[dict[str, Any]] = {"inner_std": (float, "fan_in")}
    extra_parameters = ("w1", "w2", "w3")

    @staticmethod
    def shared_slices(dim: int) -> dict[str, tuple[slice, ...]]:
        rows, everything = slice(0, 3 * dim), slice(None)
        return {
            "qkv.weight": (rows, everything),
            "qkv.bias": (rows,),
            "proj.weight": (everything, slice(0, dim)),
        }

    def add_extra(self, dim: int, place: dict[str, Any]) -> None:
        heads, width = self.num_heads, self.head_dim
        has_bias = self.qkv.bias is not None, self.proj.bias is not None
        self.qkv = nn.Linear(dim, 3 * (dim + width), bias=has_bias[0], **place)
        self.proj = nn.Linear(dim + width, dim, bias=has_bias[1], **place)
        self.w1 = nn.Parameter(torch.empty(1, heads, width, width, **place))
        self.w2 = nn.Parameter(torch.empty(1, heads, width, width, **place))
        self.w3 = nn.Parameter(torch.empty(width, 1, 3, 3, **place))

    def reset_extra(self, draw: Draw) -> None:
        inputs = {"w1": self.head_dim, "w2": self.head_dim, "w3": TAPS}
        for name, count in inputs.items():
            weight = getattr(self, name)
            std = count**-0.5 if self.inner_std == "fan_in" else self.inner_std
            weight.data.copy_(draw(name, tuple(weight.shape), std))

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        width = x.shape[-1]
        first, second = qkv.split([3 * width, 3 * self.head_dim], -1)
        second = self.mix_depthwise(second[:, self.prefix_tokens :])
        second = F.pad(second, (0, 0, self.prefix_tokens, 0))
        return torch.cat([self.mix_linear(first), second], -1)

    def mix_linear(self, qkv: Tensor) -> Tensor:
        """Branch 1: (B, N, 3C) to (B, N, C)."""
        batch, tokens, _ = qkv.shape
        q, k, v = heads_first(qkv, self.num_heads)
        weights = torch.cat([self.w1[0], self.w2[0]], -1).to(qkv.dtype)
        stepped = weights.unsqueeze(1) - self.inner_step(k, v, weights)
        q = q.view(-1, tokens, self.head_dim)
        z1, z2 = torch.bmm(q, stepped.flatten(0, 1)).chunk(2, -1)
        return merge_heads_first(z1 * F.silu(z2), batch)

    def inner_step(self, k: Tensor, v: Tensor, weights: Tensor) -> Tensor:
        """k, v (H, B * N, D), [W1 | W2] (H, D, 2D); the clipped gradients (H, B, D, 2D)."""
        heads, rows, width = k.shape
        tokens = self.prefix_tokens + self.grid[0] * self.grid[1]
        z1, z2 = torch.bmm(k, weights).chunk(2, -1)
        gate = torch.sigmoid(z2)
        active = z2 * gate
        # (z2 g, and the derivative g (1 + z2 (1 - g)) written without a further product.)
        errors = torch.cat([v * active, v * z1 * (gate + active - active * gate)], -1)
        per_image = (heads * rows // tokens, tokens, -1)
        gradient = torch.bmm(k.view(per_image).mT, errors.view(per_image))
        gradient = (gradient * (-STEP / tokens)).view(heads, -1, width, 2 * width)
        return clipped(gradient, -2)

    def mix_depthwise(self, qkv: Tensor) -> Tensor:
        """Branch 2: patches (B, h * w, 3D) to (B, h * w, D)."""
        batch, patches, _ = qkv.shape
        q, k, v = (to_image(part, self.grid) for part in qkv.chunk(3, -1))
        gradient = correlate(k, v) * (-STEP / patches)
        start = self.w3.to(qkv.dtype).repeat(batch, 1, 1, 1)
        return to_patches(convolve(q, start - clipped(gradient, (2, 3))), batch)


class SoftClip(torch.autograd.Function):
    """G / (||G|| + 1) along `dim`; by hand because torch's strided norm is the slowest op here."""

    @staticmethod
    def forward(ctx, gradient: Tensor, dim: int) -> Tensor:
        norm = gradient.square().sum(dim, keepdim=True).sqrt_()
        clipped = gradient / (norm + 1)
        ctx.dim = dim
        ctx.save_for_backward(clipped, norm)
        return clipped

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor, None]:
        clipped, norm = ctx.saved_tensors
        inner = (upstream * clipped).sum(ctx.dim, keepdim=True)
        # d/dG = (I - G G^T / (n (n + 1))) / (n + 1), and clipped = G / (n + 1): 0 / 0 at G = 0.
        factor = torch.where(norm > 0, inner / norm, 0)
        return (upstream / (norm + 1)).addcmul_(clipped, factor, value=-1), None


def clipped(gradient: Tensor, dim: int) -> Tensor:
    """Soft clip: each column along `dim` divided by its norm plus one."""
    return SoftClip.apply(gradient, dim)


def heads_first(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N, 3C) to q, k, v (H, B * N, D), so that one product serves all images."""
    batch, tokens, width = qkv.shape
    heads = qkv.unflatten(-1, (3, num_heads, -1)).permute(2, 3, 0, 1, 4).contiguous()
    return heads.view(3, num_heads, batch * tokens, width // (3 * num_heads)).unbind(0)


def merge_heads_first(out: Tensor, batch: int) -> Tensor:
    """(H * B, N, D) to (B, N, C)."""
    return out.unflatten(0, (-1, batch)).permute(1, 2, 0, 3).flatten(2)
