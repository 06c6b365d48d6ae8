"""Claims: one declared contrast per finding, and the verdict that the seeds support.

Support and refutation are one-sided tests over seeds (paired within the seed), each family
Holm-corrected at ALPHA. A claim whose cells are missing or diverged is not tested at all.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from linvit.study import stats
from linvit.study.contrast import Measured, measure, plan_frame
from linvit.study.declaration import Claim, parse_claims

ALPHA = 0.05
SUPPORTED, REFUTED, UNRESOLVED = "supported", "refuted", "not resolved"
LATE = "declared after test numbers were read"


@dataclass(frozen=True)
class Judged:
    """A claim with its contrast and verdict; p values are one-sided, `holm_*` adjusted.

    exploratory: why the claim does not count as declared beforehand, or None.
    reason: why no test was made, or None. smallest: effect found with power 0.8, points.
    """

    claim: Claim
    measured: Measured
    summary: stats.Summary | None
    p_support: float
    p_refute: float
    holm_support: float
    holm_refute: float
    verdict: str
    reason: str | None
    exploratory: str | None
    smallest: float | None


def p_values(claim: Claim, values: list[float]) -> tuple[float, float]:
    """(p of the test for the claim, p of the test against it)."""
    margin = claim.margin
    if claim.expect == "equivalent":
        return stats.p_equivalent(values, margin), stats.p_beyond(values, margin)
    if claim.expect == "less":
        return stats.p_below(values, -margin), stats.p_above(values, -margin)
    threshold = margin if claim.expect == "greater" else -margin
    return stats.p_above(values, threshold), stats.p_below(values, threshold)


def judge_family(claims: list[Claim], plan: pd.DataFrame, late: str | None) -> list[Judged]:
    """Judge claims as one family, Holm-corrected over all of them, tested or not.

    plan: contrast.plan_frame. late: why the whole family is exploratory, None if it is not.
    """
    measured = [measure(claim, plan) for claim in claims]
    raw = [
        (1.0, 1.0) if m.reason else p_values(claim, list(m.by_seed.values()))
        for claim, m in zip(claims, measured, strict=True)
    ]
    adjusted = zip(*(stats.holm(family) for family in zip(*raw, strict=True)), strict=True)
    return [
        _judged(claim, m, p, holm, len(claims), late)
        for claim, m, p, holm in zip(claims, measured, raw, adjusted, strict=True)
    ]


def _judged(
    claim: Claim,
    measured: Measured,
    p: tuple[float, float],
    holm: tuple[float, float],
    family: int,
    late: str | None,
) -> Judged:
    summary = stats.summarise(list(measured.by_seed.values())) if measured.by_seed else None
    verdict = SUPPORTED if holm[0] <= ALPHA else REFUTED if holm[1] <= ALPHA else UNRESOLVED
    smallest = None
    if summary and summary.sd is not None and claim.expect != "equivalent":
        smallest = stats.smallest_effect(summary.n, summary.sd, ALPHA / family)
    exploratory = late or measured.unplanned
    return Judged(
        claim, measured, summary, *p, *holm, verdict, measured.reason, exploratory, smallest
    )


def judge(declared: list[Claim], frozen: dict[str, Any], cells: pd.DataFrame) -> list[Judged]:
    """The frozen claims first, then those declared (or changed) since, as a family of their own.

    declared: workflow/claims.yaml as it is now. frozen: claims.frozen.json. cells: cells.csv.
    """
    plan = plan_frame(frozen, cells)
    confirmatory = parse_claims(frozen["claims"], "claims.frozen.json")
    known = {claim.id: claim.sha256 for claim in confirmatory}
    wording = {claim.id: claim for claim in declared}
    same = [
        wording[claim.id]
        if claim.id in wording and wording[claim.id].sha256 == claim.sha256
        else claim
        for claim in confirmatory
    ]
    later = [claim for claim in declared if known.get(claim.id) != claim.sha256]
    return judge_family(same, plan, None) + judge_family(later, plan, LATE)
