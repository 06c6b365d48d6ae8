"""The one form every reader decodes its raw files to."""

from dataclasses import dataclass

import numpy as np

from linvit.data.specs import DatasetSpec
from linvit.errors import LinvitError


@dataclass(frozen=True)
class Decoded:
    """images uint8 (N, H, W) or (N, H, W, C); labels int64 (N,); place: where they came from."""

    images: np.ndarray
    labels: np.ndarray
    place: str


def check_arrays(spec: DatasetSpec, images: np.ndarray, labels: np.ndarray, where: str) -> None:
    """Raises LinvitError unless shapes, types and the range of labels are the spec's."""
    channels = () if spec.in_chans == 1 else (spec.in_chans,)
    expected = (spec.count, *spec.size, *channels)
    if images.dtype != np.uint8 or images.shape != expected:
        found = f"{images.dtype} {images.shape}"
        raise LinvitError(f"{where}: images are {found}, {spec.name} needs uint8 {expected}")
    if labels.dtype != np.int64 or labels.shape != (spec.count,):
        found = f"{labels.dtype} {labels.shape}"
        raise LinvitError(f"{where}: labels are {found}, {spec.name} needs int64 ({spec.count},)")
    check_labels(labels, len(spec.classes), where)


def check_labels(labels: np.ndarray, classes: int, where: str) -> None:
    """Raises LinvitError naming the first label outside 0..classes-1."""
    wrong = np.flatnonzero((labels < 0) | (labels >= classes))
    if len(wrong):
        first = int(wrong[0])
        raise LinvitError(
            f"{where}: label {int(labels[first])} of image {first} is out of range 0..{classes - 1}"
        )
