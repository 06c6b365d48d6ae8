"""Results of a study that was never trained: files as training and evaluation write them.

`effect(cell)` gives the test accuracy of a cell without noise. The noise has a part that all cells
of a seed share (it cancels in paired contrasts) and a part of each cell.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from linvit.files import sha256_json
from linvit.study.aggregate import aggregate
from linvit.study.cell import Cell
from linvit.study.claims import Judged, judge
from linvit.study.claims_report import write_claims
from linvit.study.config import Study, load_study
from linvit.study.declaration import load_claims
from linvit.study.freeze import freeze
from linvit.study.select import read_cells

Effect = Callable[[Cell], float]
LIFT = {"random": 0.0, "copy": 0.0, "mlpcopy": 15.0, "mlpcopy_strict": 2.0, "fullcopy": 17.0}


class Judgement(NamedTuple):
    judged: list[Judged]
    markdown: str

    def verdicts(self) -> dict[str, str]:
        return {one.claim.id: one.verdict for one in self.judged}

    def of(self, claim: str) -> Judged:
        return next(one for one in self.judged if one.claim.id == claim)


def config(**changes: Any) -> dict[str, Any]:
    """A small study with two data sets, two linear operators and five seeds."""
    view = {"mean": [0.286], "std": [0.353], "shift": 2}
    recipe = {"epochs": 20, "batch_size": 50, "lr": 1e-3, "min_lr": 1e-5, "warmup_epochs": 2}
    recipe |= {"weight_decay": 0.05, "clip_grad": 1.0, "eval_every": 5, "view": view}
    shape = {"img_size": 28, "in_chans": 1, "patch_size": 7, "embed_dim": 64, "depth": 4}
    digits = {"from": "mnist-5k", "train": "fewshot", "shots": 20, "recipe": "r", "lambda": 10}
    fashion = {"from": "fashion-mnist", "train": "fewshot", "shots": 20, "recipe": "r"}
    teacher = {"dataset": "fashion-source", "size": "micro", "recipe": "r", "seed": 0}
    return {
        "study": "made-up",
        "device": "cpu-fp32",
        "seeds": [0, 1, 2, 3, 4],
        "sizes": {"micro": shape | {"num_heads": 2}},
        "sources": {"fashion": {"pretrain": teacher}},
        "datasets": {
            "fashion-source": {"from": "fashion-mnist", "train": "source"},
            "digits": digits,
            "clothes": fashion | {"lambda": 1},
        },
        "recipes": {"r": recipe},
        "grids": grids(),
    } | changes


def grids(operators: tuple[str, ...] = ("relu", "ttt")) -> dict[str, Any]:
    common = {"size": ["micro"], "dataset": ["digits", "clothes"], "source": ["fashion"]}
    linear = common | {"operator": list(operators)}
    inits = ["random", "copy", "mlpcopy", "fullcopy"]
    return {
        "components": linear | {"purpose": "claims", "init": inits, "distill": ["none", "output"]},
        "baselines": common
        | {"purpose": "references", "operator": ["softmax"], "init": ["random", "fullcopy"]}
        | {"distill": ["none"]},
    }


def more_grids(operators: tuple[str, ...] = ("relu", "ttt")) -> dict[str, Any]:
    common = {"size": ["micro"], "dataset": ["digits", "clothes"], "source": ["fashion"]}
    linear = common | {"operator": list(operators)}
    return grids(operators) | {
        "mlp-strict": linear
        | {"purpose": "strict", "init": ["mlpcopy_strict"], "distill": ["none"]}
        | {"seeds": [0, 1, 2]},
        "lambda-sweep": linear
        | {"purpose": "sweep", "init": ["random", "mlpcopy"], "distill": ["output"]}
        | {"lambda": [1, 10, 50, 250], "seeds": [0, 1, 2]},
    }


def as_in_the_paper(cell: Cell) -> float:
    """Effects under which all declared claims are true."""
    base = 60.0 if cell.dataset == "digits" else 70.0
    if cell.operator == "softmax":
        return base + (20.0 if cell.init == "fullcopy" else -4.0)
    if cell.distill == "output":
        peak = 0.5 * np.log10((cell.lam or 1) / 10) ** 2
        return base + (19.8 if cell.init in ("mlpcopy", "fullcopy") else 14.0) - peak
    return base + LIFT[cell.init]


def make_study(**changes: Any) -> Study:
    return load_study(config(**changes))


def write_results(
    study: Study,
    root: Path,
    effect: Effect = as_in_the_paper,
    *,
    shared: float = 3.0,
    own: float = 0.5,
    diverged: tuple[str, ...] = (),
) -> None:
    """shared, own: standard deviations of the noise, in points. diverged: paths of cells."""
    for cell in study.cells():
        noise = shared * normal("seed", cell.dataset, cell.seed) + own * normal(cell.path)
        top1 = None if cell.path in diverged else min(100.0, effect(cell) + noise)
        write_cell(study, root, cell, top1)


def normal(*key: Any) -> float:
    """A standard normal number that is a function of the key."""
    seed = int(sha256_json([str(part) for part in key])[:8], 16)
    return float(np.random.default_rng(seed).normal())


def write_cell(study: Study, root: Path, cell: Cell, top1: float | None) -> None:
    folder = root / "cells" / cell.path
    folder.mkdir(parents=True, exist_ok=True)
    spec, ok = study.spec(cell), top1 is not None
    common = {"schema": 1, "cell": cell.axes, "fingerprint": sha256_json(spec)}
    common["status"] = "ok" if ok else "diverged"
    metrics = common | {
        "diverged_step": None if ok else 7,
        "spec": spec,
        "digests": {"data": f"data-{cell.dataset}", "source": cell.source},
        "parameters": 250_000,
        "history": history(cell, top1) if ok else [],
        "final": {"train_loss": 0.1, "train_top1": 99.0, "val_loss": 0.6, "val_top1": top1}
        if ok
        else None,
        "ledger": {"copied": 0, "partly": 0, "fresh": 250_000, "by_component": {}},
    }
    test = common | {"n": 1000, "top1": top1, "loss": 0.7 if ok else None}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    (folder / "test.json").write_text(json.dumps(test))


def history(cell: Cell, top1: float) -> list[dict[str, Any]]:
    distilled = cell.distill != "none"
    return [
        {
            "epoch": float(epoch),
            "step": epoch * 4,
            "lr": 1e-3 / epoch,
            "train_loss": 2.0 / epoch,
            "train_ce": 1.5 / epoch,
            "distill": 0.01 / epoch if distilled else None,
            "distill_relative": 0.3 / epoch if distilled else None,
            "val_loss": 1.0 + 1 / epoch,
            "val_top1": top1 * (1 - np.exp(-epoch / 5)),
        }
        for epoch in (5, 10, 15, 20)
    ]


def finished(root: Path, study: Study, claims_file: Path, **noise: Any) -> Judgement:
    """Freeze, write results, aggregate and judge: a study from start to end."""
    freeze(claims_file, study, root)
    write_results(study, root, **noise)
    return judged_again(root, study, claims_file)


def judged_again(root: Path, study: Study, claims_file: Path) -> Judgement:
    """Freeze (which must change nothing once test numbers exist), aggregate and judge."""
    frozen = freeze(claims_file, study, root)
    aggregate(study, root)
    judged = judge(load_claims(claims_file), frozen, read_cells(root / "cells.csv"))
    write_claims(judged, frozen, root / "claims.md")
    return Judgement(judged, (root / "claims.md").read_text())


def shipped_claims() -> Path:
    return Path(__file__).parents[2] / "workflow" / "claims.yaml"
