"""The claims: each contrast with its interval, the region that supports it, and the verdict."""

import textwrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from pandas import DataFrame, Series

from linvit.errors import LinvitError
from linvit.figures import style

_COLOURS = {"supported": "#0173b2", "refuted": "#d55e00", "not resolved": "0.45"}
_REGION = "#cfe3d4"


def draw(data: style.Data) -> Figure:
    """One row per claim: mean and 95 % interval; small dots: operator and data set each."""
    if data.claims is None:
        raise LinvitError("the figure `effects` is drawn from claims.csv; give --claims")
    primary = data.claims[data.claims["level"] == "primary"].reset_index(drop=True)
    if primary.empty:
        return style.nothing("claims")
    figure, ((panel,),) = style.grid(1, 1, 0.42 * len(primary) + 0.4)
    secondary = data.claims[data.claims["level"] == "secondary"]
    for y, claim in primary.iterrows():
        same = (secondary["id"] == claim["id"]) & (secondary["status"] == claim["status"])
        _claim(panel, y, claim, secondary[same])
    _regions(panel, primary)
    _label(figure, panel, primary)
    return figure


def _claim(panel: Axes, y: int, claim: Series, secondary: DataFrame) -> None:
    colour = _COLOURS[claim["verdict"]]
    dots = secondary["mean"].dropna()
    panel.plot(dots, [y + 0.24] * len(dots), ".", color="0.6", ms=3, zorder=2)
    if claim["mean"] == claim["mean"]:
        half = claim["high"] - claim["mean"]
        error = [[half], [half]] if half == half else None
        fill = "none" if isinstance(claim["reason"], str) else colour
        panel.errorbar(
            claim["mean"], y, xerr=error, fmt="D", color=colour, mfc=fill, capsize=2, zorder=3
        )
    late = "\nexploratory" if claim["status"] == "exploratory" else ""
    panel.annotate(
        claim["verdict"] + late, (1.01, y), xycoords=("axes fraction", "data"),
        va="center", color=colour, fontsize=7,
    )  # fmt: skip


def _regions(panel: Axes, primary: DataFrame) -> None:
    """Shade, per claim, where the true contrast must lie for the claim to hold."""
    low, high = panel.get_xlim()
    low, high = min(low, -3.0), max(high, 3.0)
    panel.set_xlim(low, high)
    for y, claim in primary.iterrows():
        margin = claim["margin"]
        left, right = {
            "equivalent": (-margin, margin),
            "greater": (margin, high),
            "not_worse": (-margin, high),
            "less": (low, -margin),
        }[claim["expect"]]
        panel.barh(y, right - left, 0.8, left, color=_REGION, alpha=0.7, lw=0, zorder=0)


def _label(figure: Figure, panel: Axes, primary: DataFrame) -> None:
    names = [
        textwrap.fill(f"({finding}) {title}", 56)
        for finding, title in zip(primary["finding"], primary["title"], strict=True)
    ]
    panel.axvline(0, color="0.25", lw=0.9, zorder=1)
    panel.set_yticks(range(len(names)), names)
    panel.set_ylim(len(names) - 0.5, -0.5)
    panel.grid(False, axis="y")
    panel.set_xlabel("Contrast in test top-1 accuracy (points)")
    handles = [
        style.handle("claim, mean and 95 % interval", "0.3", "D"),
        style.handle("one operator and data set", "0.6", "."),
        Patch(color=_REGION, label="where the claim holds"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3)
