"""The sentence and the table that a person gets."""

from __future__ import annotations

import json

import pytest

from nsd_local.decoding.breakeven import break_even, expected_tokens
from nsd_local.decoding.costs import Costs, Curve
from nsd_local.measure.advice import Advice, advise, table
from nsd_local.measure.trace import Trace
from nsd_local.verification.rule import Exact
from tests.decoding.test_adaptive import CHEAP, DEAR

TRACES = [Trace(50, (0.25,) * 200, {})]


def advice(costs: Costs, traces: list[Trace]) -> Advice:
    return advise(costs, traces, Exact(), target="target", draft="the 0.5B")


def test_a_pair_that_wins() -> None:
    found = advice(CHEAP, TRACES)
    assert found.best.k in (2, 3, 4)
    assert found.best.gain > 1.3
    assert found.verdict == (
        f"On this machine the target verifies {found.best.k + 1} tokens for the price of "
        f"{CHEAP.verify(found.best.k + 1, 0) / CHEAP.verify(1, 0):.1f} and keeps 75% of the 0.5B's drafts, "
        f"so drafting {found.best.k} gives {found.best.gain:.2f} times plain decoding."
    )


def test_a_pair_that_loses_while_lookup_pays() -> None:
    found = advice(DEAR, TRACES)
    assert found.best.k == 0
    assert found.best.gain == 1.0
    assert found.verdict.startswith(
        "On this machine the target verifies 4 tokens for the price of 2.9 and keeps 75% of drafts, "
        "so drafting with the 0.5B loses; prompt lookup still gives up to 1."
    )


def test_where_nothing_pays() -> None:
    linear = Costs((Curve(0, {n: 0.1 * n for n in range(1, 9)}, {1: 0.05}),))
    assert advice(linear, TRACES).verdict.endswith("loses; not even prompt lookup pays.")


def test_without_measured_acceptance_it_says_what_would_be_needed() -> None:
    needed = advice(CHEAP, [])
    assert needed.rows == ()
    assert needed.needed is not None
    assert f"pays if more than {needed.needed:.0%} of its drafts are kept" in needed.verdict
    assert "loses even if nearly all drafts are kept" in advice(DEAR, []).verdict


def test_the_table_marks_the_best_row() -> None:
    found = advice(CHEAP, TRACES)
    rows = table(found)
    assert [row[0] for row in rows if row[-1] == "best"] == [str(found.best.k)]
    assert rows[-1][-1] == "lookup, repeats"


def test_it_survives_json() -> None:
    found = advice(CHEAP, TRACES)
    assert Advice.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_break_even_is_where_both_are_equally_fast() -> None:
    rounds = {k: CHEAP.round(k, 0) for k in range(1, 9)}
    needed = break_even(rounds, CHEAP.round(0, 0))
    assert needed is not None
    best = max(expected_tokens(needed, k) / seconds for k, seconds in rounds.items())
    assert best == pytest.approx(1.0 / CHEAP.round(0, 0), rel=0.01)
    assert break_even({1: 2.1}, 1.0) is None
    assert expected_tokens(1.0, 4) == 5.0
