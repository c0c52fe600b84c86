"""Shaped laws against a float64 full-sort oracle, and draws that can never fail."""

from __future__ import annotations

import os

import numpy as np
import pytest
from scipy import stats

from nsd_local.errors import DecodeError
from nsd_local.sampling import Law, Shape
from tests.verification import oracle

# Without the compiler a row of 600 (two blocks) takes as long as one of 20,000 with it.
COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "1"
LARGE = 20_000 if COMPILED else 600

LAWS = [
    Law(),
    Law(0.2),
    Law(1.7),
    Law(0.7, min_p=0.05),
    Law(0.7, top_k=1),
    Law(0.7, top_k=7),
    Law(1.3, top_p=0.8),
    Law(0.6, top_k=5, top_p=0.9, min_p=0.02),
    Law(1.0, top_p=1e-9),
    Law(1.0, min_p=1.0),
    Law(0.0),
    Law(1e-8),
    Law(1e30),
]


def settings(law: Law) -> dict[str, float]:
    return {"temperature": law.temperature, "top_k": law.top_k, "top_p": law.top_p, "min_p": law.min_p}


def random_row(n: int, seed: int, kind: str) -> np.ndarray:
    """(n,) float32: plain, full of ties, partly masked, or nearly flat."""
    rng = np.random.default_rng(seed)
    row = rng.normal(0.0, 3.0, n)
    if kind == "ties":
        row = np.round(row)
    if kind == "masked":
        row[rng.random(n) < 0.6] = -np.inf
        row[rng.integers(n)] = 1.0
    if kind == "flat":
        row = rng.normal(0.0, 0.01, n)
    return row.astype(np.float32)


def take(row: np.ndarray, law: Law, **options: bool) -> Shape:
    shape = Shape(len(row))
    shape.take(row, law, **options)
    return shape


@pytest.mark.parametrize("kind", ["plain", "ties", "masked", "flat"])
@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_law_is_the_oracles(law: Law, kind: str) -> None:
    for n in (1, 2, 5, 33, 513, 1030):
        row = random_row(n, n, kind)
        shape = take(row, law, entropy=True)
        expected = oracle.shaped(row, **settings(law))
        np.testing.assert_allclose(shape.law(), expected, atol=1e-6)
        # the support must agree token for token wherever float32 can hold the probability
        assert np.array_equal(shape.law() > 0.0, expected > 0.0) or expected[expected > 0.0].min() < 1e-36
        positive = expected[expected > 0.0]
        assert shape.entropy == pytest.approx(-(positive * np.log(positive)).sum(), abs=2e-5)


@pytest.mark.parametrize("kind", ["plain", "ties", "masked", "flat"])
@pytest.mark.parametrize("theta", [0.0, 0.3, 0.9, 0.999, 1.0])
def test_nucleus_is_the_oracles(theta: float, kind: str) -> None:
    for n in (1, 5, 40, 600, LARGE):
        row = random_row(n, n, kind)
        shape = take(row, Law())
        cut, cut_id = shape.nucleus(theta)
        found = (row > cut) | ((row == np.float32(cut)) & (np.arange(n) <= cut_id))
        p = oracle.shaped(row)
        expected = oracle.nucleus(p, row, theta)
        # float32 sums may move the crossing by a token; the masses then differ by less than 1e-6
        assert abs(p[found].sum() - p[expected].sum()) < 1e-6 + p[found != expected].max(initial=0.0)
        assert (found != expected).sum() <= 2 or theta == 1.0
        if n <= 40:
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("top_k", [1, 2, 40, 599])
def test_top_k_of_a_long_row_keeps_exactly_k(top_k: int) -> None:
    for kind in ("plain", "ties", "flat"):
        row = random_row(LARGE, 3, kind)
        kept = take(row, Law(top_k=top_k)).law() > 0.0
        best = sorted(range(LARGE), key=lambda token: (-row[token], token))[:top_k]
        assert sorted(np.nonzero(kept)[0]) == sorted(best)


def test_rank_counts_the_tokens_before() -> None:
    row = random_row(700, 5, "ties")
    shape = take(row, Law(0.7, min_p=0.1))
    order = oracle.ranking(row)
    assert [shape.rank(token) for token in order] == list(range(1, 701))


def test_top_is_the_first_maximum() -> None:
    row = np.array([0.0, -0.0, 3.0, 3.0, -np.inf], np.float32)
    assert take(row, Law()).top == 2
    zeros = np.array([-0.0, 0.0, -0.0], np.float32)  # equal as numbers: the lower id wins
    assert take(zeros, Law(0.0)).draw(0.5) == 0


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_draws_are_inverse_cdf_and_never_impossible(law: Law) -> None:
    for kind in ("plain", "ties", "masked"):
        row = random_row(600, 11, kind)
        shape = take(row, law)
        p = oracle.shaped(row, **settings(law))
        total = np.cumsum(p)
        for u in [0.0, 5e-324, 1e-9, *np.linspace(0.01, 0.99, 23), 1.0 - 2.0**-53]:
            token = shape.draw(float(u))
            assert shape.probability(token) > 0.0
            assert total[token] - p[token] - 1e-6 <= u <= total[token] + 1e-6


def test_draws_follow_the_law() -> None:
    """Chi-square over 40,000 draws; false alarm with probability 1e-6."""
    row = random_row(700, 2, "plain")
    law = Law(1.2, top_k=15)
    shape = take(row, law)
    rng = np.random.default_rng(4)
    count = 40_000 if COMPILED else 4_000
    counts = np.bincount([shape.draw(u) for u in rng.random(count)], minlength=700)
    p = oracle.shaped(row, **settings(law))
    assert counts[p == 0.0].sum() == 0
    seen = p > 0.0
    assert (p[seen] * count).min() > 5.0, "enough of each for the test to hold"
    assert stats.chisquare(counts[seen], p[seen] * count).pvalue > 1e-6


def test_draw_without_a_token() -> None:
    row = np.array([2.0, 30.0, 2.0, -np.inf], np.float32)  # the token left out holds all but 1e-12 of the mass
    shape = take(row, Law())
    assert [shape.draw(u, without=1) for u in (0.0, 0.49, 0.51, 0.9999)] == [0, 0, 2, 2]
    assert take(row, Law(0.0)).draw(0.3, without=1) == -1


def test_row_may_be_a_read_only_or_strided_view() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 40)).astype(np.float32)
    locked = rows.copy()
    locked.flags.writeable = False
    expected = take(rows[1], Law()).law()
    assert np.array_equal(take(locked[1], Law()).law(), expected)
    assert np.array_equal(take(np.asfortranarray(rows)[1], Law()).law(), expected)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [(np.nan, "NaN"), (-np.nan, "NaN"), (np.inf, "plus infinity")],
)
def test_broken_rows_are_refused(bad: float, reason: str) -> None:
    row = np.zeros(600, np.float32)
    row[577] = bad
    for law in (Law(), Law(0.0), Law(top_k=2)):
        with pytest.raises(DecodeError, match=reason):
            take(row, law)


def test_a_row_without_possible_tokens_is_refused() -> None:
    with pytest.raises(DecodeError, match="no token is possible"):
        take(np.full(5, -np.inf, np.float32), Law())


def test_sharp_law_is_a_point_mass() -> None:
    row = np.array([1.0, 2.0, 1.999], np.float32)
    assert take(row, Law(1e-6)).law().tolist() == [0.0, 1.0, 0.0]
