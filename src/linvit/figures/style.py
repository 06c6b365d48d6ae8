"""One look for all figures, and files that are the same bytes whenever they are drawn again."""

import importlib
import io
from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import pandas as pd
import seaborn as sns
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from linvit.errors import LinvitError
from linvit.figures import FIGURES
from linvit.files import atomic_write_bytes
from linvit.study import stats
from linvit.study.select import top1_by_seed

WIDTH = 7.2  # inches, a text width of two columns
TEST_ACCURACY = "Test top-1 accuracy (%)"
VALIDATION_ACCURACY = "Validation top-1 accuracy (%)"
_BLUE, _ORANGE, _GREEN, _RED, _PURPLE, _BROWN, _PINK, _GREY, _YELLOW, _SKY = sns.color_palette(
    "colorblind"
)
OPERATOR_COLOURS = {
    "softmax": "0.25",
    "elu": _BLUE,
    "relu": _ORANGE,
    "inline": _GREEN,
    "mhla": _RED,
    "ttt": _PURPLE,
}
INIT_COLOURS = {
    "random": _GREY,
    "copy": _ORANGE,
    "mlpcopy_strict": _SKY,
    "mlpcopy": _BLUE,
    "fullcopy": _GREEN,
}
DISTILL_COLOURS = {"none": _ORANGE, "output": _BLUE}
OPERATOR_LABELS = {"softmax": "Softmax", "elu": "ELU", "relu": "ReLU", "inline": "InLine"}
OPERATOR_LABELS |= {"mhla": "MHLA", "ttt": "TTT"}
INIT_LABELS = {"random": "Random", "copy": "Copy", "mlpcopy_strict": "MLPCopy strict"}
INIT_LABELS |= {"mlpcopy": "MLPCopy", "fullcopy": "FullCopy"}
DISTILL_LABELS = {"none": "no distillation", "output": "attention output distilled"}

_SETTINGS = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so every machine draws the same
    "font.size": 8,
    "axes.labelsize": 7,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.columnspacing": 1.4,
    "legend.handlelength": 1.6,
    "legend.handletextpad": 0.5,
    "axes.linewidth": 0.6,
    "grid.linewidth": 0.4,
    "lines.linewidth": 1.2,
    "lines.markersize": 3.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "svg.hashsalt": "linvit",
    "savefig.dpi": 200,
    "figure.constrained_layout.use": True,
}
_METADATA = {"pdf": {"CreationDate": None}, "png": {"Software": None}}


@dataclass(frozen=True)
class Data:
    """What a figure may read: cells.csv, curves.csv and, for `effects`, claims.csv."""

    cells: pd.DataFrame
    curves: pd.DataFrame
    claims: pd.DataFrame | None = None


def draw(name: str, data: Data, out: Path) -> None:
    """Draw a figure into out.pdf and out.png (`out` has no suffix); LinvitError on a bad name."""
    if name not in FIGURES:
        raise LinvitError(f"no figure {name!r}; there are {', '.join(FIGURES)}")
    module = importlib.import_module(f"linvit.figures.{name}")
    with sns.plotting_context("paper"), sns.axes_style("whitegrid"), plt.rc_context(_SETTINGS):
        figure = module.draw(data)
        save(figure, out)
        plt.close(figure)


def save(figure: Figure, out: Path) -> None:
    """Write both formats without dates or versions of tools, each file atomically."""
    for suffix, metadata in _METADATA.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, metadata=metadata)
        atomic_write_bytes(Path(f"{out}.{suffix}"), buffer.getvalue())


def grid(rows: int, columns: int, height: float, **options) -> tuple[Figure, list[list[Axes]]]:
    """Panels over the full width, `height` inches a row; axes[row][column]."""
    size = (WIDTH, height * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, **options)
    for panel in axes.flat:
        sns.despine(ax=panel)
        panel.tick_params(length=2, pad=2)
        panel.margins(y=0.09)
    return figure, axes.tolist()


def nothing(need: str) -> Figure:
    """A figure that says which cells the study lacks."""
    figure = plt.figure(figsize=(WIDTH, 1.0), layout="none")
    figure.text(0.5, 0.5, f"Not in this study: it has no cells with {need}.", ha="center")
    return figure


def summary(cells: pd.DataFrame, metric: str = "test_top1") -> stats.Summary | None:
    """Of one arm over its seeds that did not diverge; None where there are none."""
    values = list(top1_by_seed(cells, metric).values())
    return stats.summarise(values) if values else None


def point(panel: Axes, x: float, cells: pd.DataFrame, colour, **options) -> None:
    """Mean and 95 % interval of one arm at x, and how many of its cells diverged."""
    s = summary(cells)
    if s is not None:
        error = None if s.half_width is None else [[s.half_width]] * 2
        panel.errorbar(x, s.mean, error, color=colour, elinewidth=1, capsize=1.5, **options)
    lost = int((cells["status"] == "diverged").sum())
    if lost:
        text, place = f"†{lost}/{len(cells)}", panel.get_xaxis_transform()
        panel.text(x, 0.01, text, color=colour, fontsize=5.5, ha="center", transform=place)


def reference(panel: Axes, cells: pd.DataFrame, style: str, band: bool = False) -> None:
    """A Softmax arm as a horizontal line, with its 95 % interval as a band."""
    s = summary(cells)
    if s is None:
        return
    panel.axhline(s.mean, color=OPERATOR_COLOURS["softmax"], linestyle=style, lw=0.9, zorder=1)
    if band and s.low is not None:
        panel.axhspan(s.low, s.high, color=OPERATOR_COLOURS["softmax"], alpha=0.12, lw=0, zorder=0)


def reference_handles() -> list[Line2D]:
    colour = OPERATOR_COLOURS["softmax"]
    return [
        Line2D([], [], color=colour, lw=0.9, label="Softmax, fine-tuned"),
        Line2D([], [], color=colour, lw=0.9, linestyle=":", label="Softmax, from scratch"),
    ]


def handle(label: str, colour, marker: str = "o", linestyle: str = "none") -> Line2D:
    return Line2D([], [], color=colour, marker=marker, linestyle=linestyle, label=label)


def diverged_handles(cells: pd.DataFrame) -> list[Line2D]:
    """Explains the mark of diverged cells where there are any."""
    if not (cells["status"] == "diverged").any():
        return []
    return [handle("†k/n: k of n cells diverged", "0.3", "")]


def legend_below(figure: Figure, handles: list[Line2D]) -> None:
    lines = -(-len(handles) // 5)
    columns = -(-len(handles) // lines)
    figure.legend(handles=handles, loc="outside lower center", ncols=columns)


def category_axis(panel: Axes, names: list[str]) -> None:
    """Names under positions 0, 1, ..., turned so that they fit under narrow panels."""
    panel.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    panel.set_xlim(-0.5, len(names) - 0.5)
    panel.grid(False, axis="x")


def name_blocks(axes: list[list[Axes]], names: list[str]) -> None:
    """The rows' names at the right edge, turned."""
    for row, name in zip(axes, names, strict=True):
        row[-1].annotate(
            name, (1.03, 0.5), xycoords="axes fraction", rotation=270, ha="left", va="center"
        )


def value_labels(axes: list[list[Axes]], name: str) -> None:
    """What the vertical axes show, once per row."""
    for row in axes:
        row[0].set_ylabel(name)


def operator_titles(axes: list[list[Axes]], operators: list[str]) -> None:
    for panel, operator in zip(axes[0], operators, strict=True):
        panel.set_title(operator_label(operator))


def operator_label(name: str) -> str:
    return OPERATOR_LABELS.get(name, name)


def init_label(name: str) -> str:
    return INIT_LABELS.get(name, name)
