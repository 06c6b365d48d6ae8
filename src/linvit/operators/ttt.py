"""`ttt` (ViT^3, Han et al. 2026): an inner model trained on the image's tokens by one step."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from linvit.operators.base import INIT_STD, Draw, Operator
from linvit.operators.grid import TAPS, convolve, correlate
from linvit.operators.ttt_step import STEP, JoinBranches, SplitBranches, TrainAndRead


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
        heads, images = SplitBranches.apply(qkv, self.num_heads, self.prefix_tokens)
        weights = torch.cat([self.w1[0], self.w2[0]], -1).to(qkv.dtype)
        first = TrainAndRead.apply(heads, weights, x.shape[1])
        return JoinBranches.apply(first, self.mix_depthwise(images), self.prefix_tokens)

    def mix_depthwise(self, images: Tensor) -> Tensor:
        """Branch 2: q, k, v (3, h * w, B, D) to (h * w, B, D)."""
        _, patches, batch, width = images.shape
        shape = (3, 1, *self.grid, batch * width)
        q, k, v = images.view(shape).permute(0, 1, 4, 2, 3).unbind(0)
        gradient = correlate(k, v) * (-STEP / patches)
        start = self.w3.to(images.dtype).repeat(batch, 1, 1, 1)
        out = convolve(q, start - clipped(gradient))
        return out.permute(0, 2, 3, 1).reshape(patches, batch, width)


def clipped(gradient: Tensor) -> Tensor:
    """Soft clip: each kernel (K, 1, 3, 3) divided by its norm plus one."""
    return gradient / (torch.linalg.vector_norm(gradient, dim=(2, 3), keepdim=True) + 1)
