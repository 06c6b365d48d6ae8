"""Attention-only initialisation: gain over a random start, paired by seed, per operator."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from linvit.figures import style
from linvit.study import stats
from linvit.study.select import (
    ATTENTION_ONLY,
    block_labels,
    blocks,
    in_block,
    linear_operators,
    pick,
    present,
    top1_by_seed,
)


def draw(data: style.Data) -> Figure:
    """Columns: data sets; rows of dots: seeds; marker and bar: mean and 95 % interval."""
    cells = pick(data.cells, distill="none", init=("random", *ATTENTION_ONLY))
    inits = present(cells["init"], ATTENTION_ONLY)
    labels = block_labels(blocks(cells))
    operators = linear_operators(cells)
    if not labels or not operators:
        return style.nothing(f"init {' or '.join(ATTENTION_ONLY)}")
    figure, axes = style.grid(
        1, len(labels), 0.5 + 0.24 * len(operators) * len(inits), sharey=True, sharex=True
    )
    for panel, (block, name) in zip(axes[0], labels.items(), strict=True):
        _panel(panel, in_block(cells, block), operators, inits)
        panel.set_title(name)
        panel.set_xlabel("Test top-1 accuracy minus that of Random (points)")
    handles = [
        style.handle(style.init_label(init), style.INIT_COLOURS.get(init, "0.3")) for init in inits
    ]
    handles.append(style.handle("one seed", "0.6", "."))
    style.legend_below(figure, handles + style.diverged_handles(cells))
    return figure


def _panel(panel: Axes, inside: DataFrame, operators: list[str], inits: list[str]) -> None:
    panel.axvline(0, color="0.25", lw=0.9)
    for y, operator in enumerate(operators):
        rows = pick(inside, operator=operator)
        for place, init in enumerate(inits):
            offset = 0.25 * (place - (len(inits) - 1) / 2)
            _difference(panel, y + offset, rows, init)
    panel.set_yticks(range(len(operators)), [style.operator_label(name) for name in operators])
    panel.set_ylim(len(operators) - 0.5, -0.5)
    panel.grid(False, axis="y")


def _difference(panel: Axes, y: float, rows: DataFrame, init: str) -> None:
    arm, colour = pick(rows, init=init), style.INIT_COLOURS.get(init, "0.3")
    random = pick(rows, init="random")
    values = stats.paired_difference(top1_by_seed(arm), top1_by_seed(random))
    if values:
        s = stats.summarise(values)
        error = None if s.half_width is None else [[s.half_width]] * 2
        panel.plot(values, [y + 0.22] * len(values), ".", color="0.6", ms=2.5)
        panel.errorbar(s.mean, y, xerr=error, fmt="o", color=colour, elinewidth=1, capsize=1.5)
    pairs = len(set(arm["seed"]) & set(random["seed"]))
    if len(values) < pairs:
        place = panel.get_yaxis_transform()
        text = f"†{pairs - len(values)}/{pairs}"
        panel.text(0.99, y + 0.3, text, color=colour, fontsize=5.5, ha="right", transform=place)
