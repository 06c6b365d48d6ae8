"""Reading cells.csv and curves.csv, and picking arms and blocks out of them.

A *block* is a (dataset, size, source) in which arms are compared: a cell that takes nothing from
a source (random, no distillation) has none and belongs to the blocks of every source.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from linvit.catalog import INITS, LINEAR_OPERATORS
from linvit.errors import LinvitError
from linvit.study.cell import AXES

# `spec`: digest of the spec's science, to be compared with that of the frozen plan
CELL_COLUMNS = (
    *AXES,
    *("status", "test_top1", "val_top1", "train_top1", "train_loss", "val_loss"),
    *("distill_relative", "parameters", "fingerprint", "device", "grids"),
    *("chosen_lambda", "path", "spec"),
)
CURVE_COLUMNS = (
    *AXES,
    # distill_loss is the history's `distill`, a name that the axis has here
    *("epoch", "step", "lr", "train_loss", "train_ce", "distill_loss", "distill_relative"),
    *("val_loss", "val_top1", "chosen_lambda"),
)
CLAIM_COLUMNS = (
    *("level", "id", "finding", "title", "expect", "margin", "lambda", "status", "verdict"),
    *("reason", "dataset", "size", "source", "operator", "n_seeds", "mean", "low", "high", "sd"),
    *("p_support", "p_refute", "holm_support", "holm_refute", "smallest_effect"),
    *("contrast", "by_seed", "n_cells", "cells", "bad_cells"),
)
COMPONENTS = ("random", "copy", "mlpcopy", "fullcopy")
# inits that give the attention weights and nothing else
ATTENTION_ONLY = tuple(n for n, i in INITS.items() if n != "random" and i.components <= {"attn"})
# read as they stand: a dataset may well be called 007, a digest may look like a number
_TEXT = (
    *("dataset", "size", "operator", "init", "distill", "source", "status", "grids", "device"),
    *("path", "spec", "fingerprint", "level", "id", "title", "verdict", "reason"),
)


class Block(NamedTuple):
    dataset: str
    size: str
    source: str | None


def read_table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """A CSV written by aggregate, empty fields as NaN. Raises LinvitError on other columns."""
    text = dict.fromkeys(_TEXT, object)
    try:
        # only nothing is nothing: "null" and "NA" are names
        frame = pd.read_csv(path, dtype=text, keep_default_na=False, na_values=[""])
    except FileNotFoundError:
        raise LinvitError(f"{path} is missing; run the rule that makes it") from None
    except pd.errors.ParserError as error:
        raise LinvitError(f"{path} is damaged ({error}); delete it and make it again") from None
    except pd.errors.EmptyDataError:
        raise LinvitError(f"{path} is empty; delete it and make it again") from None
    absent = [name for name in columns if name not in frame.columns]
    if absent:
        raise LinvitError(f"{path} lacks the columns {absent}; delete it and make it again")
    return frame


def to_csv(frame: pd.DataFrame) -> str:
    """The same bytes for the same numbers, whatever platform and pandas options."""
    return frame.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def read_cells(path: Path) -> pd.DataFrame:
    return read_table(path, CELL_COLUMNS)


def read_curves(path: Path) -> pd.DataFrame:
    return read_table(path, CURVE_COLUMNS)


def read_claims(path: Path) -> pd.DataFrame:
    return read_table(path, CLAIM_COLUMNS)


def at_lambda(frame: pd.DataFrame, choice: str | float = "main") -> pd.DataFrame:
    """Rows without distillation and those at lambda `choice` (main: the dataset's own)."""
    wanted = frame["chosen_lambda"] if choice == "main" else float(choice)
    return frame[(frame["distill"] == "none") | (frame["lambda"] == wanted)]


def pick(frame: pd.DataFrame, **axes: str | tuple[str, ...]) -> pd.DataFrame:
    """Rows whose columns equal (or, for a tuple, are among) the given values."""
    for name, value in axes.items():
        values = value if isinstance(value, tuple) else (value,)
        frame = frame[frame[name].isin(values)]
    return frame


def in_block(frame: pd.DataFrame, block: Block) -> pd.DataFrame:
    same = (frame["dataset"] == block.dataset) & (frame["size"] == block.size)
    return frame[same & (frame["source"].isna() | (frame["source"] == block.source))]


def blocks(frame: pd.DataFrame) -> list[Block]:
    """The blocks of the rows that have a source, sorted."""
    rows = frame[frame["source"].notna()][["dataset", "size", "source"]].drop_duplicates()
    return sorted(Block(*row) for row in rows.itertuples(index=False))


def block_labels(all_blocks: list[Block]) -> dict[Block, str]:
    """Short names: the dataset, with size and source only where the blocks differ in them."""
    sizes = len({block.size for block in all_blocks}) > 1
    sources = len({block.source for block in all_blocks}) > 1
    return {
        block: block.dataset
        + (f", {block.size}" if sizes else "")
        + (f", from {block.source}" if sources and block.source else "")
        for block in all_blocks
    }


def by_lambda(arm: pd.DataFrame) -> dict[float, pd.DataFrame]:
    """lambda -> cells of one arm, over the seeds that ran at each; empty for fewer than two."""
    lambdas = sorted(arm["lambda"].unique())
    if len(lambdas) < 2:
        return {}
    counts = arm.groupby("seed")["lambda"].nunique()
    fair = arm[arm["seed"].isin(counts.index[counts == len(lambdas)])]
    return {float(lam): fair[fair["lambda"] == lam] for lam in lambdas}


def present(values: Iterable[str], catalogue: Iterable[str]) -> list[str]:
    """The names of the catalogue that occur among the values, in the catalogue's order."""
    found = set(values)
    return [name for name in catalogue if name in found]


def linear_operators(frame: pd.DataFrame) -> list[str]:
    return present(frame["operator"], LINEAR_OPERATORS)


def top1_by_seed(frame: pd.DataFrame, metric: str = "test_top1") -> dict[int, float]:
    """seed -> accuracy in percent, of the cells of one arm that did not diverge."""
    rows = frame[frame["status"] == "ok"]
    return dict(zip(rows["seed"].astype(int), rows[metric].astype(float), strict=True))
