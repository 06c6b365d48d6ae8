"""Files are whole or absent; digests and JSON are canonical."""

import errno
import json
import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linvit import files
from linvit.errors import LinvitError

PLAIN = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(
    PLAIN | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(JSON)
def test_canonical_json_is_lossless_and_ignores_the_order_of_keys(value):
    text = files.canonical_json(value)
    assert json.loads(text) == value
    turned = dict(reversed(value.items())) if isinstance(value, dict) else value
    assert files.sha256_json(turned) == files.sha256_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
def test_json_has_no_nan(value, tmp_path):
    for write in (files.canonical_json, files.pretty_json):
        with pytest.raises(ValueError, match="not JSON compliant"):
            write(value)
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.atomic_write_json(tmp_path / "a.json", value)
    assert list(tmp_path.iterdir()) == []


def test_an_atomic_write_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b" / "file"
    files.atomic_write_bytes(path, b"old")
    files.atomic_write_text(path, "new é")
    assert path.read_text() == "new é"
    assert [p.name for p in path.parent.iterdir()] == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "file"
    files.atomic_write_bytes(path, b"old")
    monkeypatch.setattr(os, step, full)
    with pytest.raises(OSError, match="No space"):
        files.atomic_write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interrupted_write_is_cleaned_up(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        files.atomic_write_bytes(tmp_path / "file", b"new")
    assert list(tmp_path.iterdir()) == []


def test_the_file_and_its_folder_are_synced(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    files.atomic_write_bytes(tmp_path / "file", b"x")
    assert len(synced) == 2
    assert synced[0].startswith(str(tmp_path / ".file."))
    assert synced[1] == str(tmp_path)


def test_write_if_changed_leaves_equal_files_alone(tmp_path):
    path = tmp_path / "file"
    assert files.write_if_changed(path, "one")
    before = path.stat()
    assert not files.write_if_changed(path, "one")
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert path.stat().st_ino == before.st_ino
    assert files.write_if_changed(path, "two")


def test_digests(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert files.sha256_file(path) == expected


@pytest.mark.parametrize("content", [b"{", b"", b"\xff\xfe", b"{'a': 1}"])
def test_a_damaged_json_is_one_complaint(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(LinvitError, match="is damaged") as error:
        files.read_json(path)
    assert str(path) in str(error.value)


def test_a_missing_json_is_one_complaint(tmp_path):
    with pytest.raises(LinvitError, match="is missing; run the rule that makes it"):
        files.read_json(tmp_path / "a.json")
