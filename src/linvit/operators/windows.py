"""MHLA's windows: which side, and how the mixing of their summaries starts."""

import math

import torch
from torch import Tensor

from linvit.errors import LinvitError

MAX_WINDOWS = 16
LOCAL_RADIUS = 1.5
MIXINGS = ("linear", "cos", "exp", "local", "gaussian")


def window_side(grid: tuple[int, int], window: int | None) -> int:
    """The side asked for, or the smallest that leaves at most 16 windows."""
    if window is not None:
        if any(side % window for side in grid):
            raise LinvitError(f"window {window} does not divide grid {grid[0]} x {grid[1]}")
        return window
    for side in range(2, min(grid)):
        if not any(length % side for length in grid) and _count(grid, side) <= MAX_WINDOWS:
            return side
    raise LinvitError(
        f"mhla finds no window for grid {grid[0]} x {grid[1]}: no side from 2 to "
        f"{min(grid) - 1} divides it into at most {MAX_WINDOWS} windows; "
        "set the operator option `window` (1 makes every token a window)"
    )


def _count(grid: tuple[int, int], side: int) -> int:
    return (grid[0] // side) * (grid[1] // side)


def initial_mixing(
    windows: tuple[int, int], prefix: bool, mixing: str = "linear", sigma: float = 1.0
) -> Tensor:
    """(M, M) float64, or (M + 1, M + 1) with the prefix tokens as the first window.

    Entries fall with the distance between window centres (unit: window side); the prefix window
    is d_max / 2 from all. Columns sum to one, except in "gaussian".
    """
    rows, columns = torch.meshgrid(*(torch.arange(n).double() for n in windows), indexing="ij")
    centres = torch.stack([rows.flatten(), columns.flatten()], -1)
    distance = torch.cdist(centres, centres, compute_mode="donot_use_mm_for_euclid_dist")
    largest = float(distance.max())
    if prefix:
        distance = torch.nn.functional.pad(distance, (1, 0, 1, 0), value=largest / 2)
        distance[0, 0] = 0.0
    matrix = _falloff(distance, largest or 1.0, mixing, sigma)
    return matrix if mixing == "gaussian" else matrix / matrix.sum(0, keepdim=True)


def _falloff(distance: Tensor, largest: float, mixing: str, sigma: float) -> Tensor:
    relative = distance / largest
    if mixing == "linear":
        return 1 - relative
    if mixing == "cos":
        return torch.cos(relative * math.pi / 4)
    if mixing == "exp":
        return torch.exp(-distance / sigma)
    if mixing == "local":
        return (distance <= LOCAL_RADIUS).double()
    return torch.exp(-0.5 * (3 * relative) ** 2)


def window_of_token(grid: tuple[int, int], side: int, prefix_tokens: int) -> Tensor:
    """Index (N,) of each token's window, in the order of `initial_mixing`."""
    rows = torch.arange(grid[0]) // side
    columns = torch.arange(grid[1]) // side
    index = (rows[:, None] * (grid[1] // side) + columns).flatten()
    return torch.cat([index.new_zeros(prefix_tokens), index + (prefix_tokens > 0)])
