"""The weight of distillation: validation accuracy by lambda, the chosen value and the paper's 50.

Intervals are within seeds: what a seed adds at every lambda is taken out before the t interval.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from linvit.catalog import LINEAR_OPERATORS
from linvit.figures import style
from linvit.study import stats
from linvit.study.select import (
    Block,
    block_labels,
    blocks,
    by_lambda,
    in_block,
    linear_operators,
    pick,
    present,
    top1_by_seed,
)

_INITS = tuple(style.INIT_COLOURS)
PAPER = 50.0


def draw(data: style.Data) -> Figure:
    """Rows: inits; columns: data sets."""
    cells = pick(data.cells[data.cells["distill"] != "none"], operator=LINEAR_OPERATORS)
    swept = [
        (block, init)
        for block in blocks(cells)
        for init in present(cells["init"], _INITS)
        if _curves(pick(in_block(cells, block), init=init))
    ]
    if not swept:
        return style.nothing("several values of lambda")
    labels = block_labels(sorted({block for block, _ in swept}))
    inits = present((init for _, init in swept), _INITS)
    figure, axes = style.grid(len(inits), len(labels), 1.7, sharex="col")
    for row, init in zip(axes, inits, strict=True):
        for panel, block in zip(row, labels, strict=True):
            _panel(panel, pick(in_block(cells, block), init=init))
    _label(figure, axes, inits, labels, linear_operators(cells))
    return figure


def _curves(rows: DataFrame) -> dict[str, dict[float, DataFrame]]:
    curves = {name: by_lambda(pick(rows, operator=name)) for name in linear_operators(rows)}
    return {name: curve for name, curve in curves.items() if curve}


def _panel(panel: Axes, rows: DataFrame) -> None:
    panel.set_xscale("log")
    panel.grid(False, axis="x")
    panel.axvline(PAPER, color="0.5", lw=0.9, ls="--", zorder=0)
    for chosen in rows["chosen_lambda"].dropna().unique():
        panel.axvline(chosen, color="0.25", lw=0.9, zorder=0)
    curves = _curves(rows)
    lambdas = sorted({lam for curve in curves.values() for lam in curve})
    panel.set_xticks(lambdas, [f"{lam:g}" for lam in lambdas])
    panel.minorticks_off()
    for place, (operator, curve) in enumerate(curves.items()):
        shift = 1.06 ** (place - (len(curves) - 1) / 2)
        _curve(panel, curve, shift, style.OPERATOR_COLOURS.get(operator, "0.5"))


def _curve(panel: Axes, curve: dict[float, DataFrame], shift: float, colour) -> None:
    """The seeds that did not diverge at any lambda; shift: factor that keeps bars apart."""
    by_seed = [top1_by_seed(cells, "val_top1") for cells in curve.values()]
    seeds = sorted(set.intersection(*map(set, by_seed)))
    if not seeds:
        return
    values = np.array([[column[seed] for column in by_seed] for seed in seeds])
    columns = [stats.summarise(column) for column in stats.within_seeds(values).T]
    half = [s.half_width or 0.0 for s in columns]
    x = np.array(list(curve)) * shift
    panel.errorbar(
        x, values.mean(0), half, color=colour, marker="o", elinewidth=0.8, capsize=1.5, lw=1
    )


def _label(
    figure: Figure,
    axes: list[list[Axes]],
    inits: list[str],
    labels: dict[Block, str],
    operators: list[str],
) -> None:
    for panel, name in zip(axes[0], labels.values(), strict=True):
        panel.set_title(name)
    style.name_blocks(axes, [style.init_label(init) for init in inits])
    style.value_labels(axes, style.VALIDATION_ACCURACY)
    for panel in axes[-1]:
        panel.set_xlabel("Weight of the distillation loss, λ")
    handles = [
        style.handle(
            style.operator_label(name), style.OPERATOR_COLOURS.get(name, "0.5"), linestyle="-"
        )
        for name in operators
    ]
    handles += [
        style.handle("chosen λ", "0.25", "", "-"),
        style.handle(f"λ = {PAPER:g} (paper)", "0.5", "", "--"),
    ]
    style.legend_below(figure, handles)
