"""`mhla` (Zhang et al. 2026): key-value summaries per window, mixed by a learned M x M matrix."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from linvit.errors import LinvitError
from linvit.operators.base import INIT_STD, Draw, Operator, full_precision, wide_dtype
from linvit.operators.grid import conv_shared
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
        qk, v = qkv.split([2 * x.shape[-1], x.shape[-1]], -1)
        sizes = [self.prefix_tokens, x.shape[1] - self.prefix_tokens]
        front_qk, patch_qk = self.features(qk).split(sizes, 1)
        front_v, patch_v = v.split(sizes, 1)
        q, k = self.to_windows(patch_qk, 2).unbind(0)
        summaries = _summarise(k, self.to_windows(patch_v, 1)[0])
        lepe = conv_shared(patch_v, self.lepe, self.grid)
        if not self.prefix_tokens:
            own = summaries[1] if self.normalizer == "released" else None
            return self.from_windows(self.read(q, *self.blend(*summaries), own), lepe)
        front_q, front_k = self.to_front(front_qk, 2).unbind(0)
        first = _summarise(front_k, self.to_front(front_v, 1)[0])
        pairs = zip(first, summaries, strict=True)
        state, total = self.blend(*(torch.cat(pair) for pair in pairs))
        front = self.read(front_q, state[:1], total[:1]).squeeze(0)
        front = front.unflatten(0, (len(x), -1)).transpose(1, 2).flatten(2)
        return torch.cat([front, self.from_windows(self.read(q, state[1:], total[1:]), lepe)], 1)

    def features(self, qk: Tensor) -> Tensor:
        """(B, N, 2C) to positive queries and keys."""
        if not self.rms_norm:
            return qk.relu() + EPS
        return _NormedFeatures.apply(qk, self.qk_scale.to(qk.dtype))

    def blend(self, state: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Summaries (M, B * H, D, D) and (M, B * H, D, 1) mixed over M by the learned matrix."""
        mix = self.window_mix.to(state.dtype)
        return tuple((mix @ part.flatten(1)).view_as(part) for part in (state, total))

    def read(self, q: Tensor, state: Tensor, total: Tensor, own: Tensor | None = None) -> Tensor:
        """Queries (M, B * H, t, D) read blended summaries; own: unblended totals, "released"."""
        if own is None:
            return _Ratio.apply(q @ state, q @ total)
        weights = q @ own
        blended = self.window_mix.to(q.dtype) @ weights.flatten(1)
        return _Ratio.apply(q @ state, blended.view_as(weights))

    def to_windows(self, patches: Tensor, parts: int) -> Tensor:
        """(B, h * w, parts * C) to (parts, M, B * H, t, D), row-major as the grid is."""
        (down, across), side = self.windows, self.window
        shape = (down, side, across, side, parts, self.num_heads, self.head_dim)
        image = patches.unflatten(-1, (parts, -1)).view(len(patches), *shape)
        windows = image.permute(5, 1, 3, 0, 6, 2, 4, 7)
        rows = len(patches) * self.num_heads
        return windows.reshape(parts, down * across, rows, side * side, self.head_dim)

    def to_front(self, tokens: Tensor, parts: int) -> Tensor:
        """(B, P, parts * C) to (parts, 1, B * H, P, D)."""
        batch, count, _ = tokens.shape
        heads = tokens.reshape(batch, count, parts, self.num_heads, self.head_dim)
        shape = (parts, 1, batch * self.num_heads, count, self.head_dim)
        return heads.permute(2, 0, 3, 1, 4).reshape(shape)

    def from_windows(self, out: Tensor, lepe: Tensor) -> Tensor:
        """(M, B * H, t, D), added to lepe (B, h * w, C)."""
        (down, across), side = self.windows, self.window
        out = out.view(down, across, len(lepe), self.num_heads, side, side, self.head_dim)
        image = out.permute(2, 0, 4, 1, 5, 3, 6)
        return (lepe.reshape(image.shape) + image).view_as(lepe)

    def attention_map(self, x: Tensor) -> Tensor:
        """The implicit map (B, H, N, N) of the paper's normaliser, without LePE."""
        qkv = self.project(x)
        window = window_of_token(self.grid, self.window, self.prefix_tokens).to(x.device)
        with full_precision(qkv):
            qk = self.features(qkv[..., : 2 * x.shape[-1]].to(wide_dtype(qkv)))
            q, k = qk.unflatten(-1, (2, self.num_heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
            scores = q @ k.mT * self.window_mix[window][:, window]
            return scores / (scores.sum(-1, keepdim=True) + EPS)


def _summarise(k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Keys, values (M, B * H, t, D) to sums k v^T (M, B * H, D, D) and k (M, B * H, D, 1)."""
    return k.mT @ v, k.sum(2).unsqueeze(-1)


class _NormedFeatures(torch.autograd.Function):
    """relu(RMSNorm(.) * scale) + eps over each half of (B, N, 2C); scale (2C,)."""

    @staticmethod
    def forward(ctx: Any, qk: Tensor, scale: Tensor) -> Tensor:
        halves = qk.unflatten(-1, (2, -1))
        square = torch.linalg.vector_norm(halves, dim=-1, keepdim=True).square()
        inverse = (square / halves.shape[-1] + torch.finfo(qk.dtype).eps).rsqrt()
        normed = halves * inverse
        features = (normed * scale.view(2, -1)).relu_().add_(EPS)
        ctx.save_for_backward(normed, inverse, scale, features)
        return features.flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        normed, inverse, scale, features = ctx.saved_tensors
        active = torch.ops.aten.threshold_backward(gradient.reshape(normed.shape), features, EPS)
        d_scale = (active * normed).sum((0, 1)).flatten()
        active.mul_(scale.view(2, -1))
        along = (active * normed).mean(-1, keepdim=True)
        return active.addcmul_(normed, along, value=-1).mul_(inverse).flatten(2), d_scale


class _Ratio(torch.autograd.Function):
    """numerator (..., D) / (denominator (..., 1) + eps), with one pass over the gradient."""

    @staticmethod
    def forward(ctx: Any, numerator: Tensor, denominator: Tensor) -> Tensor:
        denominator = denominator + EPS
        out = numerator / denominator
        ctx.save_for_backward(out, denominator)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        out, denominator = ctx.saved_tensors
        gradient = gradient / denominator
        return gradient, (gradient * out).sum(-1, keepdim=True).neg_()
