"""Text of numbers and of tables: Markdown and booktabs LaTeX."""

from collections.abc import Iterable, Sequence

_LATEX = {"&": r"\&", "%": r"\%", "_": r"\_", "#": r"\#", "±": r"$\pm$"}


def number(value: float) -> str:
    """Two decimals; accuracies and their differences carry no more."""
    return f"{value:.2f}"


def signed(value: float, style: str = "+.2f") -> str:
    return f"{value:{style}}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_bar(cell) for cell in line) + " |" for line in lines)


def _bar(cell: str) -> str:
    return cell.replace("|", r"\|")


def latex_table(head: Sequence[str], rows: Sequence[Sequence[str]], text_columns: int) -> str:
    r"""A booktabs `tabular`; a \midrule wherever the first column changes.

    text_columns: how many columns are left-aligned, the rest is right-aligned.
    """
    layout = "l" * text_columns + "r" * (len(head) - text_columns)
    lines = [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", _latex_row(head), r"\midrule"]
    for index, row in enumerate(rows):
        if index and row[0] != rows[index - 1][0]:
            lines.append(r"\midrule")
        lines.append(_latex_row(row))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_escape(cell) for cell in cells) + r" \\"


def _escape(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
