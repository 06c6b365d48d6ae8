"""Entries of tables: an arm's mean over seeds, or a paired difference, as text and as numbers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from linvit.study import stats
from linvit.study.render import number, signed
from linvit.study.select import top1_by_seed

Entry = tuple[str, dict[str, Any]]
LABELS = ("size", "source", "dataset", "operator", "init", "distill", "lambda", "chosen")
NUMBERS = ("entry", "n", "mean", "sd", "low", "high", "diverged", "of")
# labels that are only shown where they differ between rows
_SHOWN_IF_VARIED = ("size", "source", "distill")


def arm_entry(rows: pd.DataFrame, metric: str = "test_top1") -> Entry:
    """`71.23 ± 0.80`: the cells of one arm, one per seed; the half width is that of 95 %."""
    values = list(top1_by_seed(rows, metric).values())
    return _entry(values, len(rows) - len(values), len(rows), number)


def difference_entry(a: pd.DataFrame, b: pd.DataFrame) -> Entry:
    """a - b, paired by seed; a seed in which either diverged counts as diverged."""
    values = stats.paired_difference(top1_by_seed(a), top1_by_seed(b))
    both = len(set(a["seed"]) & set(b["seed"]))
    return _entry(values, both - len(values), both, signed)


def _entry(values: list[float], diverged: int, of: int, text: Callable[[float], str]) -> Entry:
    lost = f"diverged {diverged}/{of}" if diverged else ""
    numbers = {"n": len(values), "diverged": diverged, "of": of}
    if not values:
        return lost or "-", numbers
    s = stats.summarise(values)
    numbers |= {"mean": s.mean, "sd": s.sd, "low": s.low, "high": s.high}
    words = text(s.mean) + ("" if s.half_width is None else f" ± {number(s.half_width)}")
    return words + (f" ({lost})" if lost else ""), numbers


def _with_n(entry: Entry, most: int) -> str:
    text, numbers = entry
    return text if numbers["of"] in (0, most) else f"{text}, n = {numbers['n']}"


@dataclass
class Table:
    """Rows of labels and entries; missing: what the study would need for the table, or None."""

    title: str
    note: str
    missing: str | None = None
    labels: list[dict[str, Any]] = field(default_factory=list)
    entries: list[dict[str, Entry]] = field(default_factory=list)

    def add(self, labels: dict[str, Any], entries: dict[str, Entry]) -> None:
        self.labels.append(labels)
        self.entries.append(entries)

    def shown(self) -> list[str]:
        """The labels that are columns of the text."""
        varied = {
            name: len({row[name] for row in self.labels}) > 1
            for name in (self.labels[0] if self.labels else ())
        }
        return [name for name in varied if name not in _SHOWN_IF_VARIED or varied[name]]

    def head(self) -> list[str]:
        return [*self.shown(), *(self.entries[0] if self.entries else ())]

    def text(self) -> list[list[str]]:
        """Entries over fewer seeds than the table's most say how many: `71.23 ± 0.80, n = 3`."""
        shown, most = self.shown(), self.seeds()
        return [
            [*(str(labels[name]) for name in shown), *(_with_n(e, most) for e in entries.values())]
            for labels, entries in zip(self.labels, self.entries, strict=True)
        ]

    def seeds(self) -> int:
        """The most seeds that an entry has."""
        return max((n["of"] for row in self.entries for _, n in row.values()), default=0)

    def numbers(self) -> pd.DataFrame:
        """One row per entry, with the labels that the table has."""
        rows = [
            labels | {"entry": name} | numbers
            for labels, entries in zip(self.labels, self.entries, strict=True)
            for name, (_, numbers) in entries.items()
        ]
        used = [name for name in LABELS if any(name in row for row in self.labels)]
        return pd.DataFrame(rows, columns=[*used, *NUMBERS])
