"""A claim's contrast, computed: per seed averaged over units, and per unit.

A *unit* is a combination of (dataset, size, source) and linear operator for which the study plans
every arm of the claim. The plan is the frozen list of cells, so a cell that vanished is noticed.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from linvit.study.cell import AXES, Cell
from linvit.study.declaration import Arm, Claim
from linvit.study.select import Block, at_lambda, blocks, in_block, linear_operators, pick

MISSING = "missing"


class Unit(NamedTuple):
    block: Block
    operator: str


@dataclass
class Measured:
    """by_seed: seed -> contrast in points, of the seeds in which all units are complete.

    reason: why the claim cannot be tested (with the cells in `bad`), or None.
    unplanned: why the cells are not those of the frozen plan, or None.
    """

    by_seed: dict[int, float] = field(default_factory=dict)
    by_unit: dict[Unit, dict[int, float]] = field(default_factory=dict)
    cells: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)
    reason: str | None = None
    unplanned: str | None = None


def plan_frame(frozen: dict[str, Any], cells: pd.DataFrame) -> pd.DataFrame:
    """Planned cells joined with their results; status `missing` where there is none.

    frozen: {"cells": {path: digest of its spec}, "lambda": {dataset: chosen}}. Column `as_planned`:
    the cell was in the plan, with this spec.
    """
    paths = sorted(frozen["cells"].keys() | set(cells["path"]))
    plan = pd.DataFrame([Cell.from_path(path).axes for path in paths], columns=list(AXES))
    results = cells.set_index("path").reindex(paths)
    planned = [frozen["cells"].get(path) for path in paths]
    chosen = plan["dataset"].map(frozen["lambda"]).astype(float)
    spec = results["spec"].to_numpy(dtype=object)
    missing = results["status"].isna().to_numpy()
    return plan.assign(
        path=paths,
        status=results["status"].fillna(MISSING).to_numpy(),
        test_top1=results["test_top1"].to_numpy(),
        chosen_lambda=chosen.fillna(pd.Series(results["chosen_lambda"].to_numpy())),
        as_planned=[
            p is not None and (m or p == s) for p, m, s in zip(planned, missing, spec, strict=True)
        ],
        **{"lambda": plan["lambda"].astype(float), "source": plan["source"].astype(object)},
    )


def measure(claim: Claim, plan: pd.DataFrame) -> Measured:
    rows = at_lambda(plan, claim.lam)
    arms = {unit: terms for unit, terms in _arms(claim, rows) if all(terms)}
    if not arms:
        return Measured(reason="the study plans no combination with all arms of the claim")
    seeds = sorted(set.intersection(*(set(arm) for terms in arms.values() for arm in terms)))
    if len(seeds) < 2:
        return Measured(reason=f"all arms share {len(seeds)} planned seed(s); a test needs 2")
    weights = [term.weight for term in claim.contrast]
    by_unit = {unit: _values(weights, terms, seeds) for unit, terms in arms.items()}
    used = [arm[seed] for terms in arms.values() for arm in terms for seed in seeds]
    return Measured(
        by_seed=_average(by_unit, seeds),
        by_unit=by_unit,
        cells=sorted({row.path for row in used}),
        **_problems(used),
    )


def _arms(claim: Claim, rows: pd.DataFrame):
    """Yield (unit, one {seed: row} per term); a term with no planned cell is empty."""
    for block in blocks(rows):
        inside = in_block(rows, block)
        for operator in linear_operators(inside):
            terms = [_cells_of(term.arm, operator, inside) for term in claim.contrast]
            yield Unit(block, operator), terms


def _cells_of(arm: Arm, operator: str, rows: pd.DataFrame) -> dict[int, Any]:
    name = operator if arm.operator == "linear" else arm.operator
    found = pick(rows, operator=name, init=arm.init, distill=arm.distill)
    return {int(row.seed): row for row in found.itertuples()}


def _values(weights: list[float], terms: list[dict[int, Any]], seeds: list[int]):
    """seed -> contrast of one unit, of the seeds in which no arm is missing or diverged."""
    return {
        seed: float(sum(w * arm[seed].test_top1 for w, arm in zip(weights, terms, strict=True)))
        for seed in seeds
        if all(arm[seed].status == "ok" for arm in terms)
    }


def _average(by_unit: dict[Unit, dict[int, float]], seeds: list[int]) -> dict[int, float]:
    complete = [seed for seed in seeds if all(seed in values for values in by_unit.values())]
    return {seed: float(np.mean([v[seed] for v in by_unit.values()])) for seed in complete}


def _problems(used: list[Any]) -> dict[str, Any]:
    status = {row.path: row.status for row in used}
    bad = {path: state for path, state in sorted(status.items()) if state != "ok"}
    counts = [
        f"{list(bad.values()).count(state)} cell(s) {state}"
        for state in (MISSING, "diverged")
        if state in bad.values()
    ]
    strangers = sorted({row.path for row in used if not row.as_planned})
    return {
        "bad": [f"{path} ({state})" for path, state in bad.items()],
        "reason": " and ".join(counts) or None,
        "unplanned": f"{len(strangers)} of its cells added or changed after test numbers were read"
        if strangers
        else None,
    }
