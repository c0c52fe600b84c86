from __future__ import annotations

import math
import random

import pytest
from scipy import stats

from nsd_local.measure.confidence import mcnemar, median, quantile, wilson


@pytest.mark.parametrize(("k", "n"), [(0, 10), (10, 10), (3, 10), (82, 164), (1, 1), (900, 1319)])
def test_wilson_agrees_with_scipy(k: int, n: int) -> None:
    ours, theirs = wilson(k, n), stats.binomtest(k, n).proportion_ci(method="wilson")
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-12)
    assert ours.low <= ours.share <= ours.high


def test_wilson_of_nothing_says_nothing() -> None:
    nothing = wilson(0, 0)
    assert math.isnan(nothing.share)
    assert (nothing.low, nothing.high) == (0.0, 1.0)


def test_mcnemar_is_the_exact_binomial_test_on_the_differing_problems() -> None:
    rng = random.Random(4)
    for _ in range(50):
        first = [float(rng.random() < 0.6) for _ in range(40)]
        second = [float(rng.random() < 0.5) for _ in range(40)]
        paired = mcnemar(first, second)
        differing = paired.better + paired.worse
        assert paired.better - paired.worse == sum(first) - sum(second)
        expected = stats.binomtest(paired.better, differing).pvalue if differing else 1.0
        assert paired.p_value == pytest.approx(expected, abs=1e-12)


def test_mcnemar_counts_a_problem_once_however_many_seeds() -> None:
    paired = mcnemar([1.0, 0.5, 0.0], [0.5, 0.5, 0.25])
    assert (paired.better, paired.worse, paired.n) == (1, 1, 3)


def test_quantiles() -> None:
    assert [quantile([4, 1, 3, 2], share) for share in (0.0, 0.25, 0.5, 1.0)] == [1, 1.75, 2.5, 4]
    assert median([7.0]) == 7.0
    assert math.isnan(median([]))
