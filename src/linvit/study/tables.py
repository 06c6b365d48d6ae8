"""The study's tables, each as numbers (CSV, one row an entry) and as text (Markdown, LaTeX).

A study without the cells that a table needs gets a table that says which they are.
"""

from itertools import product
from pathlib import Path

import pandas as pd

from linvit.catalog import DISTILLS, INITS, LINEAR_OPERATORS, OPERATORS
from linvit.errors import LinvitError
from linvit.files import atomic_write_text
from linvit.study.entries import Table, arm_entry, difference_entry
from linvit.study.render import latex_table, markdown_table
from linvit.study.select import (
    ATTENTION_ONLY,
    COMPONENTS,
    Block,
    at_lambda,
    blocks,
    by_lambda,
    in_block,
    pick,
    present,
    to_csv,
)

_ENTRY = "top-1 accuracy (%), mean over seeds ± half width of its 95 % t interval"


def write_table(name: str, cells: pd.DataFrame, out: Path) -> None:
    """Write out.csv, out.md and out.tex (`out` has no suffix). Raises LinvitError on a bad name."""
    if name not in TABLES:
        raise LinvitError(f"no table {name!r}; there are {', '.join(TABLES)}")
    table = TABLES[name](cells)
    if not table.labels:
        table.missing = f"Not in this study. {table.missing}"
    for suffix, text in (
        ("csv", to_csv(table.numbers())),
        ("md", _markdown(table)),
        ("tex", _latex(table)),
    ):
        atomic_write_text(Path(f"{out}.{suffix}"), text)


def _markdown(table: Table) -> str:
    if not table.labels:
        return f"# {table.title}\n\n{table.missing}\n"
    rows = markdown_table(table.head(), table.text())
    return f"# {table.title}\n\n{table.note} Seeds: {table.seeds()}.\n\n{rows}\n"


def _latex(table: Table) -> str:
    comment = f"% {table.title}. {table.note} Seeds: {table.seeds()}.\n"
    if not table.labels:
        return comment + latex_table([table.missing], [], 1)
    return comment + latex_table(table.head(), table.text(), len(table.shown()))


def main_table(cells: pd.DataFrame) -> Table:
    """operator x init x distill against data sets, with the Softmax references on top."""
    table = Table(
        "Components: what is copied, and whether the attention is distilled",
        f"Test {_ENTRY}. Softmax fullcopy/none is fine-tuned Softmax, the recovery target; "
        "random/none is training from scratch. Each data set at its chosen lambda.",
        "It needs a sub-grid with init: [random, copy, mlpcopy, fullcopy].",
    )
    rows = pick(at_lambda(cells), init=COMPONENTS)
    places = blocks(pick(rows, init=("mlpcopy", "fullcopy"), operator=LINEAR_OPERATORS))
    datasets = sorted({block.dataset for block in places})
    for size, source in sorted({(block.size, block.source) for block in places}):
        inside = {name: in_block(rows, Block(name, size, source)) for name in datasets}
        for operator, init, distill in product(OPERATORS, COMPONENTS, DISTILLS):
            arm = {"operator": operator, "init": init, "distill": distill}
            picked = {name: pick(frame, **arm) for name, frame in inside.items()}
            if any(len(frame) for frame in picked.values()):
                entries = {name: arm_entry(frame) for name, frame in picked.items()}
                table.add({"size": size, "source": source, **arm}, entries)
    return table


def attention_only_table(cells: pd.DataFrame) -> Table:
    table = Table(
        "Attention-only initialisations against a random start",
        f"Test {_ENTRY}; differences are paired by seed. No distillation.",
        "It needs a sub-grid with init: [random, copy], distill: [none].",
    )
    inits = present(cells["init"], ATTENTION_ONLY)
    differences = [(init, "random") for init in inits]
    _compare(table, pick(cells, distill="none"), ("random", *inits), differences)
    return table


def strict_table(cells: pd.DataFrame) -> Table:
    table = Table(
        "The two readings of MLPCopy: fc1 and fc2 alone (strict), or all but the attention",
        f"Test {_ENTRY}; differences are paired by seed. Each data set at its chosen lambda.",
        "It needs a sub-grid with init: [random, mlpcopy_strict, mlpcopy].",
    )
    inits = ("random", "mlpcopy_strict", "mlpcopy")
    _compare(table, at_lambda(cells), inits, [inits[1::-1], inits[:0:-1]])
    return table


def _compare(
    table: Table,
    cells: pd.DataFrame,
    inits: tuple[str, ...],
    differences: list[tuple[str, str]],
) -> None:
    """One row per block, operator and distillation in which a difference has both its arms."""
    for block in blocks(cells):
        rows = in_block(cells, block)
        for operator, distill in product(OPERATORS, DISTILLS):
            arms = {i: pick(rows, operator=operator, init=i, distill=distill) for i in inits}
            if all(arms[a].empty or arms[b].empty for a, b in differences):
                continue
            entries = {init: arm_entry(arm) for init, arm in arms.items()}
            for a, b in differences:
                entries[f"{a} - {b}"] = difference_entry(arms[a], arms[b])
            labels = {**block._asdict(), "operator": operator, "distill": distill}
            table.add(labels, entries)


def lambda_table(cells: pd.DataFrame) -> Table:
    """One row per block, operator, init, loss and lambda, of the arms with several lambdas."""
    table = Table(
        "The weight of the distillation loss",
        f"Validation and test {_ENTRY}, over the seeds that ran at every lambda of the row's arm. "
        "The data set's lambda is chosen on validation.",
        "It needs a sub-grid with several values of `lambda`.",
    )
    metrics = {"validation": "val_top1", "test": "test_top1"}
    distilled = cells[cells["distill"] != "none"]
    for block in blocks(distilled):
        rows = in_block(distilled, block)
        for operator, init, distill in product(OPERATORS, INITS, DISTILLS):
            arm = {"operator": operator, "init": init, "distill": distill}
            for lam, at in by_lambda(pick(rows, **arm)).items():
                chosen = "yes" if (at["chosen_lambda"] == lam).all() else ""
                labels = {**block._asdict(), **arm, "lambda": f"{lam:g}", "chosen": chosen}
                entries = {name: arm_entry(at, column) for name, column in metrics.items()}
                table.add(labels, entries)
    return table


TABLES = {
    "main": main_table,
    "attention_only": attention_only_table,
    "strict": strict_table,
    "lambda": lambda_table,
}
