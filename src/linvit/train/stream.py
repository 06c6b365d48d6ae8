"""The data of a cell as tensors: the training subset of its seed, and the validation split."""

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from linvit.data.store import Dataset
from linvit.data.views import View
from linvit.errors import LinvitError
from linvit.files import canonical_json
from linvit.rng import permutation


class Stream:
    """Batches as pure functions of (seed, step): equal for all cells of a dataset and seed.

    spec: a cell's spec; its "dataset", "recipe", "model" and the seed are read.
    """

    def __init__(self, spec: dict, dataset: Dataset, device: torch.device):
        chosen, recipe = spec["dataset"], spec["recipe"]
        self.seed, self.batch_size = spec["cell"]["seed"], recipe["batch_size"]
        self.view = View(img_size=spec["model"]["img_size"], **recipe["view"])
        self.device = device
        self.order = lru_cache(maxsize=1)(permutation)
        ids = dataset.train_indices(chosen["train"], chosen.get("shots"), self.seed)
        self.images, self.labels = self._load(dataset, ids)
        self.ids = torch.from_numpy(ids)
        self.val_images, self.val_labels = self._load(dataset, dataset.split("val"))
        if len(ids) < self.batch_size:
            raise LinvitError(
                f"dataset {chosen['name']!r} has {len(ids)} training images, fewer than "
                f"recipe batch_size {self.batch_size}; lower it"
            )

    def _load(self, dataset: Dataset, ids: np.ndarray) -> tuple[Tensor, Tensor]:
        images = torch.from_numpy(np.ascontiguousarray(dataset.images[ids]))
        labels = torch.from_numpy(dataset.labels[ids])
        return images.to(self.device), labels.to(self.device)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.ids) // self.batch_size

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """Augmented images (B, C, S, S) and labels (B,) of a global step; the last short batch of
        an epoch is dropped."""
        epoch, position = divmod(step, self.steps_per_epoch)
        start = position * self.batch_size
        rows = self.order(self.seed, epoch, len(self.ids))[start : start + self.batch_size]
        at = rows.to(self.device)
        images = self.view.train(self.images[at], self.ids[rows], self.seed, epoch)
        return images, self.labels[at]


def same_stream(spec: dict) -> tuple:
    """Cells with equal keys see the same batches and may share a pack."""
    recipe, dataset = spec["recipe"], spec["dataset"]
    shape = (spec["model"]["img_size"], spec["device"], recipe["batch_size"], recipe["epochs"])
    view, tap = canonical_json(recipe["view"]), spec["distill"] and spec["distill"]["tap"]
    return (canonical_json(dataset), spec["cell"]["seed"], *shape, view, tap or "post")
