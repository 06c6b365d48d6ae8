"""Pieces of MHLA with their gradients written out, which saves passes over memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

EPS = 1e-6


class Layout(NamedTuple):
    """How N = prefix + h * w tokens form M windows; the prefix tokens are the first, if any."""

    num_heads: int
    grid: tuple[int, int]
    window: int
    prefix_tokens: int

    @property
    def places(self) -> list[slice]:
        """Where in M each group of equal windows stands: the prefix, the patches."""
        return [slice(0, 1), slice(1, None)] if self.prefix_tokens else [slice(None)]

    def views(self, tokens: Tensor, parts: int) -> Iterator[Tensor]:
        """(B, N, parts * C) per group as (parts, down, across, B, H, y, x, D).

        One after the other: an exported graph must not write through one while it holds the next.
        """
        count, side = self.prefix_tokens, self.window
        heads = (parts, self.num_heads, tokens.shape[-1] // (parts * self.num_heads))
        order = (5, 1, 3, 0, 6, 2, 4, 7)
        if count:
            front = tokens[:, :count].unflatten(2, heads)
            yield front.unflatten(1, (1, count, 1, 1)).permute(order)
        shape = (self.grid[0] // side, side, self.grid[1] // side, side)
        yield tokens[:, count:].unflatten(2, heads).unflatten(1, shape).permute(order)

    def gather(self, tokens: Tensor, parts: int) -> list[Tensor]:
        """(B, N, parts * C) to a fresh (parts, m * B * H, t, D) per group."""
        fresh = (v.clone(memory_format=torch.contiguous_format) for v in self.views(tokens, parts))
        return [x.flatten(5, 6).flatten(1, 4) for x in fresh]

    def scatter(self, groups: Iterable[Sequence[Tensor]], batch: int) -> Tensor:
        """Per group its parts (m * B * H, t, D), to a fresh (B, N, parts * C)."""
        groups = list(groups)
        tokens = self.prefix_tokens + self.grid[0] * self.grid[1]
        width = len(groups[0]) * self.num_heads * groups[0][0].shape[-1]
        merged = groups[0][0].new_empty(batch, tokens, width)
        for view, parts in zip(self.views(merged, len(groups[0])), groups, strict=True):
            for index, part in enumerate(parts):
                view[index].copy_(part.view(view.shape[1:]))
        return merged


class NormedFeatures(torch.autograd.Function):
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
        product = active * normed
        d_scale = product.sum((0, 1))
        along = (product * scale.view(2, -1)).mean(-1, keepdim=True)
        active.mul_(scale.view(2, -1)).addcmul_(normed, along, value=-1).mul_(inverse)
        return active.flatten(2), d_scale.flatten()


class Mix(torch.autograd.Function):
    """Features (B, N, 2C), values (B, N, C), window_mix (M, M) to outputs (B, N, C).

    Each window and head has a state k^T v (D, D) and a total of k (1, D), blended over the
    windows. Queries read the blended state and are normalised by the blended total; `released`
    blends instead what the queries at one place of all windows read from their own totals.
    """

    @staticmethod
    def forward(
        ctx: Any, qk: Tensor, v: Tensor, mix: Tensor, layout: Layout, released: bool
    ) -> Tensor:
        heads, values = layout.gather(qk, 2), [value[0] for value in layout.gather(v, 1)]
        width, rows = values[0].shape[-1], len(v) * layout.num_heads
        state = v.new_empty(len(mix), rows, width, width)
        total = v.new_empty(len(mix), rows, 1, width)
        for place, (_, k), value in zip(layout.places, heads, values, strict=True):
            state[place].flatten(0, 1).baddbmm_(k.mT, value, beta=0)
            total[place].flatten(0, 1).copy_(k.sum(1, keepdim=True))
        blended = _blend(mix, state)
        reference = total if released else _blend(mix, total)
        reads, saved = [], [mix, state, total, blended, reference]
        for place, pair, value in zip(layout.places, heads, values, strict=True):
            scores = torch.bmm(pair[0], reference[place].flatten(0, 1).mT)
            divisor = (_blend(mix, scores) if released else scores) + EPS
            read = torch.bmm(pair[0], blended[place].flatten(0, 1)).div_(divisor)
            saved += [pair, value, scores, divisor, read]
            reads.append([read])
        ctx.save_for_backward(*saved)
        ctx.layout, ctx.released = layout, released
        return layout.scatter(reads, len(v))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        mix, state, total, blended, reference, *saved = ctx.saved_tensors
        layout, groups = ctx.layout, [saved[i : i + 5] for i in range(0, len(saved), 5)]
        d_mix, d_blended = torch.zeros_like(mix), torch.empty_like(state)
        d_reference, d_queries = torch.empty_like(total), []
        reads = layout.gather(gradient, 1)
        for place, group, (d_read,) in zip(layout.places, groups, reads, strict=True):
            (q, _), _, scores, divisor, read = group
            d_read.div_(divisor)
            d_score = (d_read * read).sum(-1, keepdim=True).neg_()
            if ctx.released:
                d_mix += _outer(d_score, scores, len(mix))
                d_score = _blend(mix.T, d_score)
            d_q = torch.bmm(d_read, blended[place].flatten(0, 1).mT)
            d_queries.append(d_q.addcmul_(d_score, reference[place].flatten(0, 1)))
            d_blended[place].flatten(0, 1).baddbmm_(q.mT, d_read, beta=0)
            d_reference[place].flatten(0, 1).baddbmm_(d_score.mT, q, beta=0)
        d_mix += _outer(d_blended, state, len(mix))
        if not ctx.released:
            d_mix += _outer(d_reference, total, len(mix))
            d_reference = _blend(mix.T, d_reference)
        d_state = _blend(mix.T, d_blended)
        pairs, d_values = [], []
        for place, group, d_q in zip(layout.places, groups, d_queries, strict=True):
            (_, k), value, *_ = group
            d_k = torch.bmm(value, d_state[place].flatten(0, 1).mT)
            pairs.append([d_q, d_k.add_(d_reference[place].flatten(0, 1))])
            d_values.append([torch.bmm(k, d_state[place].flatten(0, 1))])
        batch = len(gradient)
        return layout.scatter(pairs, batch), layout.scatter(d_values, batch), d_mix, None, None


def _blend(mix: Tensor, summaries: Tensor) -> Tensor:
    """(M * ..., ...) mixed over the leading M."""
    return (mix @ summaries.reshape(len(mix), -1)).view(summaries.shape)


def _outer(left: Tensor, right: Tensor, count: int) -> Tensor:
    """Products over all but the leading M, (M, M)."""
    return left.reshape(count, -1) @ right.reshape(count, -1).T
