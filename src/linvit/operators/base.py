"""What all token mixers share: timm's constructor, head splitting, precision and refusals.

Notation: B batch, N tokens, C width, H heads, D = C / H, M windows.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from timm.layers import Attention, trunc_normal_
from torch import Tensor

from linvit.errors import LinvitError

Draw = Callable[[str, tuple[int, ...], float], Tensor]
_UNSUPPORTED = ("attn_head_dim", "dim_out", "qk_norm", "scale_norm", "gated", "attn_drop")
INIT_STD = 0.02


class Operator(Attention):
    """A token mixer in timm's layout; `linvit.operators.bind` sets the class attributes.

    grid: patch grid (height, width), or None where the operator does not read it.
    prefix_tokens: tokens in front of the patches (the class token).
    option_values: what may be bound, each with its allowed values (or a check).
    extra_parameters: names, relative to this module, that Softmax lacks.
    """

    grid: ClassVar[tuple[int, int] | None] = None
    prefix_tokens: ClassVar[int] = 1
    needs_grid: ClassVar[bool] = False
    option_values: ClassVar[dict[str, Any]] = {}
    extra_parameters: ClassVar[tuple[str, ...]] = ()

    def __init__(self, dim: int, num_heads: int = 8, **options: Any) -> None:
        if dim % num_heads:
            raise LinvitError(
                f"width {dim} is not divisible by {num_heads} heads; choose a divisor of it"
            )
        self.check_constructor(options)
        super().__init__(dim, num_heads, **options)
        place = {"device": options.get("device"), "dtype": options.get("dtype")}
        self.add_extra(dim, place)
        self.init_weights()

    @classmethod
    def configure(cls) -> None:
        """Check and complete the bound class attributes (LinvitError where they do not fit)."""

    @classmethod
    def check_constructor(cls, options: dict[str, Any]) -> None:
        """Refuse what timm's attention offers and a linear operator cannot honour."""
        for name in _UNSUPPORTED:
            if options.get(name):
                raise LinvitError(f"{cls.__name__} has no {name}; leave it at its default")

    @staticmethod
    def shared_slices(dim: int) -> dict[str, tuple[slice, ...]]:
        """The part of each enlarged parameter that is Softmax's; empty for equal shapes."""
        return {}

    def add_extra(self, dim: int, place: dict[str, Any]) -> None:
        """Create the parameters that Softmax lacks; place: device and dtype."""

    def reset_extra(self, draw: Draw) -> None:
        """Fill `extra_parameters` in place; draw(name, shape, std) gives the random ones."""

    def init_weights(self) -> None:
        """timm's hook: initialise the extra parameters from the global generator."""
        device = self.qkv.weight.device
        with torch.no_grad():
            self.reset_extra(
                lambda name, shape, std: trunc_normal_(torch.empty(shape, device=device), std=std)
            )

    def mix(self, x: Tensor) -> Tensor:
        """Tokens (B, N, C) to the input of `proj`, (B, N, C) or wider."""
        self.check_tokens(x)
        qkv = self.project(x)
        with full_precision(qkv):
            return self.mix_projected(qkv.to(wide_dtype(qkv)), x).to(qkv.dtype)

    def project(self, x: Tensor) -> Tensor:
        return self.qkv(x)

    def mix_projected(self, qkv: Tensor, x: Tensor) -> Tensor:
        """The operator itself, from tokens x and their projection (B, N, 3C...), widened."""
        raise NotImplementedError

    def forward(
        self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        """(B, N, C) to (B, N, C); raises LinvitError for a mask, which it cannot honour."""
        if attn_mask is not None or is_causal:
            raise LinvitError(
                f"{type(self).__name__} mixes all tokens and cannot honour a mask; use softmax"
            )
        return self.proj_drop(self.proj(self.mix(x)))

    def check_tokens(self, x: Tensor) -> None:
        if not self.needs_grid:
            return
        height, width = self.grid
        if x.shape[1] != self.prefix_tokens + height * width:
            raise LinvitError(
                f"{type(self).__name__} was bound to grid {height} x {width} plus "
                f"{self.prefix_tokens} prefix tokens and got {x.shape[1]} tokens; "
                "build the model for this image size"
            )


def wide_dtype(x: Tensor) -> torch.dtype:
    """Feature maps, sums and divisions run in this: fp16 overflows silently here."""
    return torch.promote_types(x.dtype, torch.float32)


def full_precision(x: Tensor):
    """Switch autocast off, where it is on."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def split_heads(qkv: Tensor, num_heads: int) -> Tensor:
    """(B, N, 3C) to a fresh (3, B * H, N, D): queries, keys, values."""
    batch, tokens, width = qkv.shape
    head_dim = width // (3 * num_heads)
    heads = qkv.reshape(batch, tokens, 3, num_heads, head_dim).permute(2, 0, 3, 1, 4)
    fresh = heads.clone(memory_format=torch.contiguous_format)
    return fresh.view(3, batch * num_heads, tokens, head_dim)


def unsplit_heads(heads: Tensor, num_heads: int) -> Tensor:
    """(3, B * H, N, D) back to (B, N, 3C)."""
    _, rows, tokens, head_dim = heads.shape
    heads = heads.view(3, rows // num_heads, num_heads, tokens, head_dim)
    return heads.permute(1, 3, 0, 2, 4).reshape(-1, tokens, 3 * num_heads * head_dim)


def split_merged(merged: Tensor, num_heads: int) -> Tensor:
    """(B, N, C) to a fresh (B * H, N, D)."""
    batch, tokens, width = merged.shape
    heads = merged.reshape(batch, tokens, num_heads, width // num_heads).transpose(1, 2)
    fresh = heads.clone(memory_format=torch.contiguous_format)
    return fresh.view(batch * num_heads, tokens, width // num_heads)


def merge_heads(out: Tensor, num_heads: int) -> Tensor:
    """(B * H, N, D) to (B, N, C)."""
    _, tokens, head_dim = out.shape
    heads = out.view(-1, num_heads, tokens, head_dim)
    return heads.transpose(1, 2).reshape(-1, tokens, num_heads * head_dim)
