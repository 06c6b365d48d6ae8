"""The names a study may use, as data that needs no torch.

Adding an operator, an init or a distillation loss is one file in its package and one line here.
`numerics` is part of every fingerprint: raise it when results of the component may change.
"""

from dataclasses import dataclass

LOOP_NUMERICS = 1
VIEW_NUMERICS = 1


@dataclass(frozen=True)
class Operator:
    """A token mixer.

    has_map: its implicit N x N attention map exists. needs_grid: reads the patch grid.
    windows: needs a window side that divides the patch grid.
    """

    numerics: int
    has_map: bool = False
    needs_grid: bool = False
    windows: bool = False


@dataclass(frozen=True)
class Init:
    """An initialisation; `components` are what it takes from a source (empty: nothing)."""

    numerics: int
    components: frozenset[str] = frozenset()

    @property
    def needs_source(self) -> bool:
        return bool(self.components)


@dataclass(frozen=True)
class Distill:
    """A distillation loss; needs_map: student operators must have a map."""

    numerics: int
    needs_map: bool = False


OPERATORS = {
    "softmax": Operator(1, has_map=True),
    "elu": Operator(1, has_map=True),
    "relu": Operator(1, has_map=True),
    "inline": Operator(1, has_map=True),
    "mhla": Operator(1, needs_grid=True, windows=True),
    "ttt": Operator(1, needs_grid=True),
    "ttt_inherit": Operator(1, needs_grid=True),
    "inline_local": Operator(1, needs_grid=True),
}
LINEAR_OPERATORS = tuple(name for name in OPERATORS if name != "softmax")

COMPONENTS = ("attn", "mlp", "norm1", "norm2", "stem", "fnorm", "head", "extra")
_ALL_BUT_ATTENTION = frozenset({"mlp", "norm1", "norm2", "stem", "fnorm"})

INITS = {
    "random": Init(1),
    "copy": Init(1, frozenset({"attn"})),
    "mlpcopy": Init(1, _ALL_BUT_ATTENTION),
    "mlpcopy_strict": Init(1, frozenset({"mlp"})),
    "fullcopy": Init(1, _ALL_BUT_ATTENTION | {"attn"}),
}

DISTILLS = {"none": Distill(0), "output": Distill(1)}


def numerics(operator: str, init: str, distill: str) -> dict[str, int]:
    """Of everything that takes part in a cell, as its spec carries them."""
    return {
        "operator": OPERATORS[operator].numerics,
        "init": INITS[init].numerics,
        "distill": DISTILLS[distill].numerics,
        "view": VIEW_NUMERICS,
        "loop": LOOP_NUMERICS,
    }


SIZES = {
    name: {"img_size": 224, "in_chans": 3, "patch_size": 16, "depth": 12}
    | {"embed_dim": width, "num_heads": width // 64}
    for name, width in (("tiny", 192), ("small", 384), ("base", 768))
}
