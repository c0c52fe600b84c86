"""Trail: a copy is taken up again behind what was changed in it."""

from __future__ import annotations

import numpy as np
import pytest

from nsd_local.drafting.lookup import Lookup
from nsd_local.drafting.trail import Trail
from nsd_local.sampling.law import Law

SOURCE = list(range(100, 160))
COPIED = SOURCE[:20]  # ends before the change


def drafted(lookup: Lookup, k: int) -> list[int]:
    return [int(token) for token in lookup.propose(k, Law(), np.random.default_rng(0)).tokens]


def copying(*changed: int, source: list[int] = SOURCE) -> Lookup:
    """A lookup whose text copied the beginning of `source`, then went on with `changed`."""
    lookup = Lookup()
    list(lookup.begin([*source, 1, 2, 3]))
    lookup.commit([*source[:20], *changed])
    return lookup


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ([7], SOURCE[21:25]),  # one token in place of another
        ([7, 8], SOURCE[22:26]),
        ([7, 8, 9, SOURCE[20]], SOURCE[21:25]),  # three tokens more
        ([SOURCE[25]], SOURCE[26:30]),  # five tokens less
        ([7, 8, SOURCE[23], SOURCE[24]], SOURCE[25:29]),  # two in place of three
    ],
)
def test_the_copy_goes_on_behind_a_change(changed: list[int], expected: list[int]) -> None:
    assert drafted(copying(*changed), 4) == expected


def test_the_nearest_place_is_taken_among_equals() -> None:
    source = [*SOURCE[:21], 50, 60, 61, 50, 70, 71, *SOURCE[30:]]
    assert drafted(copying(7, 50, source=source), 2) == [60, 61]


def test_what_was_said_elsewhere_does_not_lead_astray() -> None:
    """The tokens after the change also occur at the end of the text, where a search would find them first."""
    lookup = Lookup()
    list(lookup.begin([*SOURCE, 7, SOURCE[21], SOURCE[22], 900, 901]))
    lookup.commit([*COPIED, 7])
    lookup.commit([SOURCE[21]])
    assert drafted(lookup, 3) == SOURCE[22:25]


def test_a_copy_that_does_not_come_back_is_given_up() -> None:
    lookup = copying(*range(1_000, 1_000 + Trail.REACH))
    assert drafted(lookup, 1) != []
    lookup.commit([2_000])
    assert lookup.offers(4) == ()
    assert drafted(lookup, 4) == []


def test_short_copies_make_no_trail() -> None:
    lookup = Lookup()
    list(lookup.begin([*SOURCE, 1, 2, 3]))
    lookup.commit([*SOURCE[: Trail.ENOUGH - 1], 7])
    assert lookup.offers(4) == ()


def test_a_wrong_trail_loses_to_a_search_that_was_right() -> None:
    """Two places say the same for long; the text follows the one that the trail did not take."""
    other = [*COPIED, *range(500, 520)]
    lookup = Lookup()
    list(lookup.begin([*other, 1, *SOURCE, 2, 3]))
    lookup.commit([*COPIED, 500, 501, 502])
    assert drafted(lookup, 3) == [503, 504, 505]


def test_at_the_end_of_the_source_nothing_is_left_to_offer() -> None:
    lookup = Lookup()
    list(lookup.begin([1, 2, 3]))
    lookup.commit(SOURCE)
    list(lookup.begin([70, 71, *COPIED]))
    lookup.commit([*SOURCE[20:59], SOURCE[59]])
    assert lookup.offers(4) == ()


def test_another_text_forgets_the_trail() -> None:
    lookup = copying(7)
    list(lookup.begin([80, 81, 82]))
    assert lookup.offers(4) == ()


def test_it_agrees_with_a_fresh_lookup_on_random_text() -> None:
    """Whatever happened, an offer is as long as its draft, and offers are made only where there is a draft."""
    rng = np.random.default_rng(5)
    lookup = Lookup()
    list(lookup.begin(rng.integers(0, 6, 200).tolist()))
    for _ in range(2_000):
        offers = lookup.offers(16)
        tokens = drafted(lookup, 16)
        assert [offer.most for offer in offers] == ([len(tokens)] if tokens else [])
        lookup.commit([tokens[0] if tokens and rng.random() < 0.8 else int(rng.integers(0, 6))])


@pytest.mark.parametrize("period", range(1, 12))
def test_text_in_circles_is_foreseen(period: int) -> None:
    circle = list(range(100, 100 + period))
    lookup = Lookup()
    list(lookup.begin([1, 2, 3]))
    lookup.commit(circle * 6)
    for _ in range(3 * period):
        expected = [circle[i % period] for i in range(20)]
        assert drafted(lookup, 20) == expected
        lookup.commit(circle[:1])
        circle = [*circle[1:], circle[0]]
