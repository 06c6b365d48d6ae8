"""What carries the benefit (the paper's figure 4): accuracy by init, distilled or not."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from linvit.catalog import LINEAR_OPERATORS
from linvit.figures import style
from linvit.study.select import (
    at_lambda,
    block_labels,
    blocks,
    in_block,
    linear_operators,
    pick,
    present,
)

INITS = ("random", "copy", "mlpcopy_strict", "mlpcopy", "fullcopy")
_OFFSET = {"none": -0.14, "output": 0.14}
_MARKER = {"none": "o", "output": "D"}


def draw(data: style.Data) -> Figure:
    """Rows: data sets; columns: operators; one value axis per data set."""
    cells = pick(at_lambda(data.cells), init=INITS)
    linear = pick(cells, operator=LINEAR_OPERATORS)
    labels = block_labels(blocks(pick(linear, init=("mlpcopy", "fullcopy"))))
    if not labels:
        return style.nothing("init mlpcopy or fullcopy")
    operators, inits = linear_operators(linear), present(linear["init"], INITS)
    figure, axes = style.grid(len(labels), len(operators), 1.6, sharex=True, sharey="row")
    for row, block in zip(axes, labels, strict=True):
        inside = in_block(cells, block)
        for panel, operator in zip(row, operators, strict=True):
            _panel(panel, inside, operator, inits)
    for panel in (panel for row in axes for panel in row):
        style.category_axis(panel, [style.init_label(init) for init in inits])
    style.operator_titles(axes, operators)
    style.name_blocks(axes, list(labels.values()))
    style.value_labels(axes, style.TEST_ACCURACY)
    handles = [
        style.handle(style.DISTILL_LABELS[name], style.DISTILL_COLOURS[name], _MARKER[name])
        for name in _OFFSET
    ]
    handles += style.reference_handles() + style.diverged_handles(linear)
    style.legend_below(figure, handles)
    return figure


def _panel(panel: Axes, inside: DataFrame, operator: str, inits: list[str]) -> None:
    softmax = pick(inside, operator="softmax", distill="none")
    style.reference(panel, pick(softmax, init="fullcopy"), "-", band=True)
    style.reference(panel, pick(softmax, init="random"), ":")
    for distill, offset in _OFFSET.items():
        for x, init in enumerate(inits):
            arm = pick(inside, operator=operator, init=init, distill=distill)
            colour = style.DISTILL_COLOURS[distill]
            style.point(panel, x + offset, arm, colour, marker=_MARKER[distill])
