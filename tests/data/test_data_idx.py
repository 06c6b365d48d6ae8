import numpy as np
import pytest
from drawn_data import idx_bytes

from linvit.data.idx import MAGIC_IMAGES, MAGIC_LABELS, parse_idx
from linvit.errors import LinvitError

IMAGES = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


def test_images_and_labels_round_trip():
    assert np.array_equal(parse_idx(idx_bytes(IMAGES, 2051), MAGIC_IMAGES, "f"), IMAGES)
    labels = np.array([3, 1], np.uint8)
    assert np.array_equal(parse_idx(idx_bytes(labels, 2049), MAGIC_LABELS, "f"), labels)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0\0", "2 bytes, shorter than the idx header"),
        (idx_bytes(IMAGES, 2049), "idx magic number 2049, expected 2051"),
        (idx_bytes(IMAGES, 2051)[:-1], "23 bytes after the header, which promises 2 x 3 x 4"),
        (idx_bytes(IMAGES, 2051) + b"\0", "25 bytes after the header"),
    ],
)
def test_wrong_files_are_named(data, message):
    with pytest.raises(LinvitError, match=f"some-file: {message}"):
        parse_idx(data, MAGIC_IMAGES, "some-file")
