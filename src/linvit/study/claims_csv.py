"""claims.csv: every judgement with its numbers and the full list of the cells behind it."""

from collections.abc import Iterable
from typing import Any

import pandas as pd

from linvit.study import stats
from linvit.study.claims import Judged
from linvit.study.declaration import in_words
from linvit.study.select import CLAIM_COLUMNS, to_csv

PRIMARY, SECONDARY = "primary", "secondary"


def claims_csv(judged: list[Judged]) -> str:
    """One primary row per claim, then its secondary rows, one per unit (no p, no verdict)."""
    rows = [row for one in judged for row in (_primary(one), *_secondary(one))]
    return to_csv(pd.DataFrame(rows, columns=list(CLAIM_COLUMNS)))


def _declared(one: Judged, level: str) -> dict[str, Any]:
    claim = one.claim
    return {
        "level": level,
        "id": claim.id,
        "finding": claim.finding,
        "title": claim.title,
        "expect": claim.expect,
        "margin": claim.margin,
        "lambda": claim.lam,
        "status": "exploratory" if one.exploratory else "declared beforehand",
        "contrast": in_words(claim),
    }


def _numbers(values: dict[int, float]) -> dict[str, Any]:
    if not values:
        return {"n_seeds": 0, "by_seed": ""}
    summary = stats.summarise(list(values.values()))
    return {
        "n_seeds": summary.n,
        "mean": summary.mean,
        "sd": summary.sd,
        "low": summary.low,
        "high": summary.high,
        "by_seed": ";".join(f"{seed}:{value:.6g}" for seed, value in values.items()),
    }


def _primary(one: Judged) -> dict[str, Any]:
    m = one.measured
    tests = () if m.reason else ("p_support", "p_refute", "holm_support", "holm_refute")
    return {
        **_declared(one, PRIMARY),
        **_numbers(m.by_seed),
        **{name: getattr(one, name) for name in tests},
        "verdict": one.verdict,
        "reason": m.reason,
        "smallest_effect": one.smallest,
        "n_cells": len(m.cells),
        "cells": ";".join(m.cells),
        "bad_cells": ";".join(m.bad),
    }


def _secondary(one: Judged) -> Iterable[dict[str, Any]]:
    for unit, values in one.measured.by_unit.items():
        place = unit.block._asdict() | {"operator": unit.operator}
        yield _declared(one, SECONDARY) | _numbers(values) | place
