"""Files that are either whole or absent: atomic writes, digests, canonical JSON."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

from linvit.errors import LinvitError


def canonical_json(value: Any) -> str:
    """Serialise with sorted keys and no spaces; NaN and Inf are refused (ValueError)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def sha256_json(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def sha256_file(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def atomic_write_bytes(path: Path, data: bytes) -> None:
    """Write through a temporary name of this process, so a reader never meets half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(file.fileno(), 0o644)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def atomic_write_text(path: Path, text: str) -> None:
    atomic_write_bytes(path, text.encode())


def pretty_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def atomic_write_json(path: Path, value: Any) -> None:
    atomic_write_text(path, pretty_json(value))


def write_if_changed(path: Path, text: str) -> bool:
    """Leave the file, and so its modification time, alone when its bytes are already right."""
    path = Path(path)
    if path.exists() and path.read_text() == text:
        return False
    atomic_write_text(path, text)
    return True


def read_json(path: Path) -> Any:
    """Raises LinvitError when the file is missing or is not JSON."""
    try:
        return json.loads(Path(path).read_text())
    except FileNotFoundError:
        raise LinvitError(f"{path} is missing; run the rule that makes it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise LinvitError(f"{path} is damaged ({error}); delete it and run again") from None
