"""Initialise a student: draw it from its seed, then overwrite what the arm takes over.

`initialise` is the entry; `partition` says which parameter belongs to which component, `random`
draws, `copying` copies, `ledger` records what happened to every key.
"""

from timm.models import VisionTransformer
from torch import Tensor

from linvit.catalog import INITS
from linvit.errors import LinvitError
from linvit.transfer.copying import copy_components
from linvit.transfer.ledger import Ledger
from linvit.transfer.random import draw_parameters


def initialise(
    model: VisionTransformer, init: str, seed: int, source: dict[str, Tensor] | None = None
) -> Ledger:
    """Set every parameter of `model` in place and account for it.

    Args:
        init: a name of `linvit.catalog.INITS`.
        source: state dict of a Softmax ViT in timm's names; needed by inits that copy.
    Raises:
        LinvitError: unknown init, missing source, or a source whose keys or shapes do not fit.
    """
    if init not in INITS:
        raise LinvitError(f"init {init!r} is unknown; choose one of {', '.join(INITS)}")
    components = INITS[init].components
    if components and source is None:
        raise LinvitError(f"init {init!r} copies from a source, and none is given")
    draw_parameters(model, seed)
    return copy_components(model, source or {}, components)
