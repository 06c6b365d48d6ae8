"""`mhla` (Zhang et al. 2026): key-value summaries per window, mixed by a learned M x M matrix."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linvit.errors import LinvitError
from linvit.operators.base import INIT_STD, Draw, Operator, full_precision, wide_dtype
from linvit.operators.grid import conv_shared
from linvit.operators.mhla_mix import EPS, Layout, Mix, NormedFeatures
from linvit.operators.windows import MIXINGS, initial_mixing, window_of_token, window_side

LEPE_SIDE = 5


class Mhla(Operator):
    """o_t = q_t^T KV'_i / (q_t^T z'_i + eps) for t in window i; KV' = A KV, z' = A z.

    The prefix tokens are a window of their own, the first, and get no LePE.
    """

    needs_grid = True
    window: ClassVar[int | None] = None
    normalizer: ClassVar[str] = "paper"
    mixing: ClassVar[str] = "linear"
    sigma: ClassVar[float] = 1.0
    rms_norm: ClassVar[bool] = True
    inner_norm: ClassVar[bool] = False
    option_values: ClassVar[dict[str, Any]] = {
        "window": int,
        "normalizer": ("paper", "released"),
        "mixing": MIXINGS,
        "sigma": float,
        "rms_norm": bool,
        "inner_norm": bool,
    }
    windows: ClassVar[tuple[int, int]]

    @classmethod
    def configure(cls) -> None:
        cls.window = window_side(cls.grid, cls.window)
        cls.windows = (cls.grid[0] // cls.window, cls.grid[1] // cls.window)
        if cls.normalizer == "released" and cls.prefix_tokens:
            raise LinvitError(
                'mhla: normalizer "released" pairs equal slots of equal windows; it needs '
                'prefix_tokens 0 (class_token=False), or take "paper"'
            )
        cls.extra_parameters = (
            "window_mix",
            "lepe.weight",
            "lepe.bias",
            *(("qk_scale",) if cls.rms_norm else ()),
            *(("input_norm.weight", "input_norm.bias") if cls.inner_norm else ()),
        )

    def add_extra(self, dim: int, place: dict[str, Any]) -> None:
        count = self.windows[0] * self.windows[1] + (self.prefix_tokens > 0)
        self.window_mix = nn.Parameter(torch.empty(count, count, **place))
        self.lepe = nn.Conv2d(dim, dim, LEPE_SIDE, padding=LEPE_SIDE // 2, groups=dim, **place)
        if self.rms_norm:
            self.qk_scale = nn.Parameter(torch.empty(2 * dim, **place))
        if self.inner_norm:
            self.input_norm = nn.LayerNorm(dim, eps=1e-5, **place)

    def reset_extra(self, draw: Draw) -> None:
        start = initial_mixing(self.windows, self.prefix_tokens > 0, self.mixing, self.sigma)
        self.window_mix.data.copy_(start)
        shape = tuple(self.lepe.weight.shape)
        self.lepe.weight.data.copy_(draw("lepe.weight", shape, INIT_STD))
        self.lepe.bias.data.zero_()
        if self.rms_norm:
            self.qk_scale.data.fill_(1.0)
        if self.inner_norm:
            self.input_norm.reset_parameters()

    def project(self, x: Tensor) -> Tensor:
        return self.qkv(self.input_norm(x) if self.inner_norm else x)

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        qk, v = qkv.split([2 * x.shape[-1], x.shape[-1]], -1)
        layout = Layout(self.num_heads, self.grid, self.window, self.prefix_tokens)
        mix, released = self.window_mix.to(qkv.dtype), self.normalizer == "released"
        out = Mix.apply(self.features(qk), v, mix, layout, released)
        lepe = conv_shared(v[:, self.prefix_tokens :], self.lepe, self.grid)
        return out + F.pad(lepe, (0, 0, self.prefix_tokens, 0))

    def features(self, qk: Tensor) -> Tensor:
        """(B, N, 2C) to positive queries and keys."""
        if not self.rms_norm:
            return qk.relu() + EPS
        return NormedFeatures.apply(qk, self.qk_scale.to(qk.dtype))

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N) of the paper's normaliser, without LePE."""
        qkv = self.project(x)
        window = window_of_token(self.grid, self.window, self.prefix_tokens).to(x.device)
        with full_precision(qkv):
            qk = self.features(qkv[..., : 2 * x.shape[-1]].to(wide_dtype(qkv)))
            q, k = qk.unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            scores = q @ k.mT * self.window_mix[window][:, window]
            return scores / (scores.sum(-1, keepdim=True) + EPS)
