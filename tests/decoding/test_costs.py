"""Cost curves: measured points stay as they are."""

from __future__ import annotations

import json

import pytest

from nsd_local.decoding.costs import Costs, Curve
from nsd_local.errors import UsageError

SHORT = Curve(0, {1: 1.0, 2: 1.1, 4: 2.0, 8: 1.9}, {1: 0.2, 4: 0.4})
LONG = Curve(1_000, {1: 1.5, 2: 1.7, 4: 3.0, 8: 2.9}, {1: 0.3, 4: 0.6})
COSTS = Costs((SHORT, LONG), overhead=(0.01, 0.002), note="made up")


def test_measured_points_are_returned_as_measured() -> None:
    assert [COSTS.verify(n, 0) for n in (1, 2, 4, 8)] == [1.0, 1.1, 2.0, 1.9], "8 may cost less than 4"
    assert COSTS.draft(4, 0) == 0.4


def test_between_contexts_it_interpolates_and_outside_it_holds() -> None:
    assert COSTS.verify(1, 500) == pytest.approx(1.25)
    assert COSTS.verify(1, 10**6) == 1.5


def test_across_n_it_takes_the_next_larger_measured_point() -> None:
    assert COSTS.verify(3, 0) == 2.0
    assert COSTS.verify(5, 0) == 1.9
    assert COSTS.verify(16, 0) == pytest.approx(3.8), "past the last point in proportion"


def test_a_round_is_drafting_verifying_and_the_rest() -> None:
    assert COSTS.round(0, 0) == pytest.approx(1.01)
    assert COSTS.round(3, 0) == pytest.approx(3 * 0.2 + 2.0 + 0.01 + 3 * 0.002)
    assert COSTS.round(3, 0, pending=4) == pytest.approx(0.4 + 2 * 0.2 + 2.0 + 0.01 + 3 * 0.002)
    assert COSTS.round(3, 0, source="ngram") == pytest.approx(2.0 + 0.01 + 3 * 0.002), "lookup drafts cost nothing"


def test_json_keeps_everything() -> None:
    assert Costs.from_dict(json.loads(json.dumps(COSTS.to_dict()))) == COSTS


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"curves": []},
        {"curves": [{"context": 0, "verify": {"2": 1.0}}]},
        {"curves": [{"context": 0, "verify": {"1": -1.0}}]},
        {"curves": [{"context": 0, "verify": {"1": float("nan")}}]},
        {"curves": [{"context": 0, "verify": [1.0]}]},
        {"curves": [{"context": 9, "verify": {"1": 1.0}}, {"context": 3, "verify": {"1": 1.0}}]},
    ],
)
def test_what_is_not_a_cost_curve_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Costs.from_dict(data)
