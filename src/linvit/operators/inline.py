"""`inline` (Han et al. 2024): linear attention whose rows are made to sum to one by subtraction."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
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

FEATURE_MAPS = {
    "identity": lambda x: x,
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.01),
    "exp": lambda x: torch.exp(0.2 * x),
}


class Inline(Operator):
    """W = (s/N) phi(q).phi(k) - its row mean + 1/N: signed, rows sum to one exactly."""

    phi: ClassVar[str] = "identity"
    option_values: ClassVar[dict[str, Any]] = {"phi": tuple(FEATURE_MAPS)}

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        return _Mix.apply(self.features(qkv), self.num_heads, self.scale)

    def features(self, qkv: Tensor) -> Tensor:
        """phi on queries and keys; values stay."""
        if self.phi == "identity":
            return qkv
        width = qkv.shape[-1] // 3
        qk, v = qkv.split([2 * width, width], -1)
        return torch.cat([FEATURE_MAPS[self.phi](qk), v], -1)

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N); entries may be negative."""
        qkv = self.qkv(x)
        with full_precision(qkv):
            qkv = self.features(qkv.to(wide_dtype(qkv)))
            q, k, _ = split_heads(qkv, self.num_heads).unbind(0)
            scores = q @ k.mT * (self.scale / x.shape[1])
            rows = scores - scores.mean(-1, keepdim=True) + 1 / x.shape[1]
        return rows.unflatten(0, (-1, self.num_heads))


class _Mix(torch.autograd.Function):
    """o = q^T (s/N) sum (k - mean k) v^T + mean v: centred keys make the row mean vanish."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, num_heads: int, scale: float) -> Tensor:
        heads = split_heads(qkv, num_heads)
        q, k, v = heads[0], heads[1], heads[2]
        k.sub_(k.mean(1, keepdim=True))
        state = torch.bmm(k.mT, v).mul_(scale / qkv.shape[1])
        ctx.save_for_backward(heads, state)
        ctx.num_heads, ctx.factor = num_heads, scale / qkv.shape[1]
        return merge_heads(torch.baddbmm(v.mean(1, keepdim=True), q, state), num_heads)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        heads, state = ctx.saved_tensors
        q, k, v = heads.unbind(0)
        gradient = split_merged(gradient, ctx.num_heads)
        d_state = torch.bmm(q.mT, gradient).mul_(ctx.factor)
        result = torch.empty_like(heads)
        result[0].baddbmm_(gradient, state.mT, beta=0)
        d_k = result[1].baddbmm_(v, d_state.mT, beta=0)
        d_k.sub_(d_k.mean(1, keepdim=True))
        result[2].baddbmm_(k, d_state, beta=0).add_(gradient.mean(1, keepdim=True))
        return unsplit_heads(result, ctx.num_heads), None, None
