from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import small_study

from linvit.errors import LinvitError
from linvit.study.cell import Cell
from linvit.study.config import load_study
from linvit.study.packs import packs

OPERATORS = ["softmax", "elu", "relu", "inline", "mhla", "ttt"]
INITS = ["random", "copy", "mlpcopy", "fullcopy"]


def study_with(**changes):
    settings_ = {"grids__components__operator": OPERATORS, "grids__components__init": INITS}
    return load_study(small_study(**settings_ | changes))


sizes = st.integers(1, 60)
seeds = st.lists(st.integers(0, 20), min_size=1, max_size=4, unique=True)


@settings(max_examples=30, deadline=None)
@given(sizes, seeds, st.randoms())
def test_every_cell_is_in_one_pack_whatever_the_order(size, some_seeds, random):
    study = study_with(seeds=some_seeds)
    cells = list(study.cells())
    made = packs(study, cells, size)
    assert Counter(cell for pack in made for cell in pack.cells) == Counter(cells)
    random.shuffle(cells)
    assert packs(study, cells, size) == made
    assert len({pack.name for pack in made}) == len(made)


@settings(max_examples=30, deadline=None)
@given(sizes)
def test_a_pack_shares_data_size_seed_and_source(size):
    study = study_with()
    for pack in packs(study, study.cells(), size):
        assert 1 <= len(pack.cells) <= size
        assert {(c.dataset, c.size, c.seed, c.source) for c in pack.cells} == {
            (pack.dataset, c.size, c.seed, pack.sources[0] if pack.sources else None)
            for c in pack.cells[:1]
        }


@settings(max_examples=30, deadline=None)
@given(sizes, seeds, st.integers(21, 30))
def test_an_added_seed_leaves_the_other_packs_as_they_were(size, some_seeds, new):
    few, more = study_with(seeds=some_seeds), study_with(seeds=[new, *some_seeds])
    before, after = packs(few, few.cells(), size), packs(more, more.cells(), size)
    assert set(before) < set(after)
    assert all(cell.seed == new for pack in set(after) - set(before) for cell in pack.cells)


@settings(max_examples=20, deadline=None)
@given(sizes)
def test_packs_of_a_group_are_even(size):
    study = study_with(seeds=[0])
    by_group = {}
    for pack in packs(study, study.cells(), size):
        by_group.setdefault((pack.dataset, pack.sources), []).append(len(pack.cells))
    for lengths in by_group.values():
        assert max(lengths) - min(lengths) <= 1
        assert len(lengths) == -(-sum(lengths) // size)


def test_seventeen_cells_at_sixteen_make_nine_and_eight():
    study = study_with()
    group = [c for c in study.cells() if c.seed == 0 and c.source == "fashion"][:17]
    assert [len(pack.cells) for pack in packs(study, group, 16)] == [9, 8]


def test_names_are_readable_and_sources_declared():
    study = load_study(small_study(seeds=[0]))
    made = {pack.name: pack.sources for pack in packs(study, study.cells(), 16)}
    assert made == {
        "fashion-500-wide-seed0-scratch-01": (),
        "mnist-200-micro-seed0-scratch-01": (),
        "mnist-200-micro-seed0-fashion-01": ("fashion",),
    }


def test_as_few_packs_as_possible_have_a_teacher():
    study = study_with(seeds=[0])
    made = [pack for pack in packs(study, study.cells(), 8) if pack.sources]
    mixed = [pack for pack in made if len({cell.distill for cell in pack.cells}) == 2]
    assert len(mixed) <= 1


def test_a_subset_packs_only_itself():
    study = study_with()
    cells = study.cells()[:3]
    assert {c for pack in packs(study, cells, 16) for c in pack.cells} == set(cells)
    assert packs(study, [], 16) == []


def test_bad_requests():
    study = study_with()
    with pytest.raises(LinvitError, match="at least 1 cell, not 0"):
        packs(study, study.cells(), 0)
    foreign = Cell.from_path("mnist-200/micro/relu/random/none/scratch/seed9")
    with pytest.raises(LinvitError, match="seed9 is not a cell of the study small"):
        packs(study, [foreign], 4)


def test_names_that_would_be_equal_are_refused():
    data = small_study()
    data["datasets"] |= {"a": data["datasets"]["mnist-200"], "a-b": data["datasets"]["mnist-200"]}
    data["sizes"] |= {"b-micro": data["sizes"]["micro"]}
    data["grids"]["components"] |= {"dataset": ["a", "a-b"], "size": ["micro", "b-micro"]}
    study = load_study(data)
    with pytest.raises(LinvitError, match=r"share the pack name a-b-micro-seed0.*rename"):
        packs(study, study.cells(), 16)
