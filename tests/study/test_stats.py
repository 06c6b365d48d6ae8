import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from linvit.study import stats

VALUES = [1.2, 0.4, 2.3, 1.1, 0.7]
finite = st.floats(-50, 50)


def test_interval_is_that_of_scipy():
    s = stats.summarise(VALUES)
    interval = scipy_stats.ttest_1samp(VALUES, 0).confidence_interval(0.95)
    assert (s.low, s.high) == pytest.approx((interval.low, interval.high))
    assert (s.n, s.mean, s.sd) == pytest.approx((5, np.mean(VALUES), np.std(VALUES, ddof=1)))


def test_one_value_has_a_mean_and_no_interval():
    s = stats.summarise([3.0])
    assert (s.mean, s.sd, s.low, s.high, s.half_width) == (3.0, None, None, None, None)
    assert stats.p_above([3.0], 0) == 1.0


@pytest.mark.parametrize("values", [[], [1.0, float("nan")], [float("inf")]])
def test_no_values_and_no_nan(values):
    with pytest.raises(ValueError, match="finite"):
        stats.summarise(values)


@pytest.mark.parametrize("threshold", [-1.0, 0.0, 0.5, 2.0])
def test_one_sided_p_is_that_of_scipy(threshold):
    for alternative, p in (("greater", stats.p_above), ("less", stats.p_below)):
        expected = scipy_stats.ttest_1samp(VALUES, threshold, alternative=alternative).pvalue
        assert p(VALUES, threshold) == pytest.approx(expected)


def test_equal_values_are_certain():
    assert stats.p_above([1.0, 1.0], 0.5) == 0.0
    assert stats.p_above([1.0, 1.0], 1.0) == 1.0


def test_tost_by_hand():
    values = [-0.5, 0.5, 0.1, -0.1]  # mean 0, so both tests have one p
    t = 2.0 / (np.std(values, ddof=1) / 2)
    assert stats.p_equivalent(values, 2.0) == pytest.approx(scipy_stats.t.sf(t, 3))
    assert stats.p_equivalent([3.0, 3.1, 2.9], 2.0) > 0.95
    assert stats.p_beyond([3.0, 3.1, 2.9], 2.0) < 0.01
    assert stats.p_beyond([-3.0, -3.1, -2.9], 2.0) < 0.01


def test_wide_noise_is_no_equivalence():
    assert stats.p_equivalent([-6.0, 5.0, 4.0, -3.0], 2.0) > 0.05


def test_pairing_takes_out_what_seeds_share():
    rng = np.random.default_rng(0)
    seed_effect, n = 5 * rng.normal(size=8), range(8)
    a = {i: 61 + seed_effect[i] + 0.3 * rng.normal() for i in n}
    b = {i: 60 + seed_effect[i] + 0.3 * rng.normal() for i in n}
    paired = stats.paired_difference(a, b)
    unpaired = [x - y for x, y in zip(a.values(), reversed(b.values()), strict=True)]
    assert np.std(paired) < np.std(unpaired) / 5
    assert stats.p_above(paired, 0) < 0.01 < stats.p_above(unpaired, 0)


def test_pairs_are_matched_by_seed():
    assert stats.paired_difference({2: 5.0, 0: 1.0, 7: 9.0}, {0: 0.5, 2: 1.0}) == [0.5, 4.0]


def test_holm_by_hand():
    # sorted: .005 * 4 = .02, .01 * 3 = .03, .03 * 2 = .06, .04 * 1 = .04 raised to .06
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_holm_lies_between_raw_and_bonferroni(p):
    adjusted = stats.holm(p)
    for raw, value in zip(p, adjusted, strict=True):
        assert raw <= value <= min(1.0, len(p) * raw)


@pytest.mark.parametrize(("n", "alpha"), [(3, 0.05), (5, 0.05), (5, 0.05 / 7), (20, 0.01)])
def test_smallest_effect_is_found_four_times_in_five(n, alpha):
    effect = stats.smallest_effect(n, 1.5, alpha)
    draws = effect + 1.5 * np.random.default_rng(1).normal(size=(20_000, n))
    t = draws.mean(1) / (draws.std(1, ddof=1) / np.sqrt(n))
    assert (t > scipy_stats.t.ppf(1 - alpha, n - 1)).mean() == pytest.approx(0.8, abs=0.015)


def test_smallest_effect_shrinks_with_seeds_and_needs_two():
    assert stats.smallest_effect(1, 1.0) is None
    effects = [stats.smallest_effect(n, 1.0) for n in (2, 3, 5, 10, 50)]
    assert effects == sorted(effects, reverse=True)


@given(st.lists(st.tuples(finite, finite, finite), min_size=2, max_size=6))
def test_within_seeds_keeps_means_and_forgets_seeds(rows):
    values = np.array(rows)
    shifted = values + np.arange(len(rows))[:, None]
    within = stats.within_seeds(values)
    assert np.allclose(within.mean(0), values.mean(0))
    assert np.allclose(within.std(0), stats.within_seeds(shifted).std(0), atol=1e-9)
