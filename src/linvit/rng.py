"""Counter-based randomness for torch; every draw is keyed by (seed, purpose, ...)."""

import torch

from linvit import counter
from linvit.counter import key


def generator(*parts: int | str) -> torch.Generator:
    """CPU generator of one purpose, for example generator(seed, "init", "blocks.0.attn.qkv")."""
    return torch.Generator().manual_seed(key(*parts))


def permutation(seed: int, epoch: int, n: int) -> torch.Tensor:
    """Order of n samples in an epoch, int64 (n,)."""
    return torch.from_numpy(counter.permutation(seed, epoch, n))
