"""The round loop on real (tiny) models: bookkeeping, ends, guards, errors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nsd_local.decoding.events import Finished, Notice, Step
from nsd_local.decoding.settings import Settings
from nsd_local.decoding.summary import Summary
from nsd_local.errors import UsageError
from nsd_local.sampling import Law, Penalties
from nsd_local.verification import Exact, Nucleus
from nsd_local.verification.block import NucleusBlock
from nsd_local.verification.greedy import Asd
from nsd_local.verification.plain import TargetTopP
from tests import tiny
from tests.decoding.decoders import PROMPT, decoder, fresh_logits, ids, run, streamed
from tests.tiny import Tiny

ENDLESS = Tiny(seed=1, stop_bias=-30.0)
SAMPLED = Settings(law=Law(temperature=1.0), rule=Exact(), max_tokens=60, seed=5)
GREEDY = replace(SAMPLED, law=Law(temperature=0.0))


@pytest.fixture(scope="module")
def endless(tiny_folder):
    """A target that never ends a text by itself."""
    return tiny.write(tiny_folder / "endless.gguf", ENDLESS)


@pytest.fixture(scope="module")
def near(tiny_folder):
    """A draft close to `endless`."""
    return tiny.write(tiny_folder / "near.gguf", replace(ENDLESS, noise=0.03))


def consistent(loop, result, prompt=PROMPT):
    """Both memories hold a beginning of what was said, and continue it as fresh ones would."""
    text = [*prompt, *ids(result)]
    held = loop.target.tokens
    assert held == text[: len(held)]
    assert len(text) - len(held) <= 1  # all but the last token, or all where a drafted token ended the text
    if loop.proposer:
        known = loop.proposer.context.tokens
        assert known == text[: len(known)]


# --- draft = target ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_that_is_the_target_is_always_kept(endless, temperature):
    settings = replace(SAMPLED, law=Law(temperature=temperature), max_tokens=400, draft_tokens=5)
    with decoder(endless, endless) as loop:
        result = run(loop, settings)
    kept = [token.kind in ("ratio", "bonus") for round_ in result.rounds for token in round_.tokens]
    windows = [np.mean(kept[i : i + 100]) for i in range(0, 400, 100)]
    assert min(windows) >= 0.99  # the width of a batch moves the last bits of the logits
    assert Summary(result.rounds).divergence_mean < 1e-3


@pytest.mark.parametrize("k", [0, 1, 2, 4, 8])
def test_temperature_zero_gives_the_greedy_text_up_to_near_ties(endless, near, k):
    with decoder(endless, near) as loop:
        tokens = ids(run(loop, replace(GREEDY, draft_tokens=k)))
    text = list(PROMPT)
    for token in tokens:
        row = fresh_logits(endless, text)
        assert row.max() - row[token] < 2e-2  # kernels differ in the last bits by batch width
        text.append(token)


# --- kinds, counts, times ------------------------------------------------------------------------------------------


def test_records_add_up(endless, near):
    with decoder(endless, near) as loop:
        result = run(loop, replace(SAMPLED, rule=Nucleus(), draft_tokens=4))
        consistent(loop, result)
    summary = Summary(result.rounds)
    assert len(summary.tokens) == 60 == sum(summary.kinds.values())
    assert summary.drafted == sum(len(round_.drafted) for round_ in result.rounds)
    assert summary.mean_accepted_length == 60 / len(result.rounds)
    assert summary.accepted == sum(round_.accepted for round_ in result.rounds)
    for round_ in result.rounds:
        times = round_.times
        assert times.total == pytest.approx(
            times.draft + times.verify + times.accept + times.rollback + times.other, rel=1e-12
        )
        assert min(times.draft, times.verify, times.accept, times.rollback, times.other) >= 0.0
        assert len(round_.tokens) == round_.accepted + 1
        assert len(round_.divergence) == min(round_.accepted + 1, round_.k)
        assert (round_.rejected_rank is None) == (round_.accepted == round_.k)
    assert result.prompt_n == len(PROMPT)
    assert result.cache_n == 0
    assert result.active


def test_plain_decoding_says_that_it_is_plain(endless):
    with decoder(endless, None) as loop:
        events = list(loop.stream(PROMPT, SAMPLED))
    notices = [event.text for event in events if isinstance(event, Notice)]
    result = events[-1].result
    assert set(Summary(result.rounds).kinds) == {"plain"}
    assert len(notices) == 1
    assert "draft" in notices[0]
    assert not result.active
    assert result.reason == notices[0]


def test_k_zero_with_a_draft_says_so_in_one_line(endless, near):
    with decoder(endless, near) as loop:
        events = list(loop.stream(PROMPT, replace(SAMPLED, draft_tokens=0)))
    assert [event.text for event in events if isinstance(event, Notice)] == ["drafting is off: k 0 as asked"]


def test_a_rule_without_drafts_says_that_it_is_the_reason(endless, near):
    with decoder(endless, near) as loop:
        result = run(loop, replace(SAMPLED, rule=TargetTopP()))
    assert result.reason == result.rounds[0].why == "drafting is off: the rule target-topp decodes plainly"


# --- strength, budget, cap -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"budget": 0.0, "rule": Nucleus()},
        {"rule": Nucleus(strength=0.0)},
        {"rule": Nucleus(cap=0.0)},
        {"rule": Nucleus(theta=0.0)},
    ],
)
def test_without_any_allowance_nucleus_is_exact_token_for_token(endless, tiny_far, settings):
    with decoder(endless, tiny_far) as loop:
        for seed in range(20):
            exact = replace(SAMPLED, seed=seed, draft_tokens=4)
            assert ids(run(loop, replace(exact, **settings))) == ids(run(loop, exact))


def test_nucleus_is_nucleus_block_unless_asked_otherwise(endless, tiny_far):
    with decoder(endless, tiny_far) as loop:
        answers = {}
        for name, rule, block in (
            ("whole", Nucleus(), True),
            ("block", NucleusBlock(), True),
            ("one", Nucleus(), False),
        ):
            settings = replace(SAMPLED, rule=rule, block=block, draft_tokens=6, max_tokens=200)
            answers[name] = [run(loop, replace(settings, seed=seed)) for seed in range(8)]
    assert list(map(ids, answers["whole"])) == list(map(ids, answers["block"])) != list(map(ids, answers["one"]))
    passes = {name: sum(len(result.rounds) for result in results) for name, results in answers.items()}
    assert passes["whole"] < passes["one"]


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize("budget", [0.05, 0.7, 3.0])
def test_the_budget_holds(endless, tiny_far, budget, block):
    settings = replace(SAMPLED, rule=Nucleus(0.95), block=block, budget=budget, draft_tokens=4, exact_first=0)
    with decoder(endless, tiny_far) as loop:
        spent = [Summary(run(loop, replace(settings, seed=seed)).rounds).deviation_sum for seed in range(20)]
    assert max(spent) <= budget
    assert max(spent) > 0.98 * budget  # and it is used


@pytest.mark.parametrize("block", [True, False])
def test_the_cap_holds_for_every_token(endless, tiny_far, block):
    settings = replace(SAMPLED, rule=Nucleus(0.95, cap=0.03), block=block, draft_tokens=4, exact_first=0)
    with decoder(endless, tiny_far) as loop:
        summary = Summary(run(loop, settings).rounds)
    assert summary.deviation_max <= 0.03
    assert summary.deviation_max > 0.0299


@pytest.mark.parametrize("block", [True, False])
def test_the_first_tokens_cost_no_deviation(endless, tiny_far, block):
    settings = replace(SAMPLED, rule=Nucleus(0.95), block=block, draft_tokens=4, exact_first=7)
    with decoder(endless, tiny_far) as loop:
        for seed in range(10):
            tokens = Summary(run(loop, replace(settings, seed=seed)).rounds).tokens
            assert all(token.deviation == 0.0 for token in tokens[:7])
            # Judged together, one of them may be kept thanks to a relaxed token after it, at no change of its own law.
            assert block or all(token.kind != "nucleus" for token in tokens[:7])
            assert any(token.deviation > 0.0 for token in tokens[7:])


# --- ends ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 1, 8, 16])
def test_exactly_as_many_tokens_as_asked(endless, k):
    with decoder(endless, endless) as loop:
        for n in (1, 2, 8, 9):
            result = run(loop, replace(SAMPLED, draft_tokens=k, max_tokens=n))
            assert (len(ids(result)), result.finish_reason) == (n, "length")
            consistent(loop, result)


def test_every_end_token_ends_the_text_and_nothing_follows(tiny_folder):
    talkative = tiny.write(tiny_folder / "short.gguf", Tiny(seed=3, stop_bias=4.0))
    ends = {tiny.special(text) for text in tiny.STOPS}
    seen = set()
    with decoder(talkative, talkative) as loop:
        for seed in range(60):
            result = run(loop, replace(SAMPLED, seed=seed, draft_tokens=16, max_tokens=450))
            tokens = ids(result)
            assert result.finish_reason == "stop"
            assert tokens[-1] in ends
            assert not ends & set(tokens[:-1])
            assert len(loop.target.tokens) <= len(PROMPT) + len(tokens)
            consistent(loop, result)
            seen.add(tokens[-1])
    assert seen == ends


@pytest.mark.parametrize("k", [0, 4, 12])
def test_a_stop_string_is_never_shown_nor_what_follows(endless, k):
    ascii_only = tuple((token, -np.inf) for token in range(ENDLESS.n_vocab) if not 32 <= token < 127)
    settings = replace(SAMPLED, draft_tokens=k, max_tokens=120, logit_bias=ascii_only)
    with decoder(endless, endless) as loop:
        free = run(loop, settings).text
        for start, size in ((20, 2), (31, 5), (40, 9)):
            stop = free[start : start + size]
            events = list(loop.stream(PROMPT, replace(settings, stop=(stop, "never ever"))))
            result = events[-1].result
            assert result.finish_reason == "stop_string"
            assert result.text == free[: free.index(stop)] == streamed(events)
            assert len(loop.target.tokens) <= len(PROMPT) + len(ids(result))
            consistent(loop, result)


def test_the_end_of_the_context(endless):
    with decoder(endless, endless, n_ctx=256) as loop:
        result = run(loop, replace(SAMPLED, draft_tokens=16, max_tokens=2000))
        n_ctx = loop.target.n_ctx
        assert result.finish_reason == "length"
        assert len(PROMPT) + len(ids(result)) == n_ctx + 1  # the last token needs no place in memory
        assert any("full" in notice for notice in result.notices)
        assert result.rounds[-1].k < 16
        again = run(loop, replace(SAMPLED, draft_tokens=4))
        assert len(ids(again)) == 60


def test_a_draft_with_a_smaller_context_stops_drafting_without_a_crash(endless):
    with decoder(endless, endless, n_ctx=1024, draft_ctx=256) as loop:
        result = run(loop, replace(SAMPLED, draft_tokens=4, max_tokens=600))
        assert len(ids(result)) == 600
        drafted = [round_.k for round_ in result.rounds]
        assert drafted[0] == 4
        assert drafted[-1] == 0


def test_prompts_that_cannot_be_answered_are_refused_in_words(endless):
    with decoder(endless, endless, n_ctx=256) as loop:
        with pytest.raises(UsageError, match="empty"):
            next(loop.stream([], SAMPLED))
        with pytest.raises(UsageError, match="--ctx"):
            next(loop.stream([65] * 300, SAMPLED))
        assert len(ids(run(loop, SAMPLED, [65]))) == 60  # a prompt of one token


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"rule": Asd()}, "temperature 0 only"), ({"logit_bias": ((320, 1.0),)}, "vocabulary has 320")],
    ids=["law", "bias"],
)
def test_settings_that_cannot_be_used_are_refused_before_the_prompt_is_read(endless, near, settings, why):
    with decoder(endless, near) as loop:
        with pytest.raises(UsageError, match=why):
            next(loop.stream(PROMPT, replace(SAMPLED, **settings)))
        assert loop.target.tokens == []


# --- consumers that stop, seeds, memory ----------------------------------------------------------------------------


def test_a_consumer_may_leave_at_any_event(endless, near):
    settings = replace(GREEDY, draft_tokens=3, max_tokens=24)
    with decoder(endless, near) as loop:
        expected = ids(run(loop, settings))
        count = len(list(loop.stream(PROMPT, settings)))
        for leave_after in range(1, count):
            stream = loop.stream(PROMPT, settings)
            for _ in range(leave_after):
                next(stream)
            stream.close()
            assert ids(run(loop, settings)) == expected


def test_cancelling_ends_the_answer_with_its_reason(endless, near):
    with decoder(endless, near) as loop:
        steps = []
        events = loop.stream(PROMPT, replace(SAMPLED, max_tokens=200), cancelled=lambda: len(steps) >= 3)
        for event in events:
            if isinstance(event, Step):
                steps.append(event)
            elif isinstance(event, Finished):
                result = event.result
        assert result.finish_reason == "cancelled"
        assert len(steps) == 3
        consistent(loop, result)


def test_seeds(endless, near):
    with decoder(endless, near) as loop:
        for seed in (0, 7):
            settings = replace(SAMPLED, seed=seed, draft_tokens=4)
            assert ids(run(loop, settings)) == ids(run(loop, settings))
        free = replace(SAMPLED, seed=None)
        first, second = run(loop, free), run(loop, free)
        assert first.seed != second.seed
        assert ids(first) != ids(second)


def test_the_same_prompt_again_is_not_read_again(endless, near):
    long = [65 + i % 50 for i in range(300)]
    with decoder(endless, near) as loop:
        first = run(loop, SAMPLED, long)
        again = run(loop, SAMPLED, long)
        more = run(loop, SAMPLED, [*long, *ids(again), 66, 67])
    assert (first.prompt_n, first.cache_n) == (300, 0)
    assert (again.prompt_n, again.cache_n) == (1, 299)
    assert more.prompt_n == 3  # the last token of the answer, and the two new ones
    assert more.cache_n == 300 + 59


# --- penalties -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [0, 5])
def test_penalties_act_at_temperature_zero_with_the_history_inside_a_block(endless, near, k):
    penalties = Penalties(repeat=1.3, last_n=40)
    with decoder(endless, near) as loop:
        tokens = ids(run(loop, replace(GREEDY, penalties=penalties, draft_tokens=k, max_tokens=40)))
        assert tokens != ids(run(loop, replace(GREEDY, draft_tokens=k, max_tokens=40)))
    text = list(PROMPT)
    for token in tokens:
        row = fresh_logits(endless, text)
        for seen in set(text[-40:]):
            row[seen] = row[seen] / 1.3 if row[seen] > 0 else row[seen] * 1.3
        assert row.max() - row[token] < 2e-2
        text.append(token)


def test_logit_bias_forbids_a_token(endless, near):
    with decoder(endless, near) as loop:
        favourite = ids(run(loop, replace(GREEDY, max_tokens=1)))[0]
        settings = replace(GREEDY, logit_bias=((favourite, -np.inf),), draft_tokens=4)
        assert favourite not in ids(run(loop, settings))
