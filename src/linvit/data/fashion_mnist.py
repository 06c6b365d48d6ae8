"""Fashion-MNIST: four idx files, from the first place that has them."""

import gzip
import hashlib
import zlib
from pathlib import Path

import numpy as np

from linvit.data.decoded import Decoded, check_labels
from linvit.data.fetch import NotHere, Place, download, first_of, from_debian_package
from linvit.data.idx import MAGIC_IMAGES, MAGIC_LABELS, parse_idx
from linvit.data.specs import DatasetSpec
from linvit.errors import LinvitError

SYSTEM_FOLDER = Path("/usr/share/datasets/fashion-mnist")
PACKAGE = "dataset-fashion-mnist"
LARGEST_DOWNLOAD = 64 << 20
CURE = (
    "Download train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz "
    "and t10k-labels-idx1-ubyte.gz on a machine with a network and name their folder in the "
    "study (data: {fashion-mnist: /that/folder}), or run `apt-get install " + PACKAGE + "`."
)
Files = dict[str, bytes]


def read(spec: DatasetSpec, raw: Path | None) -> Decoded:
    """raw: folder the user named, tried first. Raises LinvitError when no place has the files."""
    place, files = first_of("Fashion-MNIST", _places(spec, raw), CURE)
    images, labels = [], []
    for part in ("train", "t10k"):
        name = f"{part}-images-idx3-ubyte"
        images.append(parse_idx(files[name], MAGIC_IMAGES, name))
        name = f"{part}-labels-idx1-ubyte"
        labels.append(parse_idx(files[name], MAGIC_LABELS, name))
        check_labels(labels[-1], len(spec.classes), name)
    return Decoded(np.concatenate(images), np.concatenate(labels).astype(np.int64), place)


def mirrors() -> list[str]:
    """Addresses that torchvision keeps. Raises NotHere."""
    try:
        from torchvision.datasets import FashionMNIST  # takes seconds, and only needed here
    except ImportError as error:
        raise NotHere(f"torchvision, which knows the mirrors, is missing ({error})") from None
    return FashionMNIST.mirrors


def _places(spec: DatasetSpec, raw: Path | None) -> list[Place]:
    places = []
    if raw is not None:
        places.append(Place("the folder named in the study", lambda: _from_user(spec, raw)))
    places.append(Place(f"{SYSTEM_FOLDER}", lambda: _from_user(spec, SYSTEM_FOLDER)))
    places.append(Place("network mirror", lambda: _from_mirrors(spec)))
    places.append(Place(f"Debian package {PACKAGE}", lambda: _from_package(spec)))
    return places


def _from_user(spec: DatasetSpec, folder: Path) -> Files:
    """A damaged file ends the search: the user means this folder to be read."""
    try:
        return _from_folder(spec, folder)
    except LinvitError as error:
        cure = "replace the file, or remove it so that the next place is tried"
        raise LinvitError(f"{error}; {cure}") from None
    except OSError as error:
        raise NotHere(f"{error}") from None


def _from_mirrors(spec: DatasetSpec) -> Files:
    reasons = []
    for mirror in mirrors():
        try:
            return {name: _remote_file(mirror, name, d) for name, d in spec.raw_sha256.items()}
        except (NotHere, LinvitError) as reason:
            reasons.append(f"{reason}")
    raise NotHere("; ".join(reasons))


def _from_package(spec: DatasetSpec) -> Files:
    below = f"{SYSTEM_FOLDER}".lstrip("/")
    try:
        return from_debian_package(PACKAGE, below, lambda folder: _from_folder(spec, folder))
    except LinvitError as error:
        raise NotHere(f"{error}") from None


def _from_folder(spec: DatasetSpec, folder: Path) -> Files:
    """Plain or gzipped files, in the folder itself or as torchvision lays them out below it."""
    if not folder.is_dir():
        raise NotHere(f"{folder} is not a folder")
    return {name: _local_file(folder, name, digest) for name, digest in spec.raw_sha256.items()}


def _local_file(folder: Path, name: str, digest: str) -> bytes:
    for below in (folder, folder / "FashionMNIST" / "raw"):
        for path in (below / name, below / f"{name}.gz"):
            if path.is_file():
                return _verified(path.read_bytes(), digest, f"{path}")
    raise NotHere(f"{folder} has no {name} or {name}.gz")


def _remote_file(mirror: str, name: str, digest: str) -> bytes:
    url = f"{mirror}{name}.gz"
    return _verified(download(url, LARGEST_DOWNLOAD), digest, url)


def _verified(data: bytes, digest: str, where: str) -> bytes:
    """Decompressed bytes with the right SHA-256, else LinvitError."""
    if where.endswith(".gz"):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise LinvitError(f"{where} is damaged: not a whole gzip file ({error})") from None
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        raise LinvitError(
            f"{where} is damaged: SHA-256 of its content is {found}, expected {digest}"
        )
    return data
