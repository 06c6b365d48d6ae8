"""Raw files -> results/data/<name>/{images.npy, labels.npy, manifest.json}."""

import contextlib
import errno
import hashlib
import io
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from linvit.data import digits, fashion_mnist, mnist5k
from linvit.data.decoded import Decoded, check_arrays
from linvit.data.specs import DatasetSpec, dataset_spec
from linvit.data.store import DATA_FOLDER, SCHEMA, dataset_digest
from linvit.errors import LinvitError
from linvit.files import atomic_write_bytes, atomic_write_json

READERS: dict[str, Callable[[DatasetSpec, Path | None], Decoded]] = {
    "fashion-mnist": fashion_mnist.read,
    "mnist-5k": mnist5k.read,
    "digits": digits.read,
}
LEFTOVER_AGE_S = 3600
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
NO_PERMISSION = {errno.EACCES, errno.EPERM, errno.EROFS}


def prepare(name: str, folder: Path = DATA_FOLDER, raw: Path | None = None) -> dict[str, Any]:
    """Fetch, decode and check a data set; store it below `folder`; return its manifest.

    raw: folder in which the user already has the raw files. Raises LinvitError.
    """
    spec = dataset_spec(name)
    decoded = READERS[name](spec, raw)
    check_arrays(spec, decoded.images, decoded.labels, decoded.place)
    digest = dataset_digest(spec, decoded.images, decoded.labels)
    if digest != spec.digest:
        raise LinvitError(
            f"{name} from {decoded.place} has the digest {digest}, expected {spec.digest}; "
            f"it is not the data set this version of linvit was made for ({spec.origin})"
        )
    return _store(spec, decoded, Path(folder) / name)


def _store(spec: DatasetSpec, decoded: Decoded, home: Path) -> dict[str, Any]:
    """The manifest goes first and comes last: where it is, both arrays are whole and match."""
    arrays = {"images.npy": _npy(decoded.images), "labels.npy": _npy(decoded.labels)}
    manifest = _manifest(spec, decoded, arrays)
    try:
        _sweep(home)
        (home / "manifest.json").unlink(missing_ok=True)
        for file, data in arrays.items():
            atomic_write_bytes(home / file, data)
        atomic_write_json(home / "manifest.json", manifest)
    except OSError as error:
        _remove_unvouched(home, arrays)
        raise _storage_error(error, home, sum(map(len, arrays.values()))) from error
    return manifest


def _sweep(home: Path) -> None:
    """Remove what killed runs left half-written; a younger file may belong to a live one."""
    for path in home.glob(".*.npy.*"):
        if time.time() - path.stat().st_mtime > LEFTOVER_AGE_S:
            path.unlink(missing_ok=True)


def _remove_unvouched(home: Path, files: Iterable[str]) -> None:
    """Arrays without a manifest are of no use, least of all on a full disk."""
    with contextlib.suppress(OSError):
        if not (home / "manifest.json").exists():
            for file in files:
                (home / file).unlink(missing_ok=True)


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _manifest(spec: DatasetSpec, decoded: Decoded, arrays: dict[str, bytes]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "name": spec.name,
        "classes": list(spec.classes),
        "digest": spec.digest,
        "files": {file: hashlib.sha256(data).hexdigest() for file, data in arrays.items()},
        "splits": dict(spec.splits),
        "provenance": {"place": decoded.place, "origin": spec.origin, "licence": spec.licence},
    }


def _storage_error(error: OSError, home: Path, size: int) -> LinvitError:
    if error.errno in NO_SPACE:
        need = f"{size / 1e6:.0f} MB"
        return LinvitError(f"{home}: the disk is full; free at least {need} there and run again")
    if error.errno in NO_PERMISSION:
        return LinvitError(
            f"{home} cannot be written ({error.strerror}); make it writable, or "
            "run in a folder of your own"
        )
    return LinvitError(f"{home} cannot be written: {error}")
