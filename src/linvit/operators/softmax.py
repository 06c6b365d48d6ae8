"""Softmax attention: timm's own, with the taps the linear operators offer."""

from typing import Any

import torch.nn.functional as F
from timm.layers import Attention
from torch import Tensor

from linvit.operators.base import Operator


class Softmax(Operator):
    """timm's `Attention`, bit for bit; it honours masks and all constructor arguments."""

    forward = Attention.forward

    @classmethod
    def check_constructor(cls, options: dict[str, Any]) -> None:
        pass

    def mix(self, x: Tensor) -> Tensor:
        """Merged heads (B, N, C) before `proj`."""
        q, k, v = self._heads(x)
        out = F.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).reshape(x.shape)

    def attention_map(self, x: Tensor) -> Tensor:
        """The explicit map (B, H, N, N)."""
        q, k, _ = self._heads(x)
        return (self.scale * q @ k.transpose(-2, -1)).softmax(-1)

    def _heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        shape = (*x.shape[:2], 3, self.num_heads, self.head_dim)
        q, k, v = self.qkv(x).view(shape).permute(2, 0, 3, 1, 4).unbind(0)
        return self.q_norm(q), self.k_norm(k), v
