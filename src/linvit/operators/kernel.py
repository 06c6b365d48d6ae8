"""Kernelised attention (Katharopoulos et al. 2020): softmax replaced by phi(q) . phi(k)."""

import torch
from torch import Tensor

from linvit.operators.base import Operator, full_precision, merge_heads, split_heads, wide_dtype

EPS = 1e-6


class KernelAttention(Operator):
    """o = phi(q)^T S / (phi(q)^T z + eps) with S = sum phi(k) v^T, z = sum phi(k)."""

    @staticmethod
    def feature_map(x: Tensor) -> Tensor:
        """phi, elementwise and not negative."""
        raise NotImplementedError

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        q, k, v = split_heads(qkv, self.num_heads)
        q, k = self.feature_map(q), self.feature_map(k)
        numerator = torch.bmm(q, torch.bmm(k.mT, v))
        denominator = torch.bmm(q, k.sum(1).unsqueeze(-1))
        # Not times a reciprocal: a dead ReLU query would give inf * 0.
        return merge_heads(numerator / (denominator + EPS), self.num_heads)

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N); rows sum to one, up to eps."""
        qkv = self.qkv(x)
        with full_precision(qkv):
            q, k, _ = split_heads(qkv.to(wide_dtype(qkv)), self.num_heads)
            scores = self.feature_map(q) @ self.feature_map(k).mT
            rows = scores / (scores.sum(-1, keepdim=True) + EPS)
        return rows.unflatten(0, (-1, self.num_heads))
