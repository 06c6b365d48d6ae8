import numpy as np
import pytest
import torch

from linvit.counter import words
from linvit.data.views import View, draw_parameters
from linvit.errors import LinvitError

SIZE, SHIFT = 12, 2
VIEW = View(mean=[0.3], std=[0.4], img_size=SIZE, shift=SHIFT, hflip=True)
COLOUR = View([0.5, 0.4, 0.3], [0.2, 0.3, 0.4], SIZE, SHIFT, hflip=True)


def draw_images(n, *shape):
    return torch.randint(0, 256, (n, *shape), generator=torch.manual_seed(0), dtype=torch.uint8)


def plain_train_view(view, image, sample_id, seed, epoch):
    """The definition, one pixel at a time; image: rows of lists of channels."""
    word = int(words(sample_id + 1, seed, "view", epoch)[-1])
    span = 2 * view.shift + 1
    dx = word % 2**21 % span - view.shift
    dy = (word >> 21) % 2**21 % span - view.shift
    flip = view.hflip and word >> 63
    result = np.empty((len(view.mean), SIZE, SIZE))
    for channel, (mean, std) in enumerate(zip(view.mean, view.std, strict=True)):
        for y in range(SIZE):
            for x in range(SIZE):
                row, column = y - dy, x - dx
                inside = 0 <= row < SIZE and 0 <= column < SIZE
                column = SIZE - 1 - column if flip else column
                value = image[row][column][channel % len(image[0][0])] if inside else 0
                result[channel, y, x] = (value / 255 - mean) / std
    return result


@pytest.mark.parametrize(
    ("view", "shape"),
    [(VIEW, (SIZE, SIZE)), (COLOUR, (SIZE, SIZE, 3)), (COLOUR, (SIZE, SIZE, 1))],
)
def test_batched_view_is_the_plain_definition(view, shape):
    images = draw_images(16, *shape)
    ids = torch.arange(16) * 371
    batch = view.train(images, ids, seed=5, epoch=2)
    assert batch.dtype == torch.float32
    for image, sample_id, got in zip(images, ids.tolist(), batch, strict=True):
        pixels = image.reshape(SIZE, SIZE, -1).tolist()
        expected = plain_train_view(view, pixels, sample_id, 5, 2)
        np.testing.assert_allclose(got.numpy(), expected, atol=2e-6)


@pytest.mark.parametrize("size", [SIZE, 8, 20])
def test_a_view_depends_on_seed_epoch_and_id_alone(size):
    images = draw_images(40, size, size)
    ids = torch.randperm(5000, generator=torch.manual_seed(1))[:40]
    whole = VIEW.train(images, ids, seed=1, epoch=3)
    VIEW.train(images, ids + 60_000, seed=1, epoch=3)  # a larger table changes nothing
    order = torch.randperm(40, generator=torch.manual_seed(2))
    assert torch.equal(VIEW.train(images[order], ids[order], 1, 3), whole[order])
    assert torch.equal(VIEW.train(images[7:8], ids[7:8], 1, 3), whole[7:8])
    assert not torch.equal(VIEW.train(images, ids, 1, 4), whole)
    assert not torch.equal(VIEW.train(images, ids, 2, 3), whole)


def test_without_augmentation_train_is_eval():
    plain = View([0.3], [0.4], SIZE)
    images = draw_images(6, 8, 8)
    assert torch.equal(plain.train(images, torch.arange(6), 0, 0), plain.eval(images))


def test_eval_normalises():
    images = draw_images(4, SIZE, SIZE)
    expected = (images[:, None] / 255 - 0.3) / 0.4
    torch.testing.assert_close(VIEW.eval(images), expected, atol=2e-6, rtol=0)


def test_resizing_keeps_constant_images_constant():
    images = torch.full((2, 8, 8), 51, dtype=torch.uint8)
    got = View([0.0], [1.0], 28).eval(images)
    assert got.shape == (2, 1, 28, 28)
    torch.testing.assert_close(got, torch.full_like(got, 0.2))


def test_translations_are_uniform_and_flips_fair():
    n = 20_000
    dx, dy, flip = draw_parameters(torch.arange(n), seed=0, epoch=0, shift=SHIFT)
    cells = torch.bincount((dx + SHIFT) * 5 + dy + SHIFT, minlength=25).double()
    chi_squared = float(((cells - n / 25) ** 2 / (n / 25)).sum())
    assert chi_squared < 60  # 24 degrees of freedom
    assert abs(flip.double().mean() - 0.5) < 0.02


def test_channels_that_do_not_fit_are_refused():
    with pytest.raises(LinvitError, match="mean has 1 channels, std 2"):
        View([0.5], [0.5, 0.5], SIZE)
    with pytest.raises(LinvitError, match="images have 3 channels, mean and std 1"):
        VIEW.eval(draw_images(2, SIZE, SIZE, 3))
