"""Pieces of ViT^3's block with their gradients written out, which saves passes over memory.

The inner model of a head is f(t) = (t W1) * silu(t W2). `weights` holds [W1 | W2], (H, D, 2D).
Layouts: heads first, (H, B * N, D), where one product serves all images; the same memory as
(H * B, N, D), where each image has its own; images (h * w, B, D) for depthwise convolutions.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

aten = torch.ops.aten
STEP = 1 / 3
TINY = 1e-30


def _views(tokens: Tensor, parts: int, num_heads: int, prefix: int) -> Iterator[Tensor]:
    """(B, N, parts * (C + D)) as heads (parts, H, B, N, D) and images (parts, h * w, B, D).

    One after the other: an exported graph must not write through one while it holds the next.
    """
    head_dim = tokens.shape[-1] // (parts * (num_heads + 1))
    width = parts * num_heads * head_dim
    heads = tokens[..., :width].unflatten(-1, (parts, num_heads, head_dim))
    yield heads.permute(2, 3, 0, 1, 4)
    image = tokens[:, prefix:, width:].unflatten(-1, (parts, head_dim))
    yield image.permute(2, 1, 0, 3)


def _take(tokens: Tensor, *layout: int) -> tuple[Tensor, Tensor]:
    """The views as fresh (parts, H, B * N, D) and (parts, h * w, B, D)."""
    heads, image = (
        view.clone(memory_format=torch.contiguous_format) for view in _views(tokens, *layout)
    )
    return heads.flatten(2, 3), image


def _put(heads: Tensor, image: Tensor, prefix: int) -> Tensor:
    """The inverse of `_take`; prefix tokens have zeros in the second branch."""
    parts, num_heads, rows, head_dim = heads.shape
    batch = image.shape[2]
    tokens = heads.new_empty(batch, rows // batch, parts * (num_heads + 1) * head_dim)
    for view, part in zip(_views(tokens, parts, num_heads, prefix), (heads, image), strict=True):
        view.copy_(part.view(view.shape))
    tokens[:, :prefix, parts * num_heads * head_dim :] = 0
    return tokens


class SplitBranches(torch.autograd.Function):
    """(B, N, 3C + 3D) to heads (3, H, B * N, D) and images (3, h * w, B, D)."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, num_heads: int, prefix: int) -> tuple[Tensor, Tensor]:
        ctx.prefix = prefix
        return _take(qkv, 3, num_heads, prefix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_heads: Tensor, d_images: Tensor) -> tuple[Tensor, None, None]:
        return _put(d_heads, d_images, ctx.prefix), None, None


class JoinBranches(torch.autograd.Function):
    """Heads (H, B * N, D) and image (h * w, B, D) to (B, N, C + D)."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, image: Tensor, prefix: int) -> Tensor:
        ctx.layout = 1, len(heads), prefix
        return _put(heads.unsqueeze(0), image.unsqueeze(0), prefix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        heads, image = _take(gradient, *ctx.layout)
        return heads.squeeze(0), image.squeeze(0), None


class TrainAndRead(torch.autograd.Function):
    """q, k, v (3, H, B * N, D) to f_{W - G}(q), (H, B * N, D): G the clipped gradient on (k, v)."""

    @staticmethod
    def forward(ctx: Any, heads: Tensor, weights: Tensor, tokens: int) -> Tensor:
        q, k, v = heads.unbind(0)
        z = torch.bmm(k, weights)
        first, second = z.chunk(2, -1)
        gate = torch.sigmoid(second)
        active = second * gate
        slope = torch.lerp(active, active.new_ones(()), gate)
        errors = torch.cat([v * active, (first * slope).mul_(v)], -1)
        raw = torch.bmm(_each(k, tokens).mT, _each(errors, tokens))
        size = raw.square().sum(1, keepdim=True).sqrt_()
        rate = -STEP / tokens
        step = (raw * (rate / (1 - rate * size))).unflatten(0, (len(weights), -1))
        stepped = (weights.unsqueeze(1) - step).flatten(0, 1)
        y = torch.bmm(_each(q, tokens), stepped)
        saved = heads, weights, z, gate, active, slope, errors, raw, size, stepped, y
        ctx.save_for_backward(*saved)
        first, second = y.chunk(2, -1)
        return (aten.silu(second).mul_(first)).view(q.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        heads, weights, *inner, errors, raw, size, stepped, y = ctx.saved_tensors
        tokens = y.shape[1]
        q, k, v = heads.unbind(0)
        result = torch.empty_like(heads)
        d_y = _read_backward(gradient.reshape(*y.shape[:2], -1), y)
        _each(result[0], tokens).baddbmm_(d_y, stepped.mT, beta=0)
        d_stepped = torch.bmm(_each(q, tokens).mT, d_y)
        d_raw = _clip_backward(d_stepped, raw, size, -STEP / tokens)
        _each(result[1], tokens).baddbmm_(_each(errors, tokens), d_raw.mT, beta=0)
        d_errors = torch.bmm(_each(k, tokens), d_raw).view_as(errors)
        d_z, d_v = _errors_backward(d_errors, v, *inner)
        result[2].copy_(d_v)
        result[1].baddbmm_(d_z, weights.mT)
        d_weights = d_stepped.unflatten(0, (len(weights), -1)).sum(1).baddbmm_(k.mT, d_z)
        return result, d_weights, None


def _each(heads: Tensor, tokens: int) -> Tensor:
    """(H, B * N, X) as (H * B, N, X)."""
    return heads.view(-1, tokens, heads.shape[-1])


def _read_backward(gradient: Tensor, y: Tensor) -> Tensor:
    """Of y1 * silu(y2), by y."""
    first, second = y.chunk(2, -1)
    left = aten.silu(second).mul_(gradient)
    return torch.cat([left, aten.silu_backward(gradient * first, second)], -1)


def _clip_backward(d_stepped: Tensor, raw: Tensor, size: Tensor, rate: float) -> Tensor:
    """Of W - rate * raw / (|rate| * size + 1), size the norm of raw's columns, by raw."""
    shrink = 1 - rate * size
    along = (d_stepped * raw).sum(1, keepdim=True)
    along.mul_(-(rate**2) / (shrink.square() * size.clamp(min=TINY)))
    return (raw * along).addcmul_(d_stepped, -rate / shrink)


def _errors_backward(
    d_errors: Tensor, v: Tensor, z: Tensor, gate: Tensor, active: Tensor, slope: Tensor
) -> tuple[Tensor, Tensor]:
    """Of [v silu(z2) | v z1 silu'(z2)], by z and by v; gate, active, slope: sigmoid, silu, silu'.

    silu''(t) = sigmoid'(t) (2 + t - 2 silu(t)).
    """
    first, second = z.chunk(2, -1)
    left, right = d_errors.chunk(2, -1)
    weighted = right * first
    d_v = (left * active).addcmul_(weighted, slope)
    bend = torch.sub(second, active, alpha=2).add_(2).mul_(weighted)
    d_second = aten.sigmoid_backward(bend, gate).addcmul_(left, slope).mul_(v)
    return torch.cat([(right * slope).mul_(v), d_second], -1), d_v
