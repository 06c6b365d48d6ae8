import dataclasses
import errno
import json
import os

import numpy as np
import pytest
from drawn_data import draw_arrays

from linvit.data import prepare as prepare_module
from linvit.data.prepare import prepare
from linvit.data.specs import DATASETS
from linvit.data.store import open_dataset
from linvit.errors import LinvitError

NAME = "fashion-mnist"


@pytest.fixture
def data(raw_folder, tmp_path):
    prepare(NAME, tmp_path / "data", raw_folder)
    return tmp_path / "data"


@pytest.mark.parametrize("name", ["digits", "mnist-5k"])
def test_packaged_sets_are_what_was_pinned(name, tmp_path):
    prepare(name, tmp_path)
    dataset = open_dataset(name, tmp_path)
    spec = DATASETS[name]
    assert dataset.digest == spec.digest
    pixels = dataset.images[dataset.split("pool")] / 255
    assert spec.mean[0] == pytest.approx(pixels.mean(), abs=5e-4)
    assert spec.std[0] == pytest.approx(pixels.std(), abs=5e-4)
    assert dataset.images.max() == 255


def test_opened_arrays_are_the_raw_ones_mapped_read_only(data, drawn):
    dataset = open_dataset(NAME, data)
    images, labels = draw_arrays(drawn[0])
    assert isinstance(dataset.images, np.memmap)
    assert not dataset.images.flags.writeable
    assert np.array_equal(dataset.images, images)
    assert np.array_equal(dataset.labels, labels)
    assert len(dataset.split("val")) == 10
    assert len(dataset.train_indices("fewshot", 1, seed=0)) == 10


def test_manifest_says_what_and_where_from_but_no_path(data, drawn, tmp_path):
    text = (data / NAME / "manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["digest"] == drawn[0].digest
    assert manifest["splits"] == drawn[0].splits
    assert manifest["provenance"]["place"] == "the folder named in the study"
    assert f"{tmp_path}" not in text


def test_preparing_again_gives_the_same_bytes(data, raw_folder):
    def snapshot():
        return {path.name: path.read_bytes() for path in (data / NAME).iterdir()}

    before = snapshot()
    prepare(NAME, data, raw_folder)
    assert snapshot() == before
    assert set(before) == {"images.npy", "labels.npy", "manifest.json"}


def test_a_folder_for_a_packaged_set_is_refused(tmp_path):
    with pytest.raises(LinvitError, match="remove the key digits from data:"):
        prepare("digits", tmp_path, tmp_path)


def test_other_data_than_pinned_is_refused(raw_folder, tmp_path, monkeypatch, drawn):
    monkeypatch.setitem(DATASETS, NAME, dataclasses.replace(drawn[0], digest="other"))
    with pytest.raises(LinvitError, match="expected other; it is not the data set"):
        prepare(NAME, tmp_path / "data", raw_folder)
    assert not (tmp_path / "data").exists()


def fail_at(monkeypatch, file: str, error: BaseException):
    write = prepare_module.atomic_write_bytes

    def failing(path, content):
        if path.name == file:
            raise error
        write(path, content)

    monkeypatch.setattr(prepare_module, "atomic_write_bytes", failing)


@pytest.mark.parametrize("file", ["images.npy", "labels.npy"])
def test_killed_between_files_is_not_done_and_can_be_repeated(data, raw_folder, monkeypatch, file):
    with monkeypatch.context() as patch:
        fail_at(patch, file, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            prepare(NAME, data, raw_folder)
    with pytest.raises(LinvitError, match=r"manifest\.json is missing"):
        open_dataset(NAME, data)
    prepare(NAME, data, raw_folder)
    open_dataset(NAME, data)


def test_leftovers_of_killed_runs_are_swept(data, raw_folder):
    old, young = (data / NAME / f".images.npy.{name}" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    prepare(NAME, data, raw_folder)
    assert young.exists()
    assert not old.exists()


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (errno.ENOSPC, "the disk is full; free at least"),
        (errno.EROFS, "make it writable"),
        (errno.EACCES, "make it writable"),
        (errno.EIO, "cannot be written"),
    ],
)
def test_storage_errors_name_folder_and_cure(raw_folder, tmp_path, monkeypatch, code, cure):
    fail_at(monkeypatch, "labels.npy", OSError(code, "reason"))
    with pytest.raises(LinvitError, match=f"{tmp_path}/data/{NAME}.*{cure}") as caught:
        prepare(NAME, tmp_path / "data", raw_folder)
    assert caught.value.__cause__.errno == code
    assert list((tmp_path / "data" / NAME).iterdir()) == []


def damage_arrays(folder, file, change):
    path = folder / NAME / file
    array = np.load(path)
    np.save(path, change(array))


def relabel(labels):
    labels[7] = 10
    return labels


def repaint(images):
    images[-1, 0, 0] ^= 1
    return images


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("images.npy", repaint, "digest of the arrays is"),
        ("images.npy", lambda a: a[:-1], r"images are uint8 \(89, 28, 28\), fashion-mnist needs"),
        ("images.npy", lambda a: a.astype(np.float32), "images are float32"),
        ("labels.npy", relabel, "label 10 of image 7 is out of range 0..9"),
        ("labels.npy", lambda a: a.astype(np.int32), "labels are int32"),
    ],
)
def test_damaged_arrays_name_folder_and_cure(data, file, change, message):
    damage_arrays(data, file, change)
    home = data / NAME
    with pytest.raises(LinvitError, match=f"{home} is damaged.*{message}.*; delete it and run"):
        open_dataset(NAME, data)


def test_files_cut_short_or_missing(data):
    path = data / NAME / "images.npy"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(LinvitError, match=r"is damaged.*images\.npy"):
        open_dataset(NAME, data)
    path.unlink()
    with pytest.raises(LinvitError, match=r"images\.npy is missing"):
        open_dataset(NAME, data)


@pytest.mark.parametrize("key", ["schema", "name", "digest"])
def test_a_manifest_of_another_version_is_named(data, key):
    path = data / NAME / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: "other"}))
    with pytest.raises(LinvitError, match=f"{key} in manifest.json is 'other'"):
        open_dataset(NAME, data)
    path.write_text("[]")
    with pytest.raises(LinvitError, match=r"schema in manifest\.json is None"):
        open_dataset(NAME, data)


def test_damage_after_a_verified_open_is_still_seen(data):
    open_dataset(NAME, data)
    damage_arrays(data, "images.npy", repaint)
    with pytest.raises(LinvitError, match="digest of the arrays"):
        open_dataset(NAME, data)
