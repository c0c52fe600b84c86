from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from nsd_local.api import Engine
from nsd_local.decoding.settings import Settings
from nsd_local.errors import UsageError
from nsd_local.measure.answers import answer_score
from nsd_local.measure.arms import parse_arms
from nsd_local.measure.bench import overall
from nsd_local.measure.campaign import KEY, Campaign, run_all
from nsd_local.measure.compare import Pilot, compare
from nsd_local.measure.journal import Journal
from nsd_local.measure.prompts import Prompt
from nsd_local.measure.sweep import LADDERS, rule_grid, theta_grid, theta_table
from nsd_local.sampling import Law
from nsd_local.verification.rules import RULES

PROMPTS = [Prompt("chat", "a", "Hello", answer="7"), Prompt("chat", "b", "Once upon", answer="8")]


def test_each_rule_runs_at_its_own_best_length(engine: Engine, short: Settings, tmp_path: Path) -> None:
    settings = replace(short, draft_tokens="auto")
    arms = parse_arms(["plain", "exact", "nucleus", "match:k=5"], settings)
    with (
        Journal(tmp_path / "pilot.jsonl", {"format": "x"}, KEY, rounds=True) as pilot,
        Journal(tmp_path / "compare.jsonl", {"format": "x"}, KEY, rounds=True) as journal,
    ):
        campaign = Campaign(arms, PROMPTS, extras=(answer_score,))
        result, summaries = compare(engine, campaign, Pilot((1, 3), prompts=1, tokens=8), (pilot, journal))
        tried = {record["arm"]: record["predicted_per_second"] for record in pilot.records}
    assert set(tried) == {"exact@k=1", "exact@k=3", "nucleus@k=1", "nucleus@k=3"}
    chosen = {one["arm"]: one["draft_tokens"] for one in summaries}
    assert chosen["plain"] == 0
    assert chosen["match:k=5"] == 5
    for name in ("exact", "nucleus"):
        assert chosen[name] == max((1, 3), key=lambda k: tried[f"{name}@k={k}"])
    assert all(row["draft_tokens"] == chosen[row["arm"]] for row in result.rows)
    assert {row["score"] for row in result.rows} <= {0.0, 1.0}
    assert all(one["score"] is not None for one in summaries)


@contextmanager
def kept_in(folder: Path) -> Iterator[tuple[Journal, Journal]]:
    with (
        Journal(folder / "pilot.jsonl", {"format": "x"}, KEY) as pilot,
        Journal(folder / "compare.jsonl", {"format": "x"}, KEY) as journal,
    ):
        yield pilot, journal


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that shows 0, 1, 2, ... at every look at it; one is taken before each turn."""
    times = count()
    monkeypatch.setattr("nsd_local.measure.campaign.monotonic", lambda: next(times))


def test_a_stopped_pilot_chooses_nothing_and_goes_on(
    engine: Engine, short: Settings, tmp_path: Path, ticking: None
) -> None:
    arms = parse_arms(["plain", "exact"], replace(short, draft_tokens="auto"))
    pilot, said = Pilot((1, 3), prompts=2, tokens=8), list[str]()
    with kept_in(tmp_path) as journals:
        assert compare(engine, Campaign(arms, PROMPTS, deadline=0.5), pilot, journals, say=said.append) is None
        assert [len(one.records) for one in journals] == [2, 0]
        assert "not chosen yet" in said[-1]
        assert compare(engine, Campaign(arms, PROMPTS), pilot, journals) is not None
        assert [len(one.records) for one in journals] == [4, 4 + 1]  # and the check for drift


def test_pilot_and_comparison_share_one_deadline(engine: Engine, short: Settings, ticking: None) -> None:
    arms = parse_arms(["plain", "exact"], replace(short, draft_tokens="auto"))
    found = compare(engine, Campaign(arms, PROMPTS, deadline=2.5), Pilot((1, 3), prompts=2, tokens=8))
    assert found is not None
    assert len(found[0].rows) == 2  # two turns for the pilot, one for the comparison


def test_runs_at_another_length_are_not_mixed(engine: Engine, short: Settings, tmp_path: Path) -> None:
    arms = parse_arms(["plain", "exact", "nucleus"], replace(short, draft_tokens="auto"))
    with kept_in(tmp_path) as journals:
        compare(engine, Campaign(arms[:2], PROMPTS), Pilot((1,), tokens=8), journals)
        with pytest.raises(UsageError, match="holds runs of exact at k 1"):
            compare(engine, Campaign(arms[:2], PROMPTS), Pilot((3,), tokens=8), journals)
        found = compare(engine, Campaign(arms, PROMPTS), Pilot((1,), tokens=8), journals)  # one arm more
        assert found is not None
        assert {one["arm"]: one["draft_tokens"] for one in found[1]} == {"plain": 0, "exact": 1, "nucleus": 1}


def test_a_fixed_length_needs_no_pilot(engine: Engine, short: Settings) -> None:
    result, summaries = compare(engine, Campaign(parse_arms(["plain", "exact"], short), PROMPTS), Pilot())
    assert [one["draft_tokens"] for one in summaries] == [0, 3]
    assert len(result.rows) == 4


def test_the_grid_of_k_and_theta(engine: Engine, short: Settings) -> None:
    ks, thetas = (1, 3), (0.8, 0.95)
    arms = theta_grid(short, ks, thetas)
    assert len(arms) == 1 + 2 + 4
    summaries = overall(list(run_all(engine, Campaign(arms, PROMPTS[:1]))))
    table = theta_table(summaries, ks, thetas)
    assert [row["rule"] for row in table] == ["exact", "nucleus 0.8", "nucleus 0.95"]
    for row in table:
        for k in ks:
            assert row[f"speedup_k{k}"] > 0
            assert 1 <= row[f"mean_accepted_length_k{k}"] <= k + 1
            assert row[f"score_k{k}"] is None


def test_the_grid_of_rules_covers_every_rule_that_works_here(short: Settings) -> None:
    warm = {arm.settings.rule.name for arm in rule_grid(short)}
    cold = {arm.settings.rule.name for arm in rule_grid(replace(short, law=Law(temperature=0.0)))}
    assert warm | cold == set(RULES)
    assert "asd" not in warm
    assert set(LADDERS) == {name for name, rule in RULES.items() if not rule.lossless}
    with pytest.raises(UsageError, match="asd"):
        rule_grid(short, ["asd"])


def test_every_rule_runs_in_a_sweep(engine: Engine, short: Settings) -> None:
    arms = rule_grid(short)
    rows = list(run_all(engine, Campaign(arms, PROMPTS[:1])))
    assert [row["error"] for row in rows] == [None] * len(arms)
    for row in rows:
        if row["rule"] and RULES[row["rule"]].lossless:
            assert row["deviation_sum"] == pytest.approx(0.0, abs=1e-5), row["arm"]
    truncated = [row["deviation_per_token"] for row in rows if row["rule"] == "target-topp"]
    assert len(truncated) == 3
    assert 0.0 < truncated[0] < truncated[2] < 0.1  # theta 0.99, 0.95, 0.9: at most 1 - theta each
