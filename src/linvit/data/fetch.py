"""Looking for raw files in several places, and saying where when none has them."""

import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from linvit.errors import LinvitError

T = TypeVar("T")
CHUNK = 1 << 20
TRIES = 2
READ_TIMEOUT_S = 20
DOWNLOAD_TIMEOUT_S = 300
COMMAND_TIMEOUT_S = 600


class NotHere(Exception):
    """A place does not have the files; the message is the reason."""


@dataclass(frozen=True)
class Place:
    """`read()` returns what was found, or raises NotHere; LinvitError ends the search."""

    name: str
    read: Callable[[], Any]


def first_of(title: str, places: Sequence[Place], cure: str) -> tuple[str, Any]:
    """(name of the place, what it gave). Raises LinvitError listing every place and its reason."""
    reasons = []
    for place in places:
        try:
            return place.name, place.read()
        except NotHere as reason:
            reasons.append(f"  {place.name}: {reason}")
    tried = "\n".join(reasons)
    raise LinvitError(f"{title} was not found. Places tried:\n{tried}\n{cure}")


def download(url: str, limit: int) -> bytes:
    """Bytes of a URL, held in memory so that no part of a file is ever on disk.

    limit: most bytes accepted. Raises NotHere.
    """
    for attempt in range(TRIES):
        time.sleep(attempt)
        try:
            return _download_once(url, limit)
        except (OSError, HTTPException) as error:
            reason = NotHere(f"{url}: {error}")
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break  # the server answered: asking again does not help
    raise reason


def _download_once(url: str, limit: int) -> bytes:
    deadline = time.monotonic() + DOWNLOAD_TIMEOUT_S
    data = bytearray()
    with urllib.request.urlopen(url, timeout=READ_TIMEOUT_S) as response:
        while chunk := response.read(CHUNK):
            data += chunk
            if len(data) > limit:
                raise OSError(f"more than {limit} bytes")
            if time.monotonic() > deadline:
                raise OSError(f"not done after {DOWNLOAD_TIMEOUT_S} s")
    return bytes(data)


def from_debian_package(package: str, folder: str, read: Callable[[Path], T]) -> T:
    """read(folder of the unpacked package), which needs apt but neither root nor installation."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NotHere(f"no {program} here")
    try:
        with tempfile.TemporaryDirectory(prefix="linvit-") as temporary:
            archive = _download_package(package, temporary)
            _run(["dpkg-deb", "-x", archive, "unpacked"], temporary)
            return read(Path(temporary) / "unpacked" / folder)
    except OSError as error:
        raise NotHere(f"{error}") from None


def _download_package(package: str, folder: str) -> str:
    """Name of the archive, now in `folder`."""
    command = ["apt-get", "download", package]
    try:
        _run(command, folder)
    except NotHere as reason:
        if os.geteuid() != 0:
            hint = "if the package is unknown, have an administrator run `apt-get update`"
            raise NotHere(f"{reason}; {hint}") from None
        _run(["apt-get", "update"], folder)
        _run(command, folder)
    archives = [path.name for path in Path(folder).glob("*.deb")]
    if len(archives) != 1:
        raise NotHere(f"{' '.join(command)} left {len(archives)} archives, not one")
    return archives[0]


def _run(command: list[str], folder: str) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S
        )
    except subprocess.CalledProcessError as error:
        lines = error.stderr.decode(errors="replace").strip().splitlines() or [f"{error}"]
        raise NotHere(f"{' '.join(command)}: {lines[-1]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotHere(f"{error}") from None
