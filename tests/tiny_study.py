"""A study whose cells train in a tenth of a second: digits, 4 x 4 patches, width 16, 6 steps."""

import json
import shutil
from pathlib import Path
from typing import Any

from linvit.catalog import OPERATORS
from linvit.files import atomic_write_bytes, atomic_write_json, sha256_file
from linvit.study.choose import choose_cells
from linvit.study.config import load_study
from linvit.study.specs import spec_path, write_specs
from linvit.train.train import result_folder

NANO = {"img_size": 8, "in_chans": 1, "patch_size": 2, "embed_dim": 16, "depth": 2, "num_heads": 2}
RECIPE = {"epochs": 2, "batch_size": 10, "lr": 1e-2, "min_lr": 1e-4, "warmup_epochs": 0}
RECIPE |= {"weight_decay": 0.05, "clip_grad": 1.0, "eval_every": 1}
RECIPE |= {"view": {"mean": [0.308], "std": [0.378], "shift": 1}}
SOURCE = Path("results/tiny/sources/own.safetensors")


def config(tap: str = "post", device: str = "cpu-fp32", **recipe: Any) -> dict[str, Any]:
    """The study; `recipe` overrides keys of its one recipe."""
    grid = {"purpose": "everything", "size": ["nano"], "source": ["own"]}
    grid |= {"operator": list(OPERATORS), "init": ["random", "mlpcopy", "fullcopy"]}
    return {
        "study": "tiny",
        "device": device,
        "seeds": [0],
        "sizes": {"nano": NANO},
        "sources": {"own": {"file": "own.safetensors", "size": "nano"}},
        "datasets": {
            "digits-30": {"from": "digits", "train": "fewshot", "shots": 3}
            | {"recipe": "short", "lambda": 10.0}
        },
        "recipes": {"short": RECIPE | recipe},
        "distillation": {"tap": tap},
        "grids": {"all": grid | {"dataset": ["digits-30"], "distill": ["none", "output"]}},
    }


def write_cells(*texts: str, **changes: Any) -> list[Path]:
    """Write the specs and return those of the chosen cells, e.g. "operator=relu,elu"."""
    study = load_study(config(**changes))
    write_specs(study)
    return [spec_path(study, cell) for cell in choose_cells(study.cells(), texts)]


def one_cell(
    operator: str = "relu", init: str = "random", distill: str = "none", **changes: Any
) -> Path:
    axes = {"operator": operator, "init": init, "distill": distill}
    (path,) = write_cells(*(f"{axis}={value}" for axis, value in axes.items()), **changes)
    return path


def edit(spec: Path, block: str, **changes: Any) -> Path:
    """Change a written spec in place: edit(spec, "recipe", lr=1.0)."""
    content = json.loads(spec.read_text())
    content[block] |= changes
    spec.write_text(json.dumps(content))
    return spec


def draw_source(seed: int = 99) -> dict[str, Any]:
    """State of a Softmax ViT with weights large enough that its attention matters."""
    import torch

    from linvit import models

    model = models.create("softmax", **NANO, num_classes=10)
    generator = torch.Generator().manual_seed(seed)
    state = {}
    for name, value in model.state_dict().items():
        drawn = torch.randn(value.shape, generator=generator)
        state[name] = 1 + 0.1 * drawn if "norm" in name and "weight" in name else 0.3 * drawn
    return state


def write_source(path: Path, state: dict[str, Any] | None = None, **shape: int) -> Path:
    """Weights and their description, as the rule of a source leaves them."""
    import safetensors.torch

    atomic_write_bytes(path, safetensors.torch.save(state or draw_source()))
    described = {"model": NANO | shape, "sha256": sha256_file(path), "provenance": None}
    atomic_write_json(path.with_suffix(".json"), described)
    return path


def prepare_here() -> None:
    """Data and source in the current folder, one thread: all that training needs."""
    import torch

    from linvit.data.prepare import prepare

    torch.set_num_threads(1)
    prepare("digits", Path("results/data"))
    write_source(SOURCE)


def metrics_of(spec: Path) -> dict[str, Any]:
    return json.loads((result_folder(spec) / "metrics.json").read_text())


def store_of(spec: Path) -> Path:
    """The store entry of a cell that has been trained."""
    return Path("results/.store") / metrics_of(spec)["fingerprint"]


def forget_all() -> None:
    """Remove every result, stored and declared."""
    for folder in ("results/.store", "results/tiny/cells"):
        shutil.rmtree(folder, ignore_errors=True)


def outcome(spec: Path) -> tuple[bytes, bytes]:
    """What must not depend on how a cell was trained: metrics.json and the weights."""
    weights = store_of(spec) / "model.safetensors"
    return (result_folder(spec) / "metrics.json").read_bytes(), weights.read_bytes()
