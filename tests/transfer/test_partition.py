"""Every parameter belongs to exactly one component, for every operator and size."""

import pytest
from hypothesis import given, settings
from students import make, operators, sizes

from linvit.catalog import COMPONENTS, OPERATORS
from linvit.errors import LinvitError
from linvit.transfer.partition import component, partition, shared_slices

LOOK = settings(max_examples=40, deadline=None, derandomize=True)
SOFTMAX_ATTENTION = {"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"}


@LOOK
@given(operators, sizes())
def test_the_components_are_a_partition(operator, size):
    model = make(operator, **size)
    groups = partition(model)
    assert set(groups) == set(model.state_dict())
    assert set(groups.values()) <= set(COMPONENTS)
    assert set(groups.values()) >= set(COMPONENTS) - {"extra"}


@LOOK
@given(operators, sizes())
def test_extra_is_what_softmax_lacks(operator, size):
    groups, softmax = partition(make(operator, **size)), partition(make("softmax", **size))
    extra = {name for name, group in groups.items() if group == "extra"}
    assert extra == set(groups) - set(softmax)
    assert {name: group for name, group in groups.items() if group != "extra"} == softmax
    attention = {n.split("attn.")[1] for n, group in groups.items() if group == "attn"}
    assert attention == SOFTMAX_ATTENTION


@pytest.mark.parametrize("operator", OPERATORS)
def test_an_enlarged_parameter_holds_a_whole_softmax_parameter(operator):
    softmax = dict(make("softmax").named_parameters())
    parameters = dict(make(operator).named_parameters())
    where = shared_slices(make(operator))
    for name, parameter in softmax.items():
        slot = parameters[name][where[name]] if name in where else parameters[name]
        assert slot.shape == parameter.shape, name


@pytest.mark.parametrize(
    "name",
    [
        *("decoder.weight", "head_dist.weight", "blocks.0.ls1.gamma", "blocks.x.mlp.fc1.weight"),
        *("blocks.0.mlp", "fc_norm.weight", "reg_token", "module.pos_embed", ""),
    ],
)
def test_a_name_of_no_component_is_refused(name):
    with pytest.raises(LinvitError, match="belongs to none of") as error:
        component(name)
    assert repr(name) in str(error.value)
