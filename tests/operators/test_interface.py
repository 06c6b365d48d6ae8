"""Names, shapes, options and refusals that transfer, distillation and timm rely on."""

import copy
import inspect

import pytest
import torch
from small_modules import DIM, HEADS, build, tokens
from timm.layers import Attention

from linvit import catalog
from linvit.errors import LinvitError
from linvit.operators import OPERATORS, bind
from linvit.operators.windows import initial_mixing

SHARED = {"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"}


def make(name, grid=(4, 4), **options):
    return bind(name, grid=grid, **options)(DIM, HEADS, qkv_bias=True)


def test_catalog_lists_the_same_operators():
    assert set(catalog.OPERATORS) == set(OPERATORS)
    for name, operator in OPERATORS.items():
        assert catalog.OPERATORS[name].needs_grid == operator.needs_grid
        if catalog.OPERATORS[name].has_map:
            assert hasattr(operator, "attention_map")


@pytest.mark.parametrize("name", OPERATORS)
def test_parameters_are_softmax_s_and_the_extra_ones(name):
    module, reference = make(name), dict(make("softmax").named_parameters())
    own = dict(module.named_parameters())
    assert set(own) == SHARED | set(module.extra_parameters)
    shared = module.shared_slices(DIM)
    for key in SHARED:
        assert own[key][shared.get(key, ...)].shape == reference[key].shape
        assert (key in shared) == (own[key].shape != reference[key].shape)


@pytest.mark.parametrize("name", OPERATORS)
def test_reset_extra_fills_every_extra_parameter(name):
    module, asked = make(name), []
    for key in module.extra_parameters:
        module.get_parameter(key).data.fill_(float("nan"))

    def draw(key, shape, std):
        asked.append(key)
        return torch.full(shape, std)

    module.reset_extra(draw)
    assert set(asked) <= set(module.extra_parameters)
    for key in module.extra_parameters:
        parameter = module.get_parameter(key)
        assert parameter.isfinite().all()
        if key in asked:
            assert torch.equal(parameter, torch.full_like(parameter, 0.02))


@pytest.mark.parametrize("name", OPERATORS)
def test_forward_is_proj_of_mix(name):
    module, x = build(name), tokens()
    torch.testing.assert_close(module(x), module.proj(module.mix(x)))
    torch.testing.assert_close(copy.deepcopy(module)(x), module(x))


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "softmax"])
def test_masks_and_foreign_arguments_are_refused(name):
    module, x = build(name), tokens()
    with pytest.raises(LinvitError, match="mask"):
        module(x, attn_mask=torch.ones(17, 17, dtype=torch.bool))
    with pytest.raises(LinvitError, match="mask"):
        module(x, is_causal=True)
    with pytest.raises(LinvitError, match="qk_norm"):
        type(module)(DIM, HEADS, qk_norm=True, norm_layer=torch.nn.LayerNorm)
    with pytest.raises(LinvitError, match="heads"):
        type(module)(DIM, 5)


def test_softmax_is_timm_s_and_honours_masks():
    module, reference = make("softmax"), Attention(DIM, HEADS, qkv_bias=True)
    reference.load_state_dict(module.state_dict())
    x, mask = tokens().float(), torch.rand(17, 17) > 0.3
    mask.fill_diagonal_(True)
    assert torch.equal(module(x), reference(x))
    assert torch.equal(module(x, attn_mask=mask), reference(x, attn_mask=mask))
    assert torch.equal(module(x, is_causal=True), reference(x, is_causal=True))


def test_timm_still_passes_what_we_accept():
    accepted = inspect.signature(Attention.forward).parameters
    assert list(accepted) == ["self", "x", "attn_mask", "is_causal"]


def test_equal_bindings_are_one_class():
    first, second = bind("mhla", grid=(4, 4), window=2), bind("mhla", window=2, grid=[4, 4])
    assert first is second
    assert issubclass(first, Attention)


REFUSED = [
    ({"name": "tanh"}, "tanh.*elu"),
    ({"name": "relu", "window": 2}, "window.*none"),
    ({"name": "mhla", "grid": (4, 4), "windows": 2}, "windows.*normalizer"),
    ({"name": "mhla", "grid": (4, 4), "mixing": "cubic"}, "cubic.*linear"),
    ({"name": "mhla", "grid": (4, 4), "window": 0}, "window is 0"),
    ({"name": "mhla", "grid": (4, 4), "window": True}, "window is True"),
    ({"name": "mhla", "grid": (4, 4), "inner_norm": 1}, "inner_norm is 1"),
    ({"name": "ttt", "grid": (4, 4), "inner_std": "big"}, "big.*fan_in"),
    ({"name": "ttt", "grid": (4, 4), "inner_std": -1.0}, "inner_std is -1"),
    ({"name": "ttt"}, "grid"),
    ({"name": "mhla"}, "grid"),
    ({"name": "mhla", "grid": (7, 7)}, "7 x 7.*window"),
    ({"name": "mhla", "grid": (4, 4), "window": 3}, "window 3 does not divide grid 4 x 4"),
    ({"name": "mhla", "grid": (4, 4), "normalizer": "released"}, "prefix_tokens 0"),
]


@pytest.mark.parametrize(("arguments", "message"), REFUSED)
def test_bad_bindings_are_refused(arguments, message):
    with pytest.raises(LinvitError, match=f"(?s){message}"):
        bind(**arguments)


@pytest.mark.parametrize("name", ["mhla", "ttt", "ttt_inherit", "inline_local"])
def test_another_image_size_is_refused(name):
    with pytest.raises(LinvitError, match="4 x 4"):
        build(name)(tokens((5, 5)))


@pytest.mark.parametrize(
    ("grid", "side"), [((14, 14), 7), ((16, 16), 4), ((8, 8), 2), ((4, 4), 2), ((64, 64), 16)]
)
def test_window_rule(grid, side):
    operator = bind("mhla", grid=grid)
    assert (operator.window, operator.windows) == (side, (grid[0] // side, grid[1] // side))


def test_windows_by_asking():
    assert bind("mhla", grid=(7, 7), window=7).windows == (1, 1)
    assert bind("mhla", grid=(7, 7), window=1).windows == (7, 7)
    assert bind("mhla", grid=(4, 6)).windows == (2, 3)


def test_class_row_and_column_of_the_initial_mixing():
    # Two windows, one unit apart; the class token is half a unit from both.
    mixing = initial_mixing((1, 2), prefix=True)
    raw = torch.tensor([[1.0, 0.5, 0.5], [0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]).double()
    torch.testing.assert_close(mixing, raw / raw.sum(0))
    for shape in ("linear", "cos", "exp", "local"):
        columns = initial_mixing((4, 4), True, shape).sum(0)
        torch.testing.assert_close(columns, torch.ones_like(columns))
    assert initial_mixing((4, 4), True, "gaussian").diagonal().eq(1).all()


@pytest.mark.parametrize("name", OPERATORS)
def test_grids_need_not_be_square(name):
    assert build(name, (4, 6), 2)(tokens((4, 6), 2)).shape == (2, 26, DIM)
