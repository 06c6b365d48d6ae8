import subprocess
import sys

import numpy as np
import pytest
import torch

from linvit.counter import key, words
from linvit.rng import generator, permutation


def test_keys_never_change():
    assert key(0, "view", 3) == 4702290488423466245
    assert words(2, 0, "view", 3).tolist() == [6491693822175170134, 16391968188878562548]


def test_keys_tell_parts_apart():
    keys = {key(1), key("1"), key(1, 1), key(11), key("1", 1), key(), key("", 1), key(-1)}
    assert len(keys) == 8
    assert all(0 <= k < 2**63 for k in keys)


@pytest.mark.parametrize("part", [True, 1.0, None, np.int64(1)])
def test_other_parts_are_refused(part):
    with pytest.raises(TypeError, match="a key is made of int and str"):
        key(part)


def test_word_i_does_not_depend_on_n():
    assert np.array_equal(words(1000, 7)[:13], words(13, 7))


def test_permutation_is_one_and_depends_on_seed_and_epoch():
    order = permutation(0, 1, 100)
    assert order.dtype == torch.int64
    assert torch.equal(order.sort().values, torch.arange(100))
    assert torch.equal(order, permutation(0, 1, 100))
    assert not torch.equal(order, permutation(0, 2, 100))
    assert not torch.equal(order, permutation(1, 1, 100))


def test_generator_is_keyed():
    draws = [torch.randn(3, generator=generator(0, "init", name)) for name in ("a", "a", "b")]
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("linvit.data.specs", ("numpy", "torch")),
        ("linvit.counter", ("torch",)),
        ("linvit.data.splits", ("torch",)),
        ("linvit.data.prepare", ("torch", "torchvision", "sklearn", "pandas")),
    ],
)
def test_light_modules_stay_light(module, absent):
    code = f"import sys, {module}; sys.exit(any(name in sys.modules for name in {absent!r}))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
