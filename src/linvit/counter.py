"""Counter-based randomness: a draw is a function of what it is for, never of state. No torch."""

import hashlib
import json

import numpy as np


def key(*parts: int | str) -> int:
    """Hash (seed, purpose, ...) to 63 bits. Integers and strings differ: key(1) != key("1")."""
    for part in parts:
        if isinstance(part, bool) or not isinstance(part, int | str):
            raise TypeError(f"a key is made of int and str, not {type(part).__name__}")
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def words(n: int, *parts: int | str) -> np.ndarray:
    """Draw n uint64 words; word i depends on i and the parts alone, not on n.

    These are Philox's raw words, which numpy keeps stable, unlike its permutations.
    """
    return np.random.Philox(key=key(*parts)).random_raw(n)


def permutation(seed: int, epoch: int, n: int) -> np.ndarray:
    """Order of n samples in an epoch, int64 (n,)."""
    return np.argsort(words(n, seed, "order", epoch), kind="stable")
