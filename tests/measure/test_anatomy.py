from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from nsd_local.errors import Cancelled
from nsd_local.measure.anatomy import COLUMNS, Anatomist, dissect
from nsd_local.measure.arms import parse_arm, parse_arms
from nsd_local.measure.campaign import KEY, Campaign, run_all
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.runner import run
from nsd_local.measure.setup import draft_context
from nsd_local.sampling import Law

LAW = Law(temperature=0.9, top_k=40)


def test_positions_are_what_the_loop_saw(engine: Engine, short: Settings) -> None:
    """p, q, rank and outcome of every kept draft as recorded; the rank of every rejected one too."""
    settings = replace(short, law=LAW, max_tokens=40)
    draft = draft_context(engine)
    assert draft is not None
    finished = run(engine, parse_arm("nucleus:theta=0.8", settings), Prompt("chat", "a", "Hello there"), 3)
    assert finished.result is not None
    rounds = finished.result.rounds
    columns = dissect(engine.decoder.target, draft, finished.tokens, rounds, LAW)
    assert set(columns) == set(COLUMNS)
    place = 0
    outcomes = set()
    for one in rounds:
        for i in range(len(one.divergence)):
            at = {name: columns[name][place] for name in COLUMNS}
            assert at["position"] == i
            outcomes.add(at["outcome"])
            if i < one.accepted and i < len(one.tokens):
                token = one.tokens[i]
                assert at["outcome"] == token.kind
                assert at["p"] == pytest.approx(token.p, abs=1e-3)
                assert at["q"] == pytest.approx(token.q, abs=1e-3)
                assert at["rank"] == token.target_rank
            elif i >= one.accepted:
                assert at["outcome"] == "rejected"
                assert at["rank"] == one.rejected_rank
                assert (at["ahead"] < 0.8) == one.rejected_in_nucleus
            assert 0.0 <= at["ahead"] <= 1.0 + 1e-9
            place += 1
    assert place == len(columns["p"])
    assert outcomes == {"ratio", "nucleus", "rejected"}


def test_entropies_are_those_of_the_laws(engine: Engine, short: Settings) -> None:
    draft = draft_context(engine)
    assert draft is not None
    finished = run(engine, parse_arm("exact", replace(short, law=Law())), Prompt("chat", "a", "Hello"), 1)
    assert finished.result is not None
    first = finished.result.rounds[0]
    columns = dissect(engine.decoder.target, draft, finished.tokens, [first], Law())
    for context, name in ((engine.decoder.target, "entropy_p"), (draft, "entropy_q")):
        context.clear()
        logits = context.evaluate(list(finished.tokens), rows=1)[0].astype(np.float64)
        law = np.exp(logits - logits.max())
        law /= law.sum()
        entropy = -float((law * np.log(np.maximum(law, 1e-300))).sum())
        assert columns[name][0] == pytest.approx(entropy, abs=1e-3)
        if name == "entropy_p":
            x = first.drafted[0]
            assert columns["ahead"][0] == pytest.approx(float(law[law > law[x]].sum()), abs=1e-3)


def test_only_drafts_of_a_model_are_dissected(engine: Engine, short: Settings, tmp_path: Path) -> None:
    with Journal(tmp_path / "positions.jsonl", {"format": "x"}, KEY) as journal:
        arms = parse_arms(["plain", "bare", "match", "exact"], short)
        campaign = Campaign(arms, [Prompt("chat", "a", "Hello")], extras=(Anatomist(engine, journal),))
        rows = list(run_all(engine, campaign))
        assert all(row["error"] is None for row in rows)
        (record,) = journal.records
    assert record["arm"] == "exact"
    assert len({len(record[name]) for name in COLUMNS}) == 1
    assert all(math.isfinite(value) for value in record["entropy_p"])


def test_recorded_runs_are_dissected_later_and_once(engine: Engine, short: Settings, tmp_path: Path) -> None:
    arms = parse_arms(["plain", "match", "exact", "nucleus"], short)
    campaign = Campaign(arms, [Prompt("chat", "a", "Hello"), Prompt("chat", "b", "Once upon")])
    with (
        Journal(tmp_path / "bench.jsonl", {"format": "x"}, KEY, rounds=True) as runs,
        Journal(tmp_path / "at-once.jsonl", {"format": "x"}, KEY) as at_once,
        Journal(tmp_path / "later.jsonl", {"format": "x"}, KEY) as later,
    ):
        list(run_all(engine, replace(campaign, extras=(Anatomist(engine, at_once),)), runs))
        anatomist = Anatomist(engine, later)
        anatomist.catch_up(replace(campaign, deadline=0.0), runs)
        with pytest.raises(Cancelled):
            anatomist.catch_up(campaign, runs, cancelled=lambda: True)
        assert later.records == []
        anatomist.catch_up(campaign, runs)
        assert [later.key(one) for one in later.records] == [at_once.key(one) for one in at_once.records]
        assert {one["arm"] for one in later.records} == {"exact", "nucleus"}
        for one, other in zip(later.records, at_once.records, strict=True):
            assert (one["outcome"], one["rank"]) == (other["outcome"], other["rank"])
            assert one["p"] == pytest.approx(other["p"], abs=1e-3)
        anatomist.catch_up(campaign, runs)
        list(run_all(engine, replace(campaign, extras=(anatomist,))))  # as after a kill between the two journals
        assert len(later.records) == len(at_once.records)
