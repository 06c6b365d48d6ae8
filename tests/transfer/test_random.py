"""The random student: a function of (seed, name), shared by all operators and inits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from students import make, operators, sizes, state, student

from linvit.catalog import OPERATORS
from linvit.transfer import initialise
from linvit.transfer.partition import partition, shared_slices
from linvit.transfer.random import draw_parameters


def drawn(operator, seed, **size):
    model = make(operator, **size)
    draw_parameters(model, seed)
    return model


@settings(max_examples=25, deadline=None, derandomize=True)
@given(operators, sizes(), st.integers(0, 2**32 - 1))
def test_students_of_one_seed_share_what_they_have_in_common(operator, size, seed):
    model, softmax = drawn(operator, seed, **size), state(drawn("softmax", seed, **size))
    where, mine = shared_slices(model), state(model)
    for name, value in softmax.items():
        slot = mine[name][where[name]] if name in where else mine[name]
        assert torch.equal(slot, value), name


@pytest.mark.parametrize("operator", OPERATORS)
def test_nothing_depends_on_the_global_generator_or_on_what_was_there(operator):
    torch.manual_seed(0)
    first = drawn(operator, 5)
    torch.manual_seed(1)
    second = make(operator)
    for parameter in second.parameters():
        torch.nn.init.constant_(parameter, torch.nan)
    draw_parameters(second, 5)
    mine, theirs = state(first), state(second)
    assert all(torch.equal(value, theirs[name]) for name, value in mine.items())


@pytest.mark.parametrize("operator", OPERATORS)
def test_drawing_leaves_the_global_generator_alone(operator):
    model = make(operator)
    torch.manual_seed(7)
    draw_parameters(model, 0)
    after = torch.rand(1)
    torch.manual_seed(7)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("operator", OPERATORS)
def test_seeds_and_tensors_differ(operator):
    one, two = state(drawn(operator, 0)), state(drawn(operator, 1))
    matrices = [name for name, value in one.items() if value.ndim > 1 and "window_mix" not in name]
    assert all(not torch.equal(one[name], two[name]) for name in matrices)
    same_shape = one["blocks.0.attn.qkv.weight"], one["blocks.1.attn.qkv.weight"]
    assert not torch.equal(*same_shape)


def test_the_rest_of_an_enlarged_parameter_does_not_repeat_its_softmax_slice():
    weight = state(drawn("ttt", 0))["blocks.0.attn.qkv.weight"]
    assert not torch.equal(weight[: len(weight) - 48], weight[48:])
    assert weight[48:].std() == pytest.approx(0.02, rel=0.15)


def test_distributions_are_timms():
    values = state(drawn("softmax", 0, embed_dim=96, num_heads=3))
    for name in ("blocks.0.attn.qkv.weight", "blocks.1.mlp.fc2.weight", "head.weight"):
        assert values[name].std() == pytest.approx(0.02, rel=0.05), name
    assert values["pos_embed"].std() == pytest.approx(0.02, rel=0.1)
    assert 0 < values["cls_token"].abs().max() < 1e-5
    bound = 1 / math.sqrt(4)
    stem = values["patch_embed.proj.weight"]
    assert bound * 0.9 < stem.abs().max() <= bound
    assert values["patch_embed.proj.bias"].abs().max() <= bound
    for name, value in values.items():
        if name.endswith("bias") and "patch_embed" not in name:
            assert not value.any(), name
    norms = [v for n, v in values.items() if "norm" in n and n.endswith("weight")]
    assert all((norm == 1).all() for norm in norms)


@pytest.mark.parametrize("operator", OPERATORS)
def test_extra_parameters_are_random_in_every_arm(operator):
    model, _ = student(operator)
    copied, _ = student(operator, "fullcopy")
    for name, group in partition(model).items():
        if group == "extra":
            assert torch.equal(model.get_parameter(name), copied.get_parameter(name)), name


def test_random_needs_no_source():
    ledger = initialise(make("relu"), "random", 0)
    assert ledger.skipped == {}
    assert {line.status for line in ledger.lines} == {"fresh"}
