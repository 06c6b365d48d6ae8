"""Sources that are files of the user."""

import pytest
import safetensors.torch
import torch

from linvit import models
from linvit.errors import LinvitError
from linvit.train.source import adopt, load_source

SHAPE = {"img_size": 8, "in_chans": 1, "patch_size": 2, "embed_dim": 16, "depth": 2, "num_heads": 2}


@pytest.fixture
def weights(tmp_path):
    file = tmp_path / "mine.safetensors"
    model = models.create("softmax", **SHAPE, num_classes=3)
    safetensors.torch.save_file(model.state_dict(), file)
    return file


def test_weights_are_taken_over_with_their_shape_and_digest(weights, tmp_path):
    out = tmp_path / "sources" / "own.safetensors"
    adopt(weights, SHAPE, out)
    source = load_source(out)
    assert source.model == SHAPE
    assert out.read_bytes() == weights.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda state: state | {"decoder.weight": torch.zeros(1)}, "decoder.weight"),
        (lambda state: {k: v for k, v in state.items() if k != "pos_embed"}, "pos_embed"),
        (lambda state: state | {"cls_token": torch.zeros(1, 1, 8)}, "cls_token"),
    ],
)
def test_weights_that_do_not_fit_are_refused_by_name(weights, tmp_path, spoil, named):
    state = spoil(safetensors.torch.load_file(weights))
    safetensors.torch.save_file(state, weights)
    with pytest.raises(LinvitError, match=named):
        adopt(weights, SHAPE, tmp_path / "own.safetensors")
    assert not (tmp_path / "own.safetensors").exists()


@pytest.mark.parametrize("content", [None, b"no tensors at all"])
def test_a_file_that_is_no_safetensors_is_refused(tmp_path, content):
    file = tmp_path / "mine.safetensors"
    if content:
        file.write_bytes(content)
    with pytest.raises(LinvitError, match=r"mine\.safetensors"):
        adopt(file, SHAPE, tmp_path / "own.safetensors")
