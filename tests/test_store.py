"""The side store: one writer, whole results or none, and what a user sees of the disk."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

from linvit import store
from linvit.errors import DISK_FULL, LinvitError
from linvit.store import RESULT_FILES, Entry, Lost, disk_errors


@pytest.fixture
def entry(tmp_path):
    made = Entry("f" * 64, tmp_path / "store")
    yield made
    made.unlock()


def another(entry: Entry) -> Entry:
    """As a second process sees it: flock belongs to the open file, not to the process."""
    return Entry(entry.fingerprint, entry.folder.parent)


def fill(entry: Entry) -> Entry:
    entry.lock()
    entry.note("metrics.json", {"status": "ok"})
    entry.note("run.json", {"host": "here"})
    entry.model.write_bytes(b"weights")
    entry.finish()
    entry.unlock()
    return entry


def test_one_writer(entry):
    second = another(entry)
    assert not entry.running()
    assert entry.lock()
    assert entry.running()
    assert not second.lock(wait=False)
    entry.unlock()
    assert second.lock(wait=False)
    second.unlock()
    assert not entry.running()


def test_a_waiting_writer_comes_next(entry):
    entry.lock()
    second, owned = another(entry), threading.Event()
    waiting = threading.Thread(target=lambda: (second.lock(), owned.set()), daemon=True)
    waiting.start()
    assert not owned.wait(0.05)
    entry.unlock()
    assert owned.wait(5)
    second.check_owned()
    second.unlock()


def test_a_waiting_writer_survives_the_removal_of_the_entry(entry):
    entry.lock()
    second, owned = another(entry), threading.Event()
    waiting = threading.Thread(target=lambda: (second.lock(), owned.set()), daemon=True)
    waiting.start()
    assert not owned.wait(0.05)
    shutil.rmtree(entry.folder)
    entry.unlock()
    assert owned.wait(5)
    second.check_owned()
    assert second.running()
    second.unlock()


def test_who_does_not_own_the_entry_does_not_write(entry):
    with pytest.raises(Lost):
        entry.note("metrics.json", {})
    entry.lock()
    shutil.rmtree(entry.folder)
    for write in (entry.check_owned, lambda: entry.note("run.json", {}), entry.finish):
        with pytest.raises(Lost, match="no longer belongs to this process"):
            write()
    assert not entry.folder.exists()


def test_an_entry_that_another_took_over_is_lost(entry):
    entry.lock()
    shutil.rmtree(entry.folder)
    second = another(entry)
    assert second.lock(wait=False)
    with pytest.raises(Lost):
        entry.note("metrics.json", {})
    second.note("metrics.json", {})
    second.unlock()


def test_finish_drops_checkpoints_and_failure(entry):
    (entry.folder / "checkpoints").mkdir(parents=True)
    entry.failure.write_text("{}")
    assert not entry.finished()
    fill(entry)
    assert entry.finished()
    left = {path.name for path in entry.folder.iterdir()}
    assert left == {"lock", "complete.json", "metrics.json", "run.json", "model.safetensors"}


@pytest.mark.parametrize("name", ["metrics.json", "run.json", "model.safetensors", "complete.json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "gone", "empty object", "list"])
def test_a_damaged_entry_is_not_finished(entry, name, damage):
    path = fill(entry).folder / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    content = {"flip": bytes(data), "cut": path.read_bytes()[:-3], "empty object": b"{}"}
    path.unlink()
    if damage != "gone":
        path.write_bytes(content.get(damage, b'["metrics.json"]'))
    assert not entry.finished()


def test_emit_copies_metrics_last_and_leaves_equal_files_alone(entry, tmp_path, monkeypatch):
    written, real = [], store.atomic_write_bytes

    def record(path, data):
        written.append(Path(path).name)
        real(path, data)

    monkeypatch.setattr(store, "atomic_write_bytes", record)
    target = tmp_path / "cells" / "a"
    fill(entry).emit(target, RESULT_FILES)
    assert written == ["run.json", "metrics.json"]
    entry.emit(target, RESULT_FILES)
    assert len(written) == 2
    (target / "run.json").write_text("other")
    entry.emit(target, RESULT_FILES)
    assert written[2:] == ["run.json"]
    assert (target / "run.json").read_bytes() == (entry.folder / "run.json").read_bytes()


def test_forget(entry):
    fill(entry).forget()
    assert not entry.folder.exists()
    entry.forget()  # nothing there is no error


def test_what_is_being_trained_is_not_forgotten(entry):
    fill(entry).lock()
    with pytest.raises(LinvitError, match="is being trained right now; stop that process first"):
        another(entry).forget()
    assert entry.finished()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_has_its_code_and_one_line(number, capsys):
    with pytest.raises(SystemExit) as error, disk_errors(Path("here")):
        raise OSError(number, os.strerror(number))
    assert error.value.code == DISK_FULL == 74
    assert capsys.readouterr().out == "linvit: no space left for here; free some and run again\n"


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.EPERM])
def test_a_place_that_cannot_be_written_is_one_complaint(number):
    with pytest.raises(LinvitError, match=r"there/file: .*right to write"), disk_errors(Path("x")):
        raise OSError(number, os.strerror(number), "there/file")
    with pytest.raises(LinvitError, match=r"^here: "), disk_errors(Path("here")):
        raise OSError(number, os.strerror(number))


def test_other_errors_stay_what_they_are():
    with pytest.raises(OSError, match="Is a directory"), disk_errors(Path("here")):
        raise OSError(errno.EISDIR, "Is a directory")
