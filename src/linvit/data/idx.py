"""The idx format of MNIST and its descendants: big-endian header, then uint8 values."""

import struct

import numpy as np

from linvit.errors import LinvitError

MAGIC_LABELS = 2049  # uint8, one dimension
MAGIC_IMAGES = 2051  # uint8, three dimensions


def parse_idx(data: bytes, magic: int, where: str) -> np.ndarray:
    """Read uint8 (N,) or (N, H, W); raises LinvitError for a header or length that is wrong."""
    dimensions = magic & 0xFF
    header = 4 + 4 * dimensions
    if len(data) < header:
        raise LinvitError(f"{where}: {len(data)} bytes, shorter than the idx header ({header})")
    found, *shape = struct.unpack(f">{1 + dimensions}I", data[:header])
    if found != magic:
        raise LinvitError(f"{where}: idx magic number {found}, expected {magic}")
    expected = int(np.prod(shape, dtype=object))
    if len(data) - header != expected:
        size = " x ".join(map(str, shape))
        raise LinvitError(
            f"{where}: {len(data) - header} bytes after the header, which promises {size}"
        )
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)
