"""Short runs whose losses are pinned, with the `numerics` that each component declares.

A component's `numerics` (linvit.catalog) is part of every fingerprint. If losses move and the
integer does not, results of two versions would be mixed without anybody noticing.
"""

import json
from itertools import chain
from pathlib import Path
from typing import Any

from by_hand import parts

from linvit.catalog import DISTILLS, INITS, OPERATORS
from linvit.study.config import load_study
from linvit.study.specs import spec_path, write_specs
from tiny_study import config

FILE = Path(__file__).with_name("numerics.json")
STEPS = 3
# Between instruction sets (SSE4 and AVX-512) losses differ by less than 5e-6; a changed epsilon,
# std or order of draws moves them by far more.
TOLERANCE = 5e-5


def runs() -> dict[str, tuple[dict[str, str], dict[str, Any]]]:
    """name -> (axes, changes of the study). Each component takes part in one run at least."""
    copied = {"init": "fullcopy", "distill": "output"}
    scratch = {"operator": "relu", "init": "random", "distill": "none"}
    view = {"mean": [0.4], "std": [0.3], "shift": 2, "hflip": True}
    made = {f"operator {name}": ({"operator": name} | copied, {}) for name in OPERATORS}
    made |= {
        f"init {name}": ({"operator": "ttt", "init": name, "distill": "none"}, {}) for name in INITS
    }
    made |= {
        f"distill {name} {tap}": (
            {"operator": "ttt", "init": "mlpcopy", "distill": name},
            {"tap": tap},
        )
        for name in DISTILLS
        for tap in ("post", "pre")
        if name != "none"
    }
    made["view"] = scratch, {"view": view}
    made["loop"] = scratch, {"drop_path": 0.3, "label_smoothing": 0.1, "clip_grad": 0.1}
    return made


def measure(axes: dict[str, str], changes: dict[str, Any]) -> dict[str, Any]:
    """{"numerics": ..., "losses": of the first steps, STEPS rows}."""
    data = config(**changes)
    data["grids"]["all"]["init"] = list(INITS)
    study = load_study(data)
    write_specs(study)
    (cell,) = (c for c in study.cells() if axes.items() <= c.axes.items())
    hand = parts(spec_path(study, cell))
    losses = [[float(f"{value:.6g}") for value in hand.step().tolist()] for _ in range(STEPS)]
    return {"numerics": study.spec(cell)["numerics"], "losses": losses}


def pinned() -> dict[str, Any]:
    return json.loads(FILE.read_text())


def moved(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether any loss differs by more than TOLERANCE of its size."""
    flat = [chain.from_iterable(run["losses"]) for run in (old, new)]
    pairs = zip(*flat, strict=True)
    return any(abs(a - b) > TOLERANCE * max(abs(a), abs(b), 1e-3) for a, b in pairs)
