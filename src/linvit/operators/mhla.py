"""`mhla` (Zhang et al. 2026): key-value summaries per window, mixed by a learned M x M matrix."""

from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from linvit.errors import LinvitError
from linvit.operators.base import INIT_STD, Draw, Operator, full_precision, wide_dtype
from linvit.operators.grid import conv_shared, to_tokens
from linvit.operators.windows import MIXINGS, initial_mixing, window_of_token, window_side

EPS = 1e-6
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
        v = qkv[..., 2 * x.shape[-1] :]
        lepe = conv_shared(v[:, self.prefix_tokens :], self.lepe, self.grid)
        return self.mix_windows(self.features(qkv), v) + to_tokens(lepe, self.prefix_tokens)

    def features(self, qkv: Tensor) -> Tensor:
        """(B, N, 3C) to positive queries and keys (B, N, 2, C)."""
        width = qkv.shape[-1] // 3
        qk = qkv[..., : 2 * width].unflatten(-1, (2, width))
        if self.rms_norm:
            scale = self.qk_scale.to(qk.dtype).view(2, width)
            qk = F.rms_norm(qk, (width,), eps=torch.finfo(qk.dtype).eps) * scale
        return qk.relu() + EPS

    def mix_windows(self, qk: Tensor, v: Tensor) -> Tensor:
        """Features (B, N, 2, C) and values (B, N, C) to merged heads (B, N, C)."""
        qkv = torch.cat([qk.flatten(2), v], -1)
        patches = self.to_windows(qkv[:, self.prefix_tokens :])
        summaries = _summarise(patches[1], patches[2])
        if not self.prefix_tokens:
            return self.from_windows(self.read(patches[0], self.blend(summaries), summaries))
        batch = qkv.shape[0]
        front = qkv[:, : self.prefix_tokens].unflatten(-1, (3, self.num_heads, -1))
        front = front.permute(2, 0, 3, 1, 4).unsqueeze(3)
        blended = self.blend(torch.cat([_summarise(front[1], front[2]), summaries], 2))
        first = self.read(front[0], blended[:, :, :1])
        first = first.permute(0, 3, 2, 1, 4).reshape(batch, self.prefix_tokens, -1)
        rest = self.from_windows(self.read(patches[0], blended[:, :, 1:]))
        return torch.cat([first, rest], 1)

    def blend(self, summaries: Tensor) -> Tensor:
        """(B, H, M, D, D + 1) mixed over M by the learned matrix."""
        flat = summaries.flatten(3)
        return (self.window_mix.to(flat.dtype) @ flat).view_as(summaries)

    def read(self, q: Tensor, blended: Tensor, own: Tensor | None = None) -> Tensor:
        """Queries (B, H, M, t, D) read the blended summaries: (B, H, M, t, D)."""
        read = q @ blended
        denominator = read[..., -1:]
        if self.normalizer == "released":
            mix = self.window_mix.to(q.dtype)
            denominator = (mix @ (q @ own[..., -1:]).squeeze(-1)).unsqueeze(-1)
        return read[..., :-1] / (denominator + EPS)

    def to_windows(self, patches: Tensor) -> Tensor:
        """(B, h * w, 3C) to (3, B, H, M, t, D), row-major over windows and inside them."""
        (down, across), side = self.windows, self.window
        shape = (patches.shape[0], down, side, across, side, 3, self.num_heads, self.head_dim)
        order = (5, 0, 6, 1, 3, 2, 4, 7)
        return patches.reshape(shape).permute(order).flatten(5, 6).flatten(3, 4)

    def from_windows(self, out: Tensor) -> Tensor:
        """(B, H, M, t, D) back to (B, h * w, C)."""
        (down, across), side = self.windows, self.window
        out = out.view(-1, self.num_heads, down, across, side, side, self.head_dim)
        return out.permute(0, 2, 4, 3, 5, 1, 6).flatten(5).flatten(1, 4)

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N) of the paper's normaliser, without LePE."""
        qkv = self.project(x)
        window = window_of_token(self.grid, self.window, self.prefix_tokens).to(x.device)
        with full_precision(qkv):
            qk = self.features(qkv.to(wide_dtype(qkv))).unflatten(-1, (self.num_heads, -1))
            q, k = qk.permute(2, 0, 3, 1, 4).unbind(0)
            scores = q @ k.mT * self.window_mix[window][:, window]
            return scores / (scores.sum(-1, keepdim=True) + EPS)


def _summarise(k: Tensor, v: Tensor) -> Tensor:
    """Keys, values (B, H, M, t, D) to [sum k v^T | sum k] (B, H, M, D, D + 1)."""
    return k.mT @ F.pad(v, (0, 1), value=1.0)
