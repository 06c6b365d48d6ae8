"""No test here may look outside its own folder: no network, no system folder, no apt."""

import dataclasses
import hashlib
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from drawn_data import draw_arrays, idx_bytes, write_raw

from linvit.data import fashion_mnist, fetch
from linvit.data.specs import DATASETS, FASHION_MNIST
from linvit.data.store import dataset_digest

SPLITS = {"source": 40, "pool": 20, "val": 10, "test": 20}


@pytest.fixture(autouse=True)
def isolated(monkeypatch, tmp_path):
    def refuse(*args, **kwargs):
        raise urllib.error.URLError("no network in tests")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setattr(fashion_mnist, "mirrors", lambda: ["http://mirror.invalid/"])
    monkeypatch.setattr(fashion_mnist, "SYSTEM_FOLDER", tmp_path / "no-such-system-folder")
    monkeypatch.setattr(fetch.shutil, "which", lambda program: None)
    monkeypatch.setattr(fetch.time, "sleep", lambda seconds: None)


@pytest.fixture
def drawn(monkeypatch):
    """(spec, files): a small fashion-mnist, drawn, in the true format; files: name -> bytes."""
    spec = dataclasses.replace(FASHION_MNIST, splits=SPLITS, official_test=SPLITS["test"])
    images, labels = draw_arrays(spec)
    train = spec.count - spec.official_test
    files = {}
    for part, chosen in (("train", slice(train)), ("t10k", slice(train, None))):
        files[f"{part}-images-idx3-ubyte"] = idx_bytes(images[chosen], 2051)
        files[f"{part}-labels-idx1-ubyte"] = idx_bytes(labels[chosen].astype(np.uint8), 2049)
    sums = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    digest = dataset_digest(spec, images, labels)
    spec = dataclasses.replace(spec, raw_sha256=sums, digest=digest)
    monkeypatch.setitem(DATASETS, spec.name, spec)
    return spec, files


@pytest.fixture
def raw_folder(drawn, tmp_path) -> Path:
    return write_raw(tmp_path / "raw", drawn[1])
