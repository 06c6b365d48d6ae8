"""Token mixers behind one interface, and `bind`, which fixes their grid and options."""

from functools import cache
from typing import Any

from linvit.errors import LinvitError
from linvit.operators.base import Operator
from linvit.operators.elu import Elu
from linvit.operators.inline import Inline
from linvit.operators.inline_local import InlineLocal
from linvit.operators.mhla import Mhla
from linvit.operators.relu import Relu
from linvit.operators.softmax import Softmax
from linvit.operators.ttt import Ttt
from linvit.operators.ttt_inherit import TttInherit

OPERATORS: dict[str, type[Operator]] = {
    "softmax": Softmax,
    "elu": Elu,
    "relu": Relu,
    "inline": Inline,
    "mhla": Mhla,
    "ttt": Ttt,
    "ttt_inherit": TttInherit,
    "inline_local": InlineLocal,
}


def bind(
    name: str, *, grid: tuple[int, int] | None = None, prefix_tokens: int = 1, **options: Any
) -> type[Operator]:
    """The operator's class for this patch grid (height, width), ready for timm's `attn_layer`.

    Raises LinvitError for an unknown name or option, a value that is not allowed, or a grid the
    operator cannot use. Equal arguments give the same class.
    """
    if name not in OPERATORS:
        raise LinvitError(f"operator {name!r} is unknown; there are {', '.join(OPERATORS)}")
    for option, value in options.items():
        _check_option(name, option, value)
    return _bind(name, tuple(grid) if grid else None, prefix_tokens, tuple(sorted(options.items())))


@cache
def _bind(name: str, grid: Any, prefix_tokens: int, options: tuple) -> type[Operator]:
    parent = OPERATORS[name]
    if parent.needs_grid and grid is None:
        raise LinvitError(
            f"operator {name} reads the patch grid; bind it with grid=(height, width)"
        )
    attributes = {"grid": grid, "prefix_tokens": prefix_tokens, **dict(options)}
    bound = type(parent.__name__, (parent,), {"__module__": parent.__module__, **attributes})
    bound.configure()
    return bound


def _check_option(name: str, option: str, value: Any) -> None:
    allowed = OPERATORS[name].option_values
    if option not in allowed:
        known = f"it has {', '.join(allowed)}" if allowed else "it has none"
        raise LinvitError(f"operator {name} has no option {option!r}; {known}")
    choices = allowed[option] if isinstance(allowed[option], tuple) else (allowed[option],)
    if not any(_fits(value, choice) for choice in choices):
        words = ", ".join(c.__name__ if isinstance(c, type) else repr(c) for c in choices)
        raise LinvitError(f"operator {name}: option {option} is {value!r}; allowed: {words}")


def _fits(value: Any, choice: Any) -> bool:
    """A type stands for its values; numbers must be positive."""
    if choice is bool or isinstance(value, bool):
        return isinstance(value, bool) and choice is bool
    if choice in (int, float):
        return isinstance(value, int if choice is int else (int, float)) and value > 0
    return value == choice
