"""Drawn stand-ins for raw data, in the true formats."""

import gzip
import struct
from pathlib import Path

import numpy as np


def idx_bytes(array: np.ndarray, magic: int) -> bytes:
    return struct.pack(f">{1 + array.ndim}I", magic, *array.shape) + array.tobytes()


def draw_arrays(spec) -> tuple[np.ndarray, np.ndarray]:
    """Noise with the shape of the spec, labels in turn."""
    images = np.random.default_rng(0).integers(0, 256, (spec.count, *spec.size), dtype=np.uint8)
    return images, np.arange(spec.count) % len(spec.classes)


def write_raw(folder: Path, files: dict[str, bytes], gzipped: bool = True) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        path = folder / (f"{name}.gz" if gzipped else name)
        path.write_bytes(gzip.compress(data) if gzipped else data)
    return folder
