"""Kernelised attention (Katharopoulos et al. 2020): softmax replaced by phi(q) . phi(k)."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from linvit.operators.base import (
    Operator,
    full_precision,
    merge_heads,
    split_heads,
    split_merged,
    unsplit_heads,
    wide_dtype,
)

EPS = 1e-6


class KernelAttention(Operator):
    """o = phi(q)^T S / (phi(q)^T z + eps) with S = sum phi(k) v^T, z = sum phi(k)."""

    @staticmethod
    def feature_map(x: Tensor, inplace: bool = False) -> Tensor:
        """phi, elementwise and not negative."""
        raise NotImplementedError

    @staticmethod
    def feature_slope(features: Tensor) -> Tensor:
        """The derivative of phi, as a function of its value."""
        raise NotImplementedError

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        return _Mix.apply(qkv, self.num_heads, type(self))

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N); rows sum to one, up to eps."""
        qkv = self.qkv(x)
        with full_precision(qkv):
            q, k, _ = split_heads(qkv.to(wide_dtype(qkv)), self.num_heads).unbind(0)
            scores = self.feature_map(q) @ self.feature_map(k).mT
            rows = scores / (scores.sum(-1, keepdim=True) + EPS)
        return rows.unflatten(0, (-1, self.num_heads))


class _Mix(torch.autograd.Function):
    """The mixing with its gradient written out: half the passes over memory of autograd's."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, num_heads: int, kind: type[KernelAttention]) -> Tensor:
        heads = split_heads(qkv, num_heads)
        kind.feature_map(heads[:2], inplace=True)
        q, k, v = heads.unbind(0)
        state, total = torch.bmm(k.mT, v), k.sum(1, keepdim=True)
        denominator = torch.bmm(q, total.mT).add_(EPS)
        # Not times a reciprocal: a dead ReLU query would give inf * 0 in half precision.
        out = torch.bmm(q, state).div_(denominator)
        ctx.save_for_backward(heads, state, total, denominator, out)
        ctx.num_heads, ctx.kind = num_heads, kind
        return merge_heads(out, num_heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        heads, state, total, denominator, out = ctx.saved_tensors
        q, k, v = heads.unbind(0)
        numerator = split_merged(gradient, ctx.num_heads).div_(denominator)
        divisor = (numerator * out).sum(-1, keepdim=True).neg_()
        d_state, d_total = torch.bmm(q.mT, numerator), torch.bmm(divisor.mT, q)
        result = torch.empty_like(heads)
        result[0].baddbmm_(numerator, state.mT, beta=0).addcmul_(divisor, total)
        result[1].baddbmm_(v, d_state.mT, beta=0).add_(d_total)
        result[2].baddbmm_(k, d_state, beta=0)
        result[:2].mul_(ctx.kind.feature_slope(heads[:2]))
        return unsplit_heads(result, ctx.num_heads), None, None
