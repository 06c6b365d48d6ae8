"""scikit-learn's digits: 8 x 8 counts 0..16, scaled to the range of a byte."""

from pathlib import Path

import numpy as np

from linvit.data.decoded import Decoded
from linvit.data.packaged import missing_package, refuse_folder
from linvit.data.specs import DatasetSpec


def read(spec: DatasetSpec, raw: Path | None) -> Decoded:
    refuse_folder(spec, raw)
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise missing_package(spec, "scikit-learn") from None
    bunch = load_digits()
    # Rounded to nearest in integers: 16 -> 255, 8 -> 128.
    images = (bunch.images.astype(np.int64) * 255 + 8) // 16
    labels = bunch.target.astype(np.int64)
    return Decoded(images.astype(np.uint8), labels, "Python package scikit-learn")
