from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from time import monotonic

import numpy as np
import pytest

import nsd_local
from nsd_local.api import Engine
from nsd_local.decoding.records_io import read_recordings
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary
from nsd_local.errors import Cancelled, UsageError
from nsd_local.measure.arms import parse_arm, parse_arms
from nsd_local.measure.bench import bench, paired, summarise
from nsd_local.measure.campaign import KEY, Campaign, run_all
from nsd_local.measure.journal import Journal
from nsd_local.measure.likelihood import TargetLikelihood, log_likelihood
from nsd_local.measure.prompts import Prompt, load_prompts
from nsd_local.measure.runner import Row, Run, run
from nsd_local.verification.verdict import Kind

PROMPTS = [Prompt("chat", "a", "Hello"), Prompt("code", "b", "def f("), Prompt("code", "c", "while")]
SPECS = ["plain", "exact", "nucleus:theta=0.8", "bare"]


def campaign(short: Settings, specs: list[str] = SPECS, **more: object) -> Campaign:
    return Campaign(parse_arms(specs, short), PROMPTS, **more)  # type: ignore[arg-type]


def test_arms_take_turns_in_starting(short: Settings) -> None:
    turns = list(campaign(short, seeds=(1, 2), repeats=2).turns())
    assert len(turns) == 12
    starters = Counter(arms[0].name for *_, arms in turns)
    assert starters == dict.fromkeys(SPECS, 3)
    assert all({arm.name for arm in arms} == set(SPECS) for *_, arms in turns)


def test_every_row_says_what_ran_where(engine: Engine, short: Settings) -> None:
    rows = bench(engine, campaign(short), drift_tokens=4).rows
    assert Counter(row["arm"] for row in rows) == dict.fromkeys(SPECS, 3)
    for row in rows:
        assert {"model_sha256", "draft_sha256", "build", "cpu_info", "n_threads", "n_ctx", "temperature"} <= set(row)
        assert len(row["model_sha256"]) == 64
        assert row["error"] is None
        assert row["predicted_n"] <= 12
        assert row["predicted_per_second"] == pytest.approx(1e3 * row["predicted_n"] / row["predicted_ms"])
    nucleus = next(row for row in rows if row["arm"].startswith("nucleus"))
    assert (nucleus["rule"], nucleus["rule_parameters"]["theta"], nucleus["draft_tokens"]) == ("nucleus", 0.8, 3)


def test_memories_are_cleared_between_repeats(engine: Engine, short: Settings) -> None:
    """Case 33: nothing of the prompt is left over, whatever ran before."""
    rows = list(run_all(engine, campaign(short, ["plain", "exact"], repeats=3)))
    assert [row["cache_n"] for row in rows] == [0] * 18
    lengths = {(row["arm"], row["prompt"]): set() for row in rows}
    for row in rows:
        lengths[row["arm"], row["prompt"]].add((row["prompt_n"], row["predicted_n"], row["acceptance_rate"]))
    assert all(len(seen) == 1 for seen in lengths.values())  # the same seed, the same answer


def test_a_failure_is_a_row(engine: Engine, short: Settings) -> None:
    long = Prompt("chat", "long", "word " * 20_000)
    rows = bench(engine, replace(campaign(short), prompts=[PROMPTS[0], long]), drift_tokens=4).rows
    failed = [row for row in rows if row["error"]]
    assert {row["prompt"] for row in failed} == {"chat/long"}
    assert len(failed) == len(SPECS)
    summaries = summarise(rows)
    assert {values["n_failed"] for values in summaries} == {1}


def test_a_column_that_fails_is_the_error_of_its_row(engine: Engine, short: Settings, tmp_path: Path) -> None:
    def picky(finished: Run) -> Row:
        if finished.prompt.name == "b":
            raise UsageError("It cannot be judged")
        return {"score": 1.0}

    with Journal(tmp_path / "bench.jsonl", {"format": "x"}, KEY) as journal:
        rows = list(run_all(engine, campaign(short, ["plain"], extras=[picky]), journal))
        assert [(row["error"], row.get("score")) for row in rows] == [
            (None, 1.0), ("It cannot be judged.", None), (None, 1.0),
        ]  # fmt: skip
        assert len(journal.records) == 3


def test_summaries_pair_runs_of_the_same_prompt() -> None:
    def row(arm: str, prompt: str, speed: float) -> dict[str, object]:
        return {
            "arm": arm, "prompt": prompt, "seed": 0, "repeat": 0, "prompt_kind": "chat", "predicted_n": 10,
            "predicted_per_second": speed, "predicted_ms": 1e4 / speed, "rounds": 5, "draft_n": 8,
            "draft_n_accepted": 4, "deviation_sum": 0.5,
        }  # fmt: skip

    rows = [row("plain", "a", 10.0), row("fast", "a", 20.0), row("plain", "b", 5.0), row("fast", "b", 20.0)]
    assert paired([row for row in rows if row["arm"] == "fast"], rows[::2]) == [2.0, 4.0]
    plain, fast = summarise(rows)
    assert (plain["speedup"], fast["speedup"], fast["speedup_q1"]) == (1.0, 3.0, 2.5)
    assert (fast["total_ts"], fast["mean_accepted_length"], fast["acceptance_rate"]) == (20.0, 2.0, 0.5)
    assert fast["deviation_per_token"] == pytest.approx(0.05)
    assert plain["total_ts"] == pytest.approx(20 / 3)


def test_a_stopped_benchmark_goes_on(engine: Engine, short: Settings, tmp_path: Path) -> None:
    def journal() -> Journal:
        return Journal(tmp_path / "bench.jsonl", {"format": "x"}, KEY, rounds=True)

    asked = iter([False] * 40 + [True] * 10_000)
    with journal() as one, pytest.raises(Cancelled):
        bench(engine, campaign(short), one, cancelled=lambda: next(asked), drift_tokens=4)
    with journal() as one:
        done = len(one.records)
        assert 0 < done < 12
        result = bench(engine, campaign(short), one, drift_tokens=4)
        assert len(result.rows) == 12
        assert result.drift is not None
        assert bench(engine, campaign(short), one, drift_tokens=4).drift is None  # nothing is left
        keys = [one.key(record) for record in one.records]
        assert len(set(keys)) == len(keys) == 13


def test_the_time_limit_ends_between_turns(engine: Engine, short: Settings) -> None:
    said: list[str] = []
    rows = list(run_all(engine, campaign(short, deadline=monotonic()), say=said.append))
    assert rows == [] or len(rows) % len(SPECS) == 0
    assert len(rows) < 12
    assert "time limit" in said[-1]


def test_recorded_rounds_satisfy_the_definitions(engine: Engine, short: Settings, tmp_path: Path) -> None:
    """tau = emitted tokens / rounds, acceptance = accepted drafts / drafted tokens: recounted from what was kept."""
    with Journal(tmp_path / "bench.jsonl", {"format": "x"}, KEY, rounds=True) as journal:
        rows = bench(engine, campaign(short, ["plain", "exact", "nucleus"]), journal, drift_tokens=4).rows
    recordings = read_recordings(tmp_path / "bench.rounds.jsonl")
    assert len(recordings) == len(rows)
    kept: set[Kind] = {"ratio", "nucleus"}
    for row, recording in zip(rows, recordings, strict=True):
        assert all(recording.about[name] == row[name] for name in (*KEY, "rule_parameters"))
        tokens = [token for one in recording.rounds for token in one.tokens]
        drafted = sum(len(one.drafted) for one in recording.rounds)
        accepted = sum(token.kind in kept for token in tokens)
        assert row["predicted_n"] == len(tokens)
        assert row["mean_accepted_length"] == len(tokens) / len(recording.rounds)
        assert row["acceptance_rate"] == (accepted / drafted if drafted else None)
        for one in recording.rounds:  # every round emits its accepted drafts and one token more, or ends the text
            assert one.k == len(one.drafted)
            assert len(one.tokens) == one.accepted + 1 or one is recording.rounds[-1]
            assert [token.id for token in one.tokens[: one.accepted]] == list(one.drafted[: len(one.tokens)])[
                : one.accepted
            ]
        assert Summary(recording.rounds).times.total == pytest.approx(row["predicted_ms"] / 1e3)


def test_log_likelihood_is_the_sum_of_the_models_own(engine: Engine) -> None:
    prompt, answer = [72, 101, 108], [108, 111, 44, 32, 119, 111, 114]
    total = 0.0
    target = engine.decoder.target
    target.clear()
    target.evaluate(prompt[:-1])
    for before, after in zip([prompt[-1], *answer], answer, strict=False):
        logits = target.evaluate([before], rows=1)[0].astype(np.float64)
        total += logits[after] - np.log(np.exp(logits).sum())
    assert log_likelihood(target, prompt, answer) == pytest.approx(total, abs=1e-4)


def test_likelihood_as_a_column(engine: Engine, short: Settings) -> None:
    rows = list(run_all(engine, campaign(short, ["plain", "exact", "bare"], extras=[TargetLikelihood(engine)])))
    assert all(
        math.isfinite(row["target_logprob"]) and row["target_logprob"] < 0 for row in rows if row["arm"] != "bare"
    )
    assert all(row["target_logprob"] is None for row in rows if row["arm"] == "bare")


def test_bare_decoding_evaluates_as_many_tokens(engine: Engine, short: Settings) -> None:
    finished = run(engine, parse_arm("bare", short), load_prompts(["chat"])[0], 0)
    assert finished.result is not None
    assert len(engine.decoder.target.tokens) == len(finished.tokens) - 1 + 12


def test_an_arm_that_could_not_draft_says_why(pair: tuple[Path, Path], short: Settings) -> None:
    said: list[str] = []
    with nsd_local.load(pair[0], "none", threads=1, ctx=1024, calibrate=False) as alone:
        (row,) = run_all(alone, replace(campaign(short, ["exact"]), prompts=PROMPTS[:1]), say=said.append)
    assert (row["active"], row["draft_n"], row["draft"]) == (False, 0, None)
    assert row["reason"].startswith("drafting is off")
    assert said[0].endswith(f"({row['reason']})")
