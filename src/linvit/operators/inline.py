"""`inline` (Han et al. 2024): linear attention whose rows are made to sum to one by subtraction."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from linvit.operators.base import Operator, full_precision, merge_heads, split_heads, wide_dtype

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
        return merge_heads(self.mix_heads(*split_heads(qkv, self.num_heads)), self.num_heads)

    def mix_heads(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Each (B * H, N, D); o = phi(q)^T s cov(phi(k), v) + mean v."""
        phi = FEATURE_MAPS[self.phi]
        q, k = phi(q), phi(k)
        # phi(k) centred over the tokens makes the row mean of W vanish.
        centred = k - k.mean(1, keepdim=True)
        mixing = torch.bmm(centred.mT, v)
        return torch.baddbmm(v.mean(1, keepdim=True), q, mixing, alpha=self.scale / v.shape[1])

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N); entries may be negative."""
        qkv = self.qkv(x)
        phi = FEATURE_MAPS[self.phi]
        with full_precision(qkv):
            q, k, _ = split_heads(qkv.to(wide_dtype(qkv)), self.num_heads)
            scores = phi(q) @ phi(k).mT * (self.scale / x.shape[1])
            rows = scores - scores.mean(-1, keepdim=True) + 1 / x.shape[1]
        return rows.unflatten(0, (-1, self.num_heads))
