"""timm models: names, options, and everything timm offers on a VisionTransformer."""

import pytest
import timm
import torch
from timm.data import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD

from linvit import models
from linvit.errors import LinvitError
from linvit.operators import OPERATORS

MICRO = {
    "img_size": 28,
    "in_chans": 1,
    "patch_size": 7,
    "embed_dim": 64,
    "depth": 2,
    "num_heads": 2,
    "num_classes": 10,
}


def small(name, **options):
    """A registered model cut to one block at 64 px."""
    options = {"img_size": 64, "depth": 1} | options
    return timm.create_model(f"linvit_tiny_patch16_224_{name}", **options)


@pytest.mark.parametrize("name", OPERATORS)
def test_create(name):
    model = models.create(name, **MICRO, drop_path=0.1)
    out = model(torch.randn(3, 1, 28, 28))
    assert out.shape == (3, 10)
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert model.blocks[0].norm1.eps == 1e-6
    assert model.blocks[1].drop_path1.drop_prob == pytest.approx(0.1)


def test_create_refuses_sizes_that_disagree():
    with pytest.raises(LinvitError, match=r"img_size 28.*patch_size 5"):
        models.create("relu", **MICRO | {"patch_size": 5})
    for name in ("softmax", "relu"):
        with pytest.raises(LinvitError, match=r"64.*5 heads"):
            models.create(name, **MICRO | {"num_heads": 5})


def test_create_passes_operator_options():
    model = models.create("mhla", **MICRO, operator_options={"window": 1})
    assert model.blocks[0].attn.window_mix.shape == (17, 17)


def test_every_size_and_operator_is_registered():
    names = {f"linvit_{s}_patch16_224_{o}" for s in ("tiny", "small", "base") for o in OPERATORS}
    assert names == set(timm.list_models("linvit_*"))


@pytest.mark.parametrize("size", ["tiny", "small", "base"])
def test_softmax_is_deit_bit_for_bit(size):
    torch.manual_seed(1)
    ours = timm.create_model(f"linvit_{size}_patch16_224_softmax", img_size=32, depth=2)
    torch.manual_seed(1)
    theirs = timm.create_model(f"deit_{size}_patch16_224", img_size=32, depth=2)
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(ours(x), theirs(x))


@pytest.mark.parametrize("name", OPERATORS)
def test_timm_features(name):
    model = small(name, num_classes=10, in_chans=1).eval()
    x = torch.randn(2, 1, 64, 64)
    assert model(x).shape == (2, 10)
    assert model.forward_features(x).shape == (2, 17, 192)
    model.reset_classifier(3)
    plain = model(x)
    assert plain.shape == (2, 3)
    model.train().set_grad_checkpointing(True)
    again = model(x)
    torch.testing.assert_close(again, plain)
    again.sum().backward()


def test_data_configuration():
    config = timm.data.resolve_model_data_config(small("relu", img_size=224))
    assert config["crop_pct"] == 0.875
    assert config["input_size"] == (3, 224, 224)
    assert (config["mean"], config["std"]) == (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD)


def test_state_dict_has_timm_s_names():
    deit = set(timm.create_model("deit_tiny_patch16_224", depth=1).state_dict())
    for name in OPERATORS:
        model = small(name)
        extra = {f"blocks.0.attn.{key}" for key in model.blocks[0].attn.extra_parameters}
        assert set(model.state_dict()) == deit | extra


@pytest.mark.parametrize("name", ["mhla", "ttt", "relu"])
def test_models_without_class_token(name):
    model = small(name, class_token=False, global_pool="avg", num_classes=4)
    assert model(torch.randn(2, 3, 64, 64)).shape == (2, 4)


def test_registered_models_refuse_pretrained_and_foreign_options():
    with pytest.raises(LinvitError, match="no weights"):
        small("relu", pretrained=True)
    with pytest.raises(LinvitError, match="window"):
        small("relu", operator_options={"window": 2})


def test_random_extra_parameters_follow_the_seed():
    states = []
    for _ in range(2):
        torch.manual_seed(3)
        states.append(small("ttt").state_dict())
    assert all(map(torch.equal, states[0].values(), states[1].values()))
    assert states[0]["blocks.0.attn.w1"].std() == pytest.approx(0.02, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPERATORS)
def test_compiled_and_exported_models_agree(name):
    model = models.create(name, **MICRO | {"depth": 1})
    x = torch.randn(3, 1, 28, 28)
    expected = model(x)
    gradient = torch.autograd.grad(expected.square().sum(), model.pos_embed)[0]
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")(x)
    torch.testing.assert_close(compiled, expected, rtol=1e-4, atol=1e-5)
    ours = torch.autograd.grad(compiled.square().sum(), model.pos_embed)[0]
    torch.testing.assert_close(ours, gradient, rtol=1e-3, atol=1e-4)
    exported = torch.export.export(model.eval(), (x,)).module()
    torch.testing.assert_close(exported(x), expected)
