import dataclasses
import gzip
import hashlib
import io
import urllib.request

import numpy as np
import pytest
from drawn_data import draw_arrays, idx_bytes, write_raw

from linvit.data import fashion_mnist
from linvit.errors import LinvitError

TRAIN_IMAGES = "train-images-idx3-ubyte"


def check_read(spec, raw, place):
    decoded = fashion_mnist.read(spec, raw)
    images, labels = draw_arrays(spec)
    assert np.array_equal(decoded.images, images)
    assert np.array_equal(decoded.labels, labels)
    assert decoded.labels.dtype == np.int64
    assert decoded.place == place


@pytest.mark.parametrize("gzipped", [True, False])
@pytest.mark.parametrize("below", ["", "FashionMNIST/raw"])
def test_reads_the_users_folder(drawn, tmp_path, gzipped, below):
    spec, files = drawn
    write_raw(tmp_path / "mine" / below, files, gzipped)
    check_read(spec, tmp_path / "mine", "the folder named in the study")


def test_reads_the_system_folder(drawn, raw_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(fashion_mnist, "SYSTEM_FOLDER", raw_folder)
    check_read(drawn[0], tmp_path / "typo", f"{raw_folder}")


def test_reads_a_mirror(drawn, monkeypatch):
    spec, files = drawn
    served = {f"http://mirror.invalid/{n}.gz": gzip.compress(d) for n, d in files.items()}
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: io.BytesIO(served[url]))
    check_read(spec, None, "network mirror")


def test_names_every_place_tried(drawn, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(LinvitError) as caught:
        fashion_mnist.read(drawn[0], tmp_path / "empty")
    message = f"{caught.value}"
    assert f"the folder named in the study: {tmp_path}/empty has no {TRAIN_IMAGES}" in message
    assert f"{tmp_path}/no-such-system-folder is not a folder" in message
    assert "network mirror: http://mirror.invalid/train-images-idx3-ubyte.gz" in message
    assert "no network in tests" in message
    assert "Debian package dataset-fashion-mnist: no apt-get here" in message
    assert "data: {fashion-mnist: /that/folder}" in message


def test_damaged_content_names_file_and_digests(drawn, raw_folder):
    spec, files = drawn
    changed = files[TRAIN_IMAGES][:-1] + b"x"
    path = raw_folder / f"{TRAIN_IMAGES}.gz"
    path.write_bytes(gzip.compress(changed))
    with pytest.raises(LinvitError) as caught:
        fashion_mnist.read(spec, raw_folder)
    message = f"{caught.value}"
    assert f"{path}" in message
    assert hashlib.sha256(changed).hexdigest() in message
    assert f"expected {spec.raw_sha256[TRAIN_IMAGES]}" in message
    assert "replace the file" in message


@pytest.mark.parametrize(
    "damage", [lambda d: d[:-20], lambda d: b"<html>", lambda d: d[:40] + b"?" * 99]
)
def test_damaged_gzip_is_named(drawn, raw_folder, damage):
    path = raw_folder / f"{TRAIN_IMAGES}.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(LinvitError, match=rf"{path} is damaged: not a whole gzip file"):
        fashion_mnist.read(drawn[0], raw_folder)


def test_a_mirrors_damaged_file_is_a_reason_not_the_end(drawn, monkeypatch):
    login_page = io.BytesIO(b"<html>please log in</html>")
    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: login_page)
    with pytest.raises(LinvitError, match="Debian package") as caught:
        fashion_mnist.read(drawn[0], None)
    assert "not a whole gzip file" in f"{caught.value}"


def test_label_out_of_range(drawn, tmp_path):
    spec, files = drawn
    name = "t10k-labels-idx1-ubyte"
    files[name] = idx_bytes(np.array([0, 1, 10], np.uint8), 2049)
    sums = {**spec.raw_sha256, name: hashlib.sha256(files[name]).hexdigest()}
    with pytest.raises(LinvitError, match=f"{name}: label 10 of image 2 is out of range 0..9"):
        fashion_mnist.read(
            dataclasses.replace(spec, raw_sha256=sums), write_raw(tmp_path / "raw", files)
        )
