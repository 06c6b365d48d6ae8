"""Gradients, precision under autocast, and memory that stays linear in the tokens."""

import pytest
import torch
from small_modules import build, tokens
from torch.utils._python_dispatch import TorchDispatchMode

from linvit.operators import OPERATORS, bind

LINEAR = [name for name in OPERATORS if name != "softmax"]
VARIANTS = [
    *((name, {}) for name in LINEAR),
    ("inline", {"phi": "exp"}),
    ("mhla", {"inner_norm": True, "rms_norm": False}),
    ("mhla", {"normalizer": "released", "prefix_tokens": 0}),
    ("ttt", {"prefix_tokens": 0}),
]


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_gradcheck(name, options):
    module = build(name, dim=4, std=0.7, **options)
    if name == "mhla":
        module.window_mix.data.abs_()
    x = tokens(prefix_tokens=options.get("prefix_tokens", 1), dim=4).requires_grad_()
    names, parameters = zip(*module.named_parameters(), strict=True)

    def call(x, *values):
        state = dict(zip(names, values, strict=True))
        return torch.func.functional_call(module, state, (x,))

    assert torch.autograd.gradcheck(call, (x, *parameters), fast_mode=True)


@pytest.mark.parametrize("name", ["softmax", "elu", "relu", "inline", "mhla"])
def test_maps_pass_gradients(name):
    module = build(name, dim=4)
    x = tokens(dim=4).requires_grad_()
    assert torch.autograd.gradcheck(module.attention_map, (x,), fast_mode=True)


class Largest(TorchDispatchMode):
    """Remembers the elements of the largest tensor any operation gave."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for leaf in torch.utils._pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(self.elements, leaf.untyped_storage().nbytes() // 8)
        return out


GRID = (16, 16)


@pytest.mark.parametrize("name", LINEAR)
def test_memory_is_linear_in_tokens(name):
    module, x = build(name, GRID), tokens(GRID)
    batch, count, _ = x.shape
    with Largest() as largest:
        module(x.requires_grad_()).sum().backward()
    assert largest.elements < batch * count * count
    if hasattr(module, "attention_map"):
        with Largest() as largest:
            module.attention_map(x)
        assert largest.elements >= batch * count * count


@pytest.mark.parametrize("side", [14, 56])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", LINEAR)
def test_autocast_is_finite_and_close(name, dtype, side):
    operator = bind(name, grid=(side, side))
    module = operator(32, 2, qkv_bias=True)
    # Key sums of 8 * 197 and 8 * 3137 pass the range of half precision (65504) when squared or
    # multiplied by a query; inline's output grows with |q||k| and is kept in range.
    module.qkv.weight.data[:64].normal_(std=0.1 if name == "inline" else 3.0)
    x = torch.randn(2, side * side + 1, 32)
    exact = module(x)
    with torch.autocast("cpu", dtype=dtype):
        out = module(x)
    assert out.dtype == dtype
    assert out.isfinite().all()
    error = (out.float() - exact).norm() / exact.norm()
    assert error < (0.05 if dtype == torch.bfloat16 else 0.01)


def test_half_precision_sums_would_overflow():
    """The reason for the widening: the same features summed in half are infinite."""
    keys = torch.full((3137, 1), 30.0, dtype=torch.float16)
    assert (keys.relu().cumsum(0)[-1]).isinf()
    module = bind("relu")(8, 1, qkv_bias=True).half()
    module.qkv.weight.data.zero_()
    module.qkv.bias.data.fill_(30.0)
    out = module.mix(torch.zeros(1, 3137, 8, dtype=torch.float16))
    torch.testing.assert_close(out, torch.full_like(out, 30.0))


def test_gradients_do_not_need_contiguous_inputs():
    for name in LINEAR:
        module = build(name)
        x = tokens()
        sideways = x.transpose(0, 1).contiguous().transpose(0, 1).requires_grad_()
        upright = x.clone().requires_grad_()
        pull = torch.randn_like(x)
        (module.mix(sideways)[..., :12] * pull).sum().backward()
        (module.mix(upright)[..., :12] * pull).sum().backward()
        torch.testing.assert_close(sideways.grad, upright.grad)
