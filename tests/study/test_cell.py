import pytest
from hypothesis import given
from hypothesis import strategies as st

from linvit.catalog import DISTILLS, INITS, OPERATORS
from linvit.errors import LinvitError
from linvit.study.cell import AXES, Cell, is_weight, takes_from_source

names = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,20}", fullmatch=True).filter("scratch".__ne__)
weights = st.floats(1e-6, 1e9).map(lambda x: float(f"{x:g}"))
axes = st.fixed_dictionaries(
    {
        "operator": st.sampled_from(list(OPERATORS)),
        "size": names,
        "dataset": names,
        "init": st.sampled_from(list(INITS)),
        "distill": st.sampled_from(list(DISTILLS)),
        "lambda": weights,
        "source": names,
        "seed": st.integers(0, 2**32 - 1),
    }
)
cells = axes.map(Cell.from_axes)


@given(cells)
def test_path_and_axes_name_exactly_one_cell(cell):
    assert Cell.from_path(cell.path) == cell
    assert Cell.from_axes(cell.axes) == cell
    assert tuple(cell.axes) == AXES


@given(cells)
def test_canonical_form_holds_only_what_the_cell_uses(cell):
    assert (cell.lam is None) == (cell.distill == "none")
    assert (cell.source is None) == (not takes_from_source(cell.init, cell.distill))


@given(st.lists(cells, max_size=8), st.randoms())
def test_order_is_total_and_independent_of_the_input(some, random):
    shuffled = some.copy()
    random.shuffle(shuffled)
    assert sorted(some) == sorted(shuffled)


@given(cells, cells)
def test_two_cells_share_a_path_only_when_equal(a, b):
    assert (a.path == b.path) == (a == b)


def test_path_is_readable():
    cell = Cell("mnist-200", "micro", "relu", "mlpcopy", "output", 10, "fashion", 0)
    assert cell.path == "mnist-200/micro/relu/mlpcopy/output-10/fashion/seed0"
    scratch = Cell("mnist-200", "micro", "relu", "random", "none", None, None, 3)
    assert scratch.path == "mnist-200/micro/relu/random/none/scratch/seed3"


def test_whole_and_decimal_weights_are_one_cell():
    whole = Cell("d", "s", "relu", "copy", "output", 10, "f", 0)
    assert repr(whole.axes["lambda"]) == "10.0"


GOOD = "mnist-200/micro/relu/mlpcopy/output-10/fashion/seed0"


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("relu", "rellu", "'rellu' is not known as operator; allowed: softmax"),
        ("mlpcopy", "steal", "'steal' is not known as init"),
        ("output-10", "map-10", "'map' is not known as distill"),
        ("output-10", "output", "needs a lambda > 0"),
        ("output-10", "output-0", "needs a lambda > 0"),
        ("output-10", "output--1", "needs a lambda > 0"),
        ("output-10", "output-nan", "needs a lambda > 0"),
        ("output-10", "output-inf", "needs a lambda > 0"),
        ("output-10", "output-1.0000001", "at most six digits"),
        ("output-10", "output-10.0", f"did you mean {GOOD!r}"),
        ("output-10", "output-1_0", f"did you mean {GOOD!r}"),
        ("output-10", "output-ten", "expected dataset/size"),
        ("output-10", "none-10", "without distillation"),
        ("/fashion/", "/scratch/", "needs a source"),
        ("mlpcopy/output-10", "random/none", "takes nothing"),
        ("seed0", "seed00", f"did you mean {GOOD!r}"),
        ("seed0", "seed-1", "seed -1"),
        ("seed0", "seed", "expected dataset/size"),
        ("seed0", "0", f"did you mean {GOOD!r}"),
        ("seed0", "seed0/", "expected dataset/size"),
        ("mnist-200", "..", "'..' is not a name"),
        ("mnist-200", "", "'' is not a name"),
        ("mnist-200", "$(rm)", "is not a name"),
        ("mnist-200", "Mnist", "is not a name"),
        ("fashion", "Fashion\n", "is not a name"),
        (GOOD, "", "expected dataset/size"),
    ],
)
def test_from_path_refuses_everything_else(old, new, says):
    with pytest.raises(LinvitError) as caught:
        Cell.from_path(GOOD.replace(old, new, 1))
    assert says in str(caught.value)


def test_axes_must_be_complete():
    with pytest.raises(LinvitError, match="a cell has the axes operator, size"):
        Cell.from_axes({"operator": "relu"})


def test_no_source_can_be_called_scratch():
    with pytest.raises(LinvitError, match="cannot be called 'scratch'"):
        Cell("d", "s", "relu", "copy", "none", None, "scratch", 0)


@pytest.mark.parametrize("lam", [True, 0, -1, float("nan"), float("inf"), "10", None, 1.0000001])
def test_weights_that_cannot_weigh_or_be_written(lam):
    assert not is_weight(lam)
