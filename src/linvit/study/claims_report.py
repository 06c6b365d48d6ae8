"""claims.md: the verdicts, what stands behind each, and the uncorrected secondary effects."""

from pathlib import Path
from typing import Any

from linvit.files import atomic_write_text
from linvit.study import stats
from linvit.study.cell import AXES, Cell
from linvit.study.claims import ALPHA, LATE, SUPPORTED, Judged
from linvit.study.claims_csv import claims_csv
from linvit.study.contrast import Unit
from linvit.study.declaration import expectation, in_words
from linvit.study.render import markdown_table, number, signed
from linvit.study.select import block_labels


def write_claims(judged: list[Judged], frozen: dict[str, Any], out: Path) -> None:
    """Write `out`, a Markdown file, and a CSV of its name beside it."""
    atomic_write_text(Path(out).with_suffix(".csv"), claims_csv(judged))
    atomic_write_text(Path(out), claims_markdown(judged, frozen))


def claims_markdown(judged: list[Judged], frozen: dict[str, Any]) -> str:
    """The verdicts first, then what stands behind each, then the uncorrected secondary effects."""
    parts = [_head(judged, frozen), _verdicts(judged)]
    parts += ["## The evidence for each claim", *(_evidence(one) for one in judged)]
    parts += [_secondary_head(), *(_secondary_table(one) for one in judged)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(judged: list[Judged], frozen: dict[str, Any]) -> str:
    family = sum(one.exploratory != LATE for one in judged)
    return f"""# Claims of the study `{frozen["study"]}`

Frozen before test numbers were read: {family} claims and the plan of {len(frozen["cells"])} cells,
sha256 `{frozen["sha256"]}`.

A contrast is in percentage points of test top-1 accuracy at the last epoch. It is averaged within a
seed over operators, data sets, sizes and sources; inference is over seeds. One-sided tests for and
against each claim, each family Holm-corrected at {ALPHA:g}; intervals are 95 % t intervals of the
contrast, not corrected."""


def _verdicts(judged: list[Judged]) -> str:
    head = ("Finding", "Claim", "Expected", "Contrast [95 %]", "p for", "p against", "Verdict")
    return "## Verdicts\n\n" + markdown_table(head, [_verdict_row(one) for one in judged])


def _verdict_row(one: Judged) -> tuple[str, ...]:
    claim, numbers = one.claim, ("-", "-", "-")
    if not one.measured.reason:
        numbers = (_interval(one.summary), _p(one.holm_support), _p(one.holm_refute))
    declared = (str(claim.finding), claim.title, expectation(claim))
    return (*declared, *numbers, verdict_text(one))


def verdict_text(one: Judged) -> str:
    word = f"**{one.verdict}**"
    word += f": {one.measured.reason}" if one.measured.reason else ""
    return word + (f", exploratory ({one.exploratory})" if one.exploratory else "")


def _p(value: float) -> str:
    return "<0.0001" if value < 1e-4 else f"{value:.4f}"


def _interval(summary: stats.Summary | None) -> str:
    if summary is None:
        return "-"
    if summary.low is None:
        return signed(summary.mean)
    return f"{signed(summary.mean)} [{signed(summary.low)}, {signed(summary.high)}]"


def _evidence(one: Judged) -> str:
    claim, m = one.claim, one.measured
    lines = [
        f"### `{claim.id}` (finding {claim.finding}): {claim.title}",
        "",
        f"- Contrast: {in_words(claim)}; expected {expectation(claim)} points",
        f"- Margin: {claim.why}",
        f"- Verdict: {verdict_text(one)}",
        f"- Mean [95 %]: {_interval(one.summary)} over {len(m.by_seed)} complete seeds; by seed: "
        + (", ".join(f"{seed}: {signed(value)}" for seed, value in m.by_seed.items()) or "none"),
    ]
    lines += _test_lines(one)
    lines += [f"- {line}" for line in _cell_lines(m.cells)]
    lines += [f"- Not usable: {', '.join(f'`{cell}`' for cell in m.bad)}"] if m.bad else []
    return "\n".join(lines)


def _test_lines(one: Judged) -> list[str]:
    if one.measured.reason:
        return []
    support = f"{_p(one.p_support)} (Holm {_p(one.holm_support)})"
    against = f"{_p(one.p_refute)} (Holm {_p(one.holm_refute)})"
    lines = [f"- One-sided p for: {support}; against: {against}"]
    if one.smallest is not None and one.verdict != SUPPORTED:
        lines.append(
            f"- Smallest distance from the threshold that these seeds find with power 0.8 at "
            f"Holm's first step: {number(one.smallest)} points"
        )
    return lines


def _cell_lines(paths: list[str]) -> list[str]:
    """The cells as sets of axis values; the list of paths is in claims.csv."""
    if not paths:
        return []
    axes = [Cell.from_path(path).axes for path in paths]
    sets = {axis: sorted({a[axis] for a in axes if a[axis] is not None}) for axis in AXES}
    named = (
        f"{axis} {{{', '.join(f'{v:g}' if axis == 'lambda' else f'{v}' for v in values)}}}"
        for axis, values in sets.items()
        if values
    )
    return [f"Cells: {len(paths)}, of {'; '.join(named)}"]


def _secondary_head() -> str:
    return (
        "## Secondary: effects per operator and data set\n\n"
        "Mean of the same contrasts with its 95 % t interval over seeds. Not corrected for their "
        "number and without verdicts: they show where an effect sits, and test nothing."
    )


def _secondary_table(one: Judged) -> str:
    units = one.measured.by_unit
    if not units:
        return ""
    labels = block_labels(sorted({unit.block for unit in units}))
    operators = list(dict.fromkeys(unit.operator for unit in units))
    rows = [
        (label, *(_effect(units, block, operator) for operator in operators))
        for block, label in labels.items()
    ]
    table = markdown_table(("Data set", *operators), rows)
    return f"`{one.claim.id}`: {in_words(one.claim)}\n\n{table}"


def _effect(units: dict[Unit, dict[int, float]], block: Any, operator: str) -> str:
    values = units.get(Unit(block, operator))
    return _interval(stats.summarise(list(values.values()))) if values else "-"
