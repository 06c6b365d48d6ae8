"""Inference over seeds: intervals, one-sided t tests, equivalence, Holm, resolvable effects.

The unit is a seed. `values` holds one number per seed, already averaged over whatever a claim
averages over within a seed (in percentage points), so that arms that share data order and labels
are compared within the seed (paired) and everything here is a one-sample problem.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.optimize import brentq


@dataclass(frozen=True)
class Summary:
    """Mean of n values with its two-sided t interval; low and high are None for n < 2."""

    n: int
    mean: float
    sd: float | None
    low: float | None
    high: float | None

    @property
    def half_width(self) -> float | None:
        return None if self.high is None else self.high - self.mean


def summarise(values: Sequence[float], level: float = 0.95) -> Summary:
    """Mean and t interval at `level`. Raises ValueError on no values or on NaN and Inf."""
    x = np.asarray(values, dtype=float)
    if x.size == 0 or not np.isfinite(x).all():
        raise ValueError("summarise needs at least one value, all finite")
    mean = float(x.mean())
    if x.size < 2:
        return Summary(1, mean, None, None, None)
    sd = float(x.std(ddof=1))
    half = float(stats.t.ppf(0.5 + level / 2, x.size - 1)) * sd / math.sqrt(x.size)
    return Summary(x.size, mean, sd, mean - half, mean + half)


def within_seeds(values: np.ndarray) -> np.ndarray:
    """values (seeds, conditions) without what a seed adds to all its conditions.

    The grand mean stays, and the spread is scaled up by sqrt(k / (k - 1)) for k conditions, since
    centring takes out a part of it (Cousineau and Morey).
    """
    k = values.shape[1]
    centred = values - values.mean(1, keepdims=True) + values.mean()
    means = centred.mean(0)
    return means + (centred - means) * math.sqrt(k / (k - 1))


def p_above(values: Sequence[float], threshold: float) -> float:
    """One-sided p of H0 mean <= threshold against mean > threshold; 1 for fewer than 2 values."""
    summary = summarise(values)
    if summary.sd is None:
        return 1.0
    distance = summary.mean - threshold
    if summary.sd == 0:
        return 0.0 if distance > 0 else 1.0
    return float(stats.t.sf(distance / (summary.sd / math.sqrt(summary.n)), summary.n - 1))


def p_below(values: Sequence[float], threshold: float) -> float:
    """One-sided p of H0 mean >= threshold against mean < threshold."""
    return p_above([-value for value in values], -threshold)


def p_equivalent(values: Sequence[float], margin: float) -> float:
    """Two one-sided tests (TOST): p of H0 |mean| >= margin against |mean| < margin."""
    return max(p_above(values, -margin), p_below(values, margin))


def p_beyond(values: Sequence[float], margin: float) -> float:
    """p of H0 |mean| <= margin against |mean| > margin: two directions, so doubled."""
    return min(1.0, 2 * min(p_above(values, margin), p_below(values, -margin)))


def paired_difference(a: dict[int, float], b: dict[int, float]) -> list[float]:
    """a - b at the seeds both have, in the order of the seeds."""
    return [a[seed] - b[seed] for seed in sorted(a.keys() & b.keys())]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjusted p values, in the order given."""
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def smallest_effect(n: int, sd: float, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Distance from the threshold that a one-sided t test at `alpha` finds with `power`.

    n seeds whose contrast has standard deviation `sd`; same unit as sd. None for n < 2. For a
    family of m claims pass alpha / m, Holm's first and hardest step.
    """
    if n < 2:
        return None
    critical = float(stats.t.ppf(1 - alpha, n - 1))

    def shortfall(shift: float) -> float:
        return float(stats.nct.sf(critical, n - 1, shift)) - power

    shift = brentq(shortfall, 0.0, 4 * critical + 10, xtol=1e-9)
    return shift * sd / math.sqrt(n)
