"""Validation accuracy by epoch: how fast each init learns, with and without distillation."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pandas import DataFrame

from linvit.catalog import LINEAR_OPERATORS
from linvit.figures import style
from linvit.study import stats
from linvit.study.select import (
    COMPONENTS,
    at_lambda,
    block_labels,
    blocks,
    in_block,
    linear_operators,
    pick,
    present,
)

_LINE = {"none": "-", "output": "--"}


def draw(data: style.Data) -> Figure:
    """Rows: data sets; columns: operators; line: mean over seeds; band: 95 % t interval."""
    curves = pick(at_lambda(data.curves), operator=LINEAR_OPERATORS, init=COMPONENTS)
    labels = block_labels(blocks(curves))
    if not labels:
        return style.nothing("a source and a linear operator")
    operators = linear_operators(curves)
    figure, axes = style.grid(len(labels), len(operators), 1.6, sharex="row", sharey="row")
    for row, block in zip(axes, labels, strict=True):
        inside = in_block(curves, block)
        for panel, operator in zip(row, operators, strict=True):
            _panel(panel, pick(inside, operator=operator))
    style.operator_titles(axes, operators)
    style.name_blocks(axes, list(labels.values()))
    style.value_labels(axes, style.VALIDATION_ACCURACY)
    for panel in axes[-1]:
        panel.set_xlabel("Epoch")
    handles = [
        style.handle(style.init_label(init), style.INIT_COLOURS[init], "", "-")
        for init in present(curves["init"], COMPONENTS)
    ]
    handles += [style.handle(style.DISTILL_LABELS[n], "0.3", "", line) for n, line in _LINE.items()]
    if (data.cells["status"] == "diverged").any():
        handles.append(style.handle("diverged cells end early", "0.3", ""))
    style.legend_below(figure, handles)
    return figure


def _panel(panel: Axes, rows: DataFrame) -> None:
    for init in present(rows["init"], COMPONENTS):
        for distill, line in _LINE.items():
            arm = pick(rows, init=init, distill=distill)
            if not arm.empty:
                _curve(panel, arm, style.INIT_COLOURS[init], line)


def _curve(panel: Axes, arm: DataFrame, colour, line: str) -> None:
    by_epoch = {epoch: group["val_top1"].dropna() for epoch, group in arm.groupby("epoch")}
    points = {epoch: stats.summarise(top1) for epoch, top1 in by_epoch.items() if len(top1)}
    mean = [s.mean for s in points.values()]
    half = [s.half_width or 0.0 for s in points.values()]
    panel.plot(list(points), mean, color=colour, linestyle=line, lw=1)
    low = [m - h for m, h in zip(mean, half, strict=True)]
    high = [m + h for m, h in zip(mean, half, strict=True)]
    panel.fill_between(list(points), low, high, color=colour, alpha=0.1, lw=0)
