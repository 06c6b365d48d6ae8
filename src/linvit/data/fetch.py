"""Looking for raw files in several places, and saying where when none has them."""

import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from os import geteuid
from pathlib import Path
from typing import TypeVar

from linvit.errors import LinvitError

T = TypeVar("T")
CHUNK = 1 << 20
COMMAND_TIMEOUT_S = 600


class NotHere(Exception):
    """A place does not have the files; the message is the reason."""


@dataclass(frozen=True)
class Place:
    """`read(name)` returns what was found, or raises NotHere; LinvitError ends the search."""

    name: str
    read: Callable


def first_of(title: str, places: Sequence[Place], cure: str) -> tuple[str, object]:
    """(name of the place, what it gave). Raises LinvitError listing every place and its reason."""
    reasons = []
    for place in places:
        try:
            return place.name, place.read()
        except NotHere as reason:
            reasons.append(f"  {place.name}: {reason}")
    tried = "\n".join(reasons)
    raise LinvitError(f"{title} was not found. Places tried:\n{tried}\n{cure}")


def download(url: str, limit: int, tries: int = 2, timeout_s: float = 20, total_s: float = 300):
    """Bytes of a URL, held in memory so that no part of a file is ever on disk.

    limit: most bytes accepted. timeout_s: of one read; total_s: of one try. Raises NotHere.
    """
    for attempt in range(tries):
        try:
            return _download_once(url, limit, timeout_s, total_s)
        except (OSError, HTTPException) as error:
            reason = NotHere(f"{url}: {error}")
            if isinstance(error, urllib.error.HTTPError) and error.code < 500:
                break
            time.sleep(attempt)
    raise reason


def _download_once(url: str, limit: int, timeout_s: float, total_s: float) -> bytes:
    deadline = time.monotonic() + total_s
    data = bytearray()
    with urllib.request.urlopen(url, timeout=timeout_s) as response:
        while chunk := response.read(CHUNK):
            data += chunk
            if len(data) > limit:
                raise OSError(f"more than {limit} bytes")
            if time.monotonic() > deadline:
                raise OSError(f"not done after {total_s:g} s")
    return bytes(data)


def from_debian_package(package: str, folder: str, read: Callable[[Path], T]) -> T:
    """read(folder of the unpacked package), which needs apt but neither root nor installation."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise NotHere(f"no {program} here")
    with tempfile.TemporaryDirectory(prefix="linvit-") as temporary:
        _download_package(package, temporary)
        archives = list(Path(temporary).glob("*.deb"))
        if len(archives) != 1:
            raise NotHere("apt-get download left no package")
        _run(["dpkg-deb", "-x", archives[0].name, "unpacked"], temporary)
        return read(Path(temporary) / "unpacked" / folder)


def _download_package(package: str, folder: str) -> None:
    command = ["apt-get", "download", package]
    try:
        _run(command, folder)
    except NotHere as reason:
        if geteuid() != 0:
            hint = "as root, `apt-get update` may make the package known"
            raise NotHere(f"{reason} ({hint})") from None
        _run(["apt-get", "update"], folder)
        _run(command, folder)


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
