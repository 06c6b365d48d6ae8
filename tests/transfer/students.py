"""Students and sources of any operator, without data or a study."""

import torch
from hypothesis import strategies as st

from linvit import models
from linvit.catalog import OPERATORS
from linvit.transfer import initialise
from tiny_study import NANO, draw_source


def make(operator: str, **size: int):
    return models.create(operator, **(NANO | {"num_classes": 10} | size))


def student(operator: str, init: str = "random", seed: int = 3, source=None, **size: int):
    """(model, ledger); inits that copy take `draw_source()` unless another source is given."""
    model = make(operator, **size)
    return model, initialise(model, init, seed, source or draw_source())


def state(model) -> dict[str, torch.Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@st.composite
def sizes(draw) -> dict[str, int]:
    """Any small ViT on whose patch grid every operator works."""
    heads = draw(st.integers(1, 3))
    return {
        "img_size": 2 * draw(st.sampled_from([4, 6])),
        "in_chans": draw(st.sampled_from([1, 3])),
        "embed_dim": 4 * heads * draw(st.integers(1, 3)),
        "depth": draw(st.integers(1, 3)),
        "num_heads": heads,
        "num_classes": draw(st.integers(1, 12)),
    }


operators = st.sampled_from(list(OPERATORS))
