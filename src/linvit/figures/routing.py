"""Routing recovered (the paper's figure 3): a random start, distilled, copied, and Softmax."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from linvit.catalog import LINEAR_OPERATORS
from linvit.figures import style
from linvit.study.select import at_lambda, block_labels, blocks, in_block, linear_operators, pick

# (init, distill) -> label, colour, marker
_ARMS = {
    ("random", "none"): ("Random", style.INIT_COLOURS["random"], "o"),
    ("copy", "none"): ("Copy", style.INIT_COLOURS["copy"], "s"),
    ("random", "output"): ("Random, distilled", style.DISTILL_COLOURS["output"], "D"),
}


def draw(data: style.Data) -> Figure:
    """Columns: data sets; in each, one group of arms per operator."""
    cells = at_lambda(data.cells)
    linear = pick(cells, operator=LINEAR_OPERATORS)
    labels = block_labels(blocks(pick(linear, init="random", distill="output")))
    if not labels:
        return style.nothing("init random and distill output")
    operators = linear_operators(linear)
    columns = min(len(labels), 3)
    rows = -(-len(labels) // columns)
    figure, axes = style.grid(rows, columns, 2.1)
    panels = [panel for row in axes for panel in row]
    for panel, (block, name) in zip(panels, labels.items(), strict=False):
        _panel(panel, in_block(cells, block), operators)
        panel.set_title(name)
    for panel in panels[len(labels) :]:
        panel.set_visible(False)
    style.value_labels(axes, style.TEST_ACCURACY)
    handles = [style.handle(*arm) for arm in _ARMS.values()] + style.reference_handles()
    handles += style.diverged_handles(pick(linear, init=("random", "copy")))
    style.legend_below(figure, handles)
    return figure


def _panel(panel: Axes, inside: DataFrame, operators: list[str]) -> None:
    softmax = pick(inside, operator="softmax", distill="none")
    style.reference(panel, pick(softmax, init="fullcopy"), "-", band=True)
    style.reference(panel, pick(softmax, init="random"), ":")
    for x, operator in enumerate(operators):
        for place, ((init, distill), (_, colour, marker)) in enumerate(_ARMS.items()):
            arm = pick(inside, operator=operator, init=init, distill=distill)
            style.point(panel, x + 0.2 * (place - 1), arm, colour, marker=marker)
    panel.set_xticks(range(len(operators)), [style.operator_label(name) for name in operators])
    panel.grid(False, axis="x")
