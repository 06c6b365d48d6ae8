import pandas as pd
import pytest
from synthetic import make_study, more_grids, write_results

from linvit.errors import LinvitError
from linvit.study.aggregate import aggregate
from linvit.study.render import latex_table, markdown_table
from linvit.study.select import read_cells
from linvit.study.tables import TABLES, write_table

DIVERGED = "digits/micro/ttt/copy/none/fashion/seed2"


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    root, study = tmp_path_factory.mktemp("study"), make_study(grids=more_grids())
    write_results(study, root, diverged=(DIVERGED,))
    aggregate(study, root)
    return read_cells(root / "cells.csv")


def write(name, cells, folder):
    write_table(name, cells, folder / name)
    numbers = pd.read_csv(folder / f"{name}.csv")
    return numbers, (folder / f"{name}.md").read_text(), (folder / f"{name}.tex").read_text()


def row(markdown, *labels):
    """The entries of the one row that starts with these labels."""
    start = "| " + " | ".join(labels) + " |"
    (line,) = (line for line in markdown.splitlines() if line.startswith(start))
    return [cell.strip() for cell in line.removeprefix(start).strip("|").split("|")]


def test_main_has_every_arm_and_the_references(cells, tmp_path):
    numbers, markdown, _ = write("main", cells, tmp_path)
    arms = numbers[["operator", "init", "distill"]].drop_duplicates()
    assert len(arms) == 2 + 2 * 4 * 2
    assert "mlpcopy_strict" not in set(numbers["init"])
    clothes, digits = row(markdown, "softmax", "fullcopy", "none")
    test = cells[(cells["operator"] == "softmax") & (cells["init"] == "fullcopy")]
    for text, dataset in ((clothes, "clothes"), (digits, "digits")):
        mean = test[test["dataset"] == dataset]["test_top1"].mean()
        assert text.startswith(f"{mean:.2f} ± ")


def test_diverged_cells_are_shown_not_dropped(cells, tmp_path):
    numbers, markdown, latex = write("main", cells, tmp_path)
    assert row(markdown, "ttt", "copy", "none")[1].endswith("(diverged 1/5)")
    assert "(diverged 1/5)" in latex
    lost = numbers[numbers["diverged"] > 0]
    assert lost[["n", "diverged", "of"]].to_numpy().tolist() == [[4, 1, 5]]


def test_an_arm_that_diverged_altogether(cells, tmp_path):
    gone = cells["path"].str.startswith("digits/micro/ttt/copy/none")
    changed = cells.assign(
        status=cells["status"].mask(gone, "diverged"), test_top1=cells["test_top1"].mask(gone)
    )
    _, markdown, _ = write("main", changed, tmp_path)
    assert row(markdown, "ttt", "copy", "none")[1] == "diverged 5/5"


def test_attention_only_differences_are_paired(cells, tmp_path):
    numbers, markdown, _ = write("attention_only", cells, tmp_path)
    row_ = numbers[(numbers["dataset"] == "digits") & (numbers["operator"] == "relu")]
    by_entry = row_.set_index("entry")
    assert by_entry.loc["copy - random", "mean"] == pytest.approx(
        by_entry.loc["copy", "mean"] - by_entry.loc["random", "mean"]
    )
    assert by_entry.loc["copy - random", "sd"] < by_entry.loc["copy", "sd"] / 2
    assert row(markdown, "digits", "ttt")[2].endswith("(diverged 1/5)")
    assert "differences are paired by seed" in markdown


def test_strict_says_over_how_many_seeds(cells, tmp_path):
    numbers, markdown, _ = write("strict", cells, tmp_path)
    random, strict, main, gain, rest = row(markdown, "digits", "relu")
    assert strict.endswith(", n = 3")
    assert gain.endswith(", n = 3")
    assert rest.endswith(", n = 3")
    assert "n =" not in random + main
    assert set(numbers["distill"]) == {"none"}


def test_lambda_compares_the_same_seeds_and_marks_the_chosen(cells, tmp_path):
    numbers, markdown, _ = write("lambda", cells, tmp_path)
    assert set(numbers["n"]) == {3}
    assert set(numbers["lambda"]) == {1, 10, 50, 250}
    assert row(markdown, "digits", "relu", "random", "10")[0] == "yes"
    assert row(markdown, "clothes", "relu", "random", "10")[0] == ""


@pytest.mark.parametrize("name", ["attention_only", "strict", "lambda"])
def test_a_study_without_the_cells_gets_a_table_that_says_so(cells, tmp_path, name):
    some = cells[cells["init"].isin(["mlpcopy", "fullcopy"])]
    some = some[(some["distill"] == "none") | (some["lambda"] == some["chosen_lambda"])]
    numbers, markdown, latex = write(name, some, tmp_path)
    assert len(numbers) == 0
    assert "Not in this study" in markdown
    assert "sub-grid" in markdown
    assert "Not in this study" in latex


def test_several_sizes_and_sources_become_columns(cells, tmp_path):
    both = pd.concat([cells, cells.assign(size="tiny")])
    _, markdown, _ = write("main", both, tmp_path)
    assert "| size | operator | init | distill |" in markdown
    assert row(markdown, "tiny", "relu", "mlpcopy", "output")


@pytest.mark.parametrize("name", TABLES)
def test_same_cells_same_bytes(cells, tmp_path, name):
    write(name, cells, tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    write(name, cells, tmp_path)
    assert before == {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) == 3


def test_unknown_table(cells, tmp_path):
    with pytest.raises(LinvitError, match="there are main"):
        write_table("other", cells, tmp_path / "other")


def test_text_is_escaped():
    assert markdown_table(["a|b"], [["1"]]).startswith(r"| a\|b |")
    latex = latex_table(["mlp_x", "50 %"], [["a", "1 ± 2"], ["b", "3"]], 1)
    assert r"mlp\_x & 50 \% \\" in latex
    assert r"1 $\pm$ 2" in latex
    assert latex.count(r"\midrule") == 2
