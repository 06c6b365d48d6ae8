"""Small modules in float64 with weights large enough that nothing is nearly zero."""

import torch

from linvit.operators import bind

DIM, HEADS = 12, 2


def build(name, grid=(4, 4), prefix_tokens=1, std=0.5, dim=DIM, heads=HEADS, **options):
    """An operator whose parameters are all random, in float64."""
    operator = bind(name, grid=grid, prefix_tokens=prefix_tokens, **options)
    module = operator(dim, heads, qkv_bias=True, dtype=torch.float64)
    for parameter in module.parameters():
        parameter.data.normal_(std=std)
    return module


def tokens(grid=(4, 4), prefix_tokens=1, batch=2, dim=DIM):
    return torch.randn(batch, prefix_tokens + grid[0] * grid[1], dim, dtype=torch.float64)


def values(module, x):
    """The value vectors (B, H, N, D)."""
    v = module.qkv(x)[..., 2 * x.shape[-1] : 3 * x.shape[-1]]
    return v.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)


def merged(heads):
    """(B, H, N, D) to (B, N, C)."""
    return heads.transpose(1, 2).flatten(2)
