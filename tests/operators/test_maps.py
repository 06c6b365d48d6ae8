"""What the implicit maps promise: rows, permutations, constants."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_modules import DIM, build, merged, tokens, values

MAPPED = ["softmax", "elu", "relu", "inline", "mhla"]
SETTINGS = settings(max_examples=6, deadline=None)


def without_lepe(module):
    if hasattr(module, "lepe"):
        torch.nn.init.zeros_(module.lepe.weight)
        torch.nn.init.zeros_(module.lepe.bias)
    return module


def positive_mixing(module):
    """Only a mixing that is not negative keeps MHLA's normaliser away from zero."""
    if hasattr(module, "window_mix"):
        module.window_mix.data.abs_().add_(0.1)
        module.qk_scale.data.abs_()
    return without_lepe(module)


@pytest.mark.parametrize("name", MAPPED)
@SETTINGS
@given(side=st.sampled_from([2, 4, 6]), prefix=st.integers(0, 2), seed=st.integers(0, 99))
def test_output_is_map_times_values(name, side, prefix, seed):
    torch.manual_seed(seed)
    options = {"window": max(1, side // 2)} if name == "mhla" else {}
    module = positive_mixing(build(name, (side, side), prefix, **options))
    # Few dead queries: their rows are the 1e-6 of the denominators and little else.
    module.qkv.bias.data[: 2 * DIM] += 3
    x = tokens((side, side), prefix)
    rows = module.attention_map(x)
    torch.testing.assert_close(module.mix(x), merged(rows @ values(module, x)))
    alive = rows.abs().sum(-1) > 0
    sums = rows.sum(-1)[alive]
    torch.testing.assert_close(sums, torch.ones_like(sums), rtol=0, atol=1e-4)


@pytest.mark.parametrize("phi", ["relu", "leaky_relu", "exp"])
def test_inline_map_with_other_features(phi):
    module, x = build("inline", phi=phi), tokens()
    rows = module.attention_map(x)
    torch.testing.assert_close(module.mix(x), merged(rows @ values(module, x)))
    torch.testing.assert_close(rows.sum(-1), torch.ones_like(rows[..., 0]))


def test_inline_map_has_negative_entries():
    assert build("inline").attention_map(tokens()).min() < 0


@pytest.mark.parametrize("name", ["softmax", "elu", "relu", "inline"])
def test_permuting_tokens_permutes_outputs(name):
    module, x = build(name), tokens()
    order = torch.randperm(x.shape[1])
    torch.testing.assert_close(module(x[:, order]), module(x)[:, order])


@pytest.mark.parametrize("name", MAPPED)
def test_constant_values_stay(name):
    module, x = positive_mixing(build(name)), tokens().abs()
    width = x.shape[-1]
    module.qkv.weight.data[: 2 * width].abs_()
    module.qkv.weight.data[2 * width :] = 0
    constant = module.qkv.bias[2 * width :].expand_as(x)
    torch.testing.assert_close(module.mix(x), constant, rtol=1e-4, atol=1e-6)


def test_dead_relu_query_gives_exactly_zero():
    module, x = build("relu"), tokens()
    module.qkv.weight.data[: x.shape[-1]] = 0
    module.qkv.bias.data[: x.shape[-1]] = -1
    out = module.mix(x.requires_grad_())
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert x.grad.isfinite().all()
