"""The shape of a study's YAML: keys, types, ranges. What spans several keys is in checks.py."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from linvit.study.cell import NAME_RULE, is_name, is_weight

_UNSAFE = re.compile(r"[\x00-\x1f\x7f$`;|&<>\"'\\*?]")


def _name(text: str) -> str:
    if not is_name(text):
        raise ValueError(f"is not a name: use {NAME_RULE}")
    return text


def _path(text: str) -> str:
    if not text or _UNSAFE.search(text) or ".." in text.split("/"):
        raise ValueError("is not a plain path: no '..', no quotes, no shell or control characters")
    return text


def _weight(number: float) -> float:
    if not is_weight(number):
        raise ValueError("must be > 0 and have at most six digits, since the cell's path shows it")
    return float(number)


Name = Annotated[str, AfterValidator(_name)]
PlainPath = Annotated[str, AfterValidator(_path)]
Weight = Annotated[float, AfterValidator(_weight)]
Seed = Annotated[int, Field(ge=0, lt=2**32)]
Count = Annotated[int, Field(ge=1)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Axis = Annotated[list[str], Field(min_length=1)]
Seeds = Annotated[list[Seed], Field(min_length=1)]


class Block(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Size(Block):
    """A ViT: square images of img_size pixels, square patches, `depth` blocks of `embed_dim`."""

    img_size: Count
    in_chans: Count
    patch_size: Count
    embed_dim: Count
    depth: Count
    num_heads: Count


class Pretrain(Block):
    """A Softmax ViT trained from random weights inside the study."""

    dataset: str
    size: str
    recipe: str
    seed: Seed


class Source(Block):
    """Either `pretrain`, or `file` (safetensors with timm's names) and its `size`."""

    pretrain: Pretrain | None = None
    file: PlainPath | None = None
    size: str | None = None


class Dataset(Block):
    """What is trained on. lambda: the weight of distillation unless a grid says otherwise."""

    from_: str = Field(alias="from")
    train: Literal["source", "pool", "fewshot"]
    shots: Count | None = None
    recipe: str | None = None
    lam: Weight | None = Field(None, alias="lambda")


class View(Block):
    """Normalisation (per channel of pixels in 0..1) and augmentation (shift in pixels)."""

    mean: Annotated[list[float], Field(min_length=1)]
    std: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]
    shift: Annotated[int, Field(ge=0)] = 0
    hflip: bool = False


class Recipe(Block):
    """AdamW, linear warm-up, cosine to min_lr. eval_every: epochs between two validations."""

    epochs: Count
    batch_size: Count
    lr: Annotated[float, Field(gt=0)]
    min_lr: Annotated[float, Field(ge=0)]
    warmup_epochs: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    clip_grad: Annotated[float, Field(gt=0)]
    drop_path: Fraction = 0.0
    label_smoothing: Fraction = 0.0
    eval_every: Count
    view: View


class Distillation(Block):
    """tap: the attention output is read after (`post`) or before (`pre`) its projection."""

    tap: Literal["post", "pre"] = "post"


class Grid(Block):
    """A named product of axes, with the table, figure or claim it exists for."""

    purpose: Annotated[str, Field(min_length=1)]
    operator: Axis
    size: Axis
    dataset: Axis
    init: Axis
    distill: Axis
    source: Axis | None = None
    lam: Annotated[list[Weight], Field(min_length=1)] | None = Field(None, alias="lambda")
    seeds: Seeds | None = None


class StudyConfig(Block):
    study: Name
    device: Literal["cpu-fp32", "cuda-bf16"]
    seeds: Seeds
    sizes: dict[Name, Size] = {}
    sources: dict[Name, Source] = {}
    data: dict[str, PlainPath] = {}
    datasets: Annotated[dict[Name, Dataset], Field(min_length=1)]
    recipes: Annotated[dict[Name, Recipe], Field(min_length=1)]
    distillation: Distillation = Distillation()
    grids: Annotated[dict[Name, Grid], Field(min_length=1)]
    keep_models: list[str] = []
