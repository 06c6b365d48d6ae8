"""The side store: finished results and checkpoints by fingerprint, one writer each.

It is not a declared output, so Snakemake, which deletes declared outputs before a re-run, never
touches it. An entry is finished when `complete.json` exists and every digest in it holds.
"""

import contextlib
import errno
import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

from linvit.errors import DISK_FULL, LinvitError, disk_is_full
from linvit.files import (
    atomic_write_bytes,
    atomic_write_json,
    fsync_folder,
    read_json,
    sha256_file,
)
from linvit.say import say

STORE = Path("results/.store")
RESULT_FILES = ("run.json", "metrics.json")


class Lost(LinvitError):
    """The lock is no longer ours: the entry was removed or another process took it over."""


class Entry:
    """The folder of one fingerprint."""

    def __init__(self, fingerprint: str, store: Path = STORE):
        self.fingerprint = fingerprint
        self.folder = Path(store) / fingerprint
        self.model = self.folder / "model.safetensors"
        self.progress = self.folder / "progress.json"
        self.failure = self.folder / "failed.json"
        self._lock: int | None = None

    def lock(self, wait: bool = True) -> bool:
        """Become the one writer; False when another process is and `wait` is false."""
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._lock = descriptor
        if not self._owns():
            self.unlock()
            return self.lock(wait)
        return True

    def unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _owns(self) -> bool:
        if self._lock is None:
            return False
        try:
            return os.fstat(self._lock).st_ino == os.stat(self.folder / "lock").st_ino
        except FileNotFoundError:
            return False

    def check_owned(self) -> None:
        """Called before every write: an orphan whose entry was removed must not write again."""
        if not self._owns():
            raise Lost(f"{self.folder} no longer belongs to this process; it stops writing")

    def running(self) -> bool:
        """Whether some process holds the lock."""
        try:
            descriptor = os.open(self.folder / "lock", os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)

    def finish(self) -> None:
        """Declare the entry done, with the digests of its files, and drop its checkpoints."""
        self.check_owned()
        names = [name for name in (*RESULT_FILES, self.model.name) if (self.folder / name).exists()]
        digests = {name: sha256_file(self.folder / name) for name in names}
        atomic_write_json(self.folder / "complete.json", digests)
        shutil.rmtree(self.folder / "checkpoints", ignore_errors=True)
        self.failure.unlink(missing_ok=True)

    def finished(self) -> bool:
        """Whether a whole and undamaged result is there."""
        try:
            digests = read_json(self.folder / "complete.json")
            found = {name: sha256_file(self.folder / name) for name in digests}
        except (LinvitError, OSError, TypeError):
            return False
        return found == digests and found.keys() >= set(RESULT_FILES)

    def emit(self, folder: Path, names: tuple[str, ...]) -> None:
        """Copy result files to their declared places, the declared `metrics.json` last."""
        for name in names:
            data = (self.folder / name).read_bytes()
            target = Path(folder) / name
            if not target.exists() or target.read_bytes() != data:
                atomic_write_bytes(target, data)

    def forget(self) -> None:
        """Remove the stored result; refused while a process is training it."""
        if self.running():
            raise LinvitError(f"{self.folder} is being trained right now; stop that process first")
        shutil.rmtree(self.folder, ignore_errors=True)
        if self.folder.parent.exists():
            fsync_folder(self.folder.parent)

    def note(self, name: str, value: Any) -> None:
        self.check_owned()
        atomic_write_json(self.folder / name, value)


@contextlib.contextmanager
def disk_errors(where: Path):
    """Turn a full disk or a folder that cannot be written into one line with its cure."""
    try:
        yield
    except OSError as error:
        if disk_is_full(error):
            say(f"linvit: no space left for {where}; free some and run again")
            raise SystemExit(DISK_FULL) from None
        if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise LinvitError(
                f"{error.filename or where}: {error.strerror}; give yourself the right to write "
                "there, or run in a folder of your own"
            ) from None
        raise
