"""Views: batches of stored pixels -> what a model sees, augmented by counter, not by state."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F

from linvit.counter import words
from linvit.errors import LinvitError

SMALLEST_TABLE = 1024
FIELD_BITS = 21


@lru_cache(maxsize=16)
def _epoch_words(seed: int, epoch: int, size: int) -> np.ndarray:
    """One uint64 word per sample id, (size,); a larger table begins with the smaller one."""
    return words(size, seed, "view", epoch)


def draw_parameters(
    sample_ids: torch.Tensor, seed: int, epoch: int, shift: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(dx, dy, flip): int64 (B,) in -shift..shift twice, and bool (B,), on the CPU.

    Pure functions of (seed, epoch, sample id): neither batch nor order of calls matters.
    """
    ids = sample_ids.cpu().numpy()
    size = max(SMALLEST_TABLE, 1 << int(ids.max()).bit_length())
    drawn = _epoch_words(seed, epoch, size)[ids]
    dx = _steps(drawn, shift)
    dy = _steps(drawn >> FIELD_BITS, shift)
    return dx, dy, torch.from_numpy((drawn >> 63).astype(bool))


def _steps(drawn: np.ndarray, shift: int) -> torch.Tensor:
    """The low bits of each word -> int64 in -shift..shift."""
    low = (drawn & ((1 << FIELD_BITS) - 1)).astype(np.int64)
    return torch.from_numpy(low % (2 * shift + 1) - shift)


@lru_cache(maxsize=16)
def _affine(
    mean: tuple[float, ...], std: tuple[float, ...], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """float32 (C, 1, 1) twice, with (pixel / 255 - mean) / std = pixel * scale + offset."""
    exact = [torch.tensor(v, dtype=torch.float64)[:, None, None] for v in (mean, std)]
    scale, offset = 1 / (255 * exact[1]), -exact[0] / exact[1]
    return scale.float().to(device), offset.float().to(device)


@dataclass(frozen=True)
class View:
    """How pixels reach a model of img_size x img_size.

    mean, std: per channel of the model, of pixels in 0..1. shift: largest translation in pixels of
    the resized image; what moves in is black. hflip: mirror half of the images.
    Images with one channel serve models with more: every channel gets the same pixels.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    img_size: int
    shift: int = 0
    hflip: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(self.mean))
        object.__setattr__(self, "std", tuple(self.std))
        if len(self.mean) != len(self.std):
            raise LinvitError(f"view: mean has {len(self.mean)} channels, std {len(self.std)}")

    def eval(self, images: torch.Tensor) -> torch.Tensor:
        """uint8 (B, H, W) or (B, H, W, C) -> float32 (B, channels, img_size, img_size)."""
        return self._normalise(self._resize(self._channels_first(images)))

    def train(
        self, images: torch.Tensor, sample_ids: torch.Tensor, seed: int, epoch: int
    ) -> torch.Tensor:
        """As eval, mirrored then translated; sample_ids int64 (B,): positions in the data set."""
        pixels = self._resize(self._channels_first(images))
        dx, dy, flip = draw_parameters(sample_ids, seed, epoch, self.shift)
        if self.hflip:
            chosen = flip.to(pixels.device)[:, None, None, None]
            pixels = torch.where(chosen, pixels.flip(-1), pixels)
        if self.shift:
            pixels = self._translate(pixels, dx, dy)
        return self._normalise(pixels)

    def _translate(self, pixels: torch.Tensor, dx: torch.Tensor, dy: torch.Tensor) -> torch.Tensor:
        """Move image b right by dx[b] and down by dy[b]: choose its window in the padded image."""
        margin, size = self.shift, self.img_size
        windows = F.pad(pixels, (margin,) * 4).unfold(2, size, 1).unfold(3, size, 1)
        rows, columns = (margin - dy).to(pixels.device), (margin - dx).to(pixels.device)
        batch = torch.arange(len(pixels), device=pixels.device)
        return windows[batch, :, rows, columns]

    def _channels_first(self, images: torch.Tensor) -> torch.Tensor:
        pixels = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
        if pixels.shape[1] not in (1, len(self.mean)):
            raise LinvitError(
                f"view: images have {pixels.shape[1]} channels, mean and std {len(self.mean)}"
            )
        return pixels

    def _resize(self, pixels: torch.Tensor) -> torch.Tensor:
        size = (self.img_size, self.img_size)
        if pixels.shape[2:] == size:
            return pixels
        return F.interpolate(pixels.float(), size, mode="bilinear", antialias=True)

    def _normalise(self, pixels: torch.Tensor) -> torch.Tensor:
        scale, offset = _affine(self.mean, self.std, pixels.device)
        return pixels * scale + offset
