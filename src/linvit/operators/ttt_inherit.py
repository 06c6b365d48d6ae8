"""`ttt_inherit` (T^5, Li et al. 2026): test-time training behind exactly Softmax's projections."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linvit.operators.base import INIT_STD, Draw, Operator
from linvit.operators.grid import conv_shared


class TttInherit(Operator):
    """o = f_{W - G}(q), f(t) = (silu(t W1) * (t W2)) W3, after one step on all tokens."""

    needs_grid = True
    extra_parameters = (
        *("w1", "w2", "w3"),
        *("q_conv2d.weight", "q_conv2d.bias", "k_conv2d.weight", "k_conv2d.bias"),
    )

    def add_extra(self, dim: int, place: dict[str, Any]) -> None:
        shape = (1, self.num_heads, self.head_dim, self.head_dim)
        for name in ("w1", "w2", "w3"):
            setattr(self, name, nn.Parameter(torch.empty(shape, **place)))
        self.q_conv2d = nn.Conv2d(dim, dim, 3, padding=1, groups=dim, **place)
        self.k_conv2d = nn.Conv2d(dim, dim, 3, padding=1, groups=dim, **place)

    def reset_extra(self, draw: Draw) -> None:
        for name in self.extra_parameters:
            parameter = self.get_parameter(name)
            if name.endswith("bias"):
                parameter.data.zero_()
            else:
                parameter.data.copy_(draw(name, tuple(parameter.shape), INIT_STD))

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        q, k, v = qkv.chunk(3, -1)
        variance, mean = torch.var_mean(k, 1, correction=0, keepdim=True)
        q = self.add_local(q, self.q_conv2d)
        k = self.add_local((k - mean) / (variance + 1).sqrt(), self.k_conv2d)
        return self.mix_heads(torch.cat([q, k, v], -1))

    def add_local(self, tokens: Tensor, conv: nn.Conv2d) -> Tensor:
        """x + depthwise 3 x 3 of the patches."""
        local = conv_shared(tokens[:, self.prefix_tokens :], conv, self.grid)
        return tokens + F.pad(local, (0, 0, self.prefix_tokens, 0))

    def mix_heads(self, qkv: Tensor) -> Tensor:
        batch, tokens, _ = qkv.shape
        q, k, v = _heads_first(qkv, self.num_heads)
        gates = torch.cat([self.w1[0], self.w2[0]], -1).to(qkv.dtype)
        last = self.w3[0].to(qkv.dtype)
        step_gates, step_last = self.inner_step(k, v, gates, last)
        gates = (gates.unsqueeze(1) - step_gates).flatten(0, 1)
        last = (last.unsqueeze(1) - step_last).flatten(0, 1)
        z1, z2 = torch.bmm(q.view(-1, tokens, self.head_dim), gates).chunk(2, -1)
        out = torch.bmm(F.silu(z1) * z2, last)
        return _merge_heads_first(out, batch)

    def inner_step(
        self, k: Tensor, v: Tensor, gates: Tensor, last: Tensor
    ) -> tuple[Tensor, Tensor]:
        """k, v (H, B * N, D), [W1 | W2] (H, D, 2D), W3 (H, D, D).

        Returns the gradients (H, B, D, 2D) and (H, B, D, D).
        """
        heads, rows, width = k.shape
        tokens = self.prefix_tokens + self.grid[0] * self.grid[1]
        z1, z2 = torch.bmm(k, gates).chunk(2, -1)
        gate = torch.sigmoid(z1)
        active = z1 * gate
        errors = v * (-self.scale / tokens)
        back = torch.bmm(errors, last.mT)
        slope = back * z2 * (gate + active - active * gate)
        inputs = torch.cat([slope, back * active], -1)
        per_image = (heads * rows // tokens, tokens, -1)
        first = torch.bmm(k.view(per_image).mT, inputs.view(per_image))
        second = torch.bmm((active * z2).view(per_image).mT, errors.view(per_image))
        return first.view(heads, -1, width, 2 * width), second.view(heads, -1, width, width)


def _heads_first(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """(B, N, 3C) to q, k, v (H, B * N, D), so that one product serves all images."""
    heads = qkv.unflatten(-1, (3, num_heads, -1)).permute(2, 3, 0, 1, 4)
    return heads.contiguous().flatten(2, 3).unbind(0)


def _merge_heads_first(out: Tensor, batch: int) -> Tensor:
    """(H * B, N, D) to (B, N, C)."""
    return out.unflatten(0, (-1, batch)).permute(1, 2, 0, 3).flatten(2)
