"""`inline_local`: InLine with the reference's local residual, a 3 x 3 kernel made per image."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from linvit.operators.base import INIT_STD, Draw
from linvit.operators.grid import TAPS, convolve, to_image, to_patches
from linvit.operators.inline import Inline


class InlineLocal(Inline):
    """The class token gets no local term; `attention_map` is the global part only."""

    needs_grid = True
    extra_parameters = ("hidden.weight", "hidden.bias", "taps.weight", "taps.bias")

    def add_extra(self, dim: int, place: dict[str, Any]) -> None:
        self.hidden = nn.Conv1d(dim, dim, 1, groups=self.num_heads, **place)
        self.taps = nn.Conv1d(dim, TAPS * dim, 1, groups=self.num_heads, **place)

    def reset_extra(self, draw: Draw) -> None:
        for name in ("hidden", "taps"):
            layer = getattr(self, name)
            layer.weight.data.copy_(draw(f"{name}.weight", tuple(layer.weight.shape), INIT_STD))
            layer.bias.data.zero_()

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        values = to_image(qkv[:, self.prefix_tokens :, 2 * x.shape[-1] :], self.grid)
        local = to_patches(convolve(values, self.kernels(x.to(qkv.dtype))), len(x))
        return super().mix_projected(qkv, x) + F.pad(local, (0, 0, self.prefix_tokens, 0))

    def kernels(self, x: Tensor) -> Tensor:
        """Depthwise taps (B * C, 1, 3, 3), channel-major, from the mean of all tokens."""
        hidden = self._pointwise(self.hidden, x.mean(1).unsqueeze(-1))
        return self._pointwise(self.taps, F.gelu(hidden)).view(-1, 1, 3, 3)

    def _pointwise(self, layer: nn.Conv1d, x: Tensor) -> Tensor:
        weight, bias = layer.weight.to(x.dtype), layer.bias.to(x.dtype)
        return F.conv1d(x, weight, bias, groups=layer.groups)
