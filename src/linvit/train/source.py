"""A pre-trained Softmax ViT on disk, as weights to copy from and as a frozen teacher."""

from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from timm.models import VisionTransformer
from torch import Tensor

from linvit import models
from linvit.distill import Teacher
from linvit.errors import LinvitError
from linvit.files import atomic_write_bytes, atomic_write_json, read_json, sha256_file

SHAPE_KEYS = ("img_size", "in_chans", "patch_size", "embed_dim", "depth", "num_heads")


@dataclass(frozen=True)
class Source:
    """state: timm's names. model: its shape. digest: of the weights file."""

    path: Path
    state: dict[str, Tensor]
    model: dict
    digest: str


def load_source(path: Path) -> Source:
    """Read `path` (.safetensors) and the description beside it (.json).

    Raises:
        LinvitError: missing or damaged, the digest differs from the description's, or a weight is
            not finite.
    """
    path = Path(path)
    described = read_json(path.with_suffix(".json"))
    try:
        digest = sha256_file(path)
        state = safetensors.torch.load_file(path)
    except (OSError, SafetensorError) as error:
        raise LinvitError(f"{path} cannot be read ({error}); delete it and run again") from None
    if digest != described.get("sha256"):
        raise LinvitError(
            f"{path} has digest {digest[:12]}, its description says "
            f"{str(described.get('sha256'))[:12]}; delete both and run again"
        )
    check_finite(state, path)
    return Source(path, state, described["model"], digest)


def check_finite(state: dict[str, Tensor], path: Path) -> None:
    for name, value in state.items():
        if not torch.isfinite(value).all():
            raise LinvitError(f"{path}: {name!r} holds NaN or Inf; use undamaged weights")


def adopt(file: Path, model: dict, out: Path) -> None:
    """Take over weights that the user has: `out` (.safetensors) and its description (.json).

    model: the shape of the Softmax ViT that the weights must fit, timm's names, any head.
    Raises LinvitError when the file is missing, is no safetensors, lacks or adds keys, or holds a
    weight that is not finite.
    """
    try:
        state = safetensors.torch.load_file(file)
    except (OSError, SafetensorError) as error:
        raise LinvitError(f"source file {file} cannot be read as safetensors: {error}") from None
    make_backbone(state, model, file)
    check_finite(state, file)
    described = {
        "model": model,
        "sha256": sha256_file(file),
        "provenance": {"file": Path(file).name},
    }
    atomic_write_json(out.with_suffix(".json"), described)
    atomic_write_bytes(out, Path(file).read_bytes())


def make_backbone(state: dict[str, Tensor], model: dict, path: Path) -> VisionTransformer:
    """The Softmax ViT of this shape with the weights of `path`, all but the head."""
    made = models.create("softmax", **model, num_classes=0)
    try:
        made.load_state_dict({k: v for k, v in state.items() if not k.startswith("head.")})
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise LinvitError(f"{path} does not fit the size of its source: {reason}") from None
    return made


def check_shape(source: Source, spec: dict) -> None:
    """Width, depth and heads must agree: head counts are invisible in tensor shapes."""
    for name in SHAPE_KEYS:
        if source.model[name] != spec["model"][name]:
            raise LinvitError(
                f"source {source.path} has {name} {source.model[name]}, the cell's size has "
                f"{spec['model'][name]}; use a source of the cell's size"
            )


def make_teacher(source: Source, tap: str, device: torch.device) -> Teacher:
    return Teacher(make_backbone(source.state, source.model, source.path).to(device), tap)
