"""The law of emitted tokens, measured through the real loop on real (tiny) models and held against exact laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from nsd_local.decoding.settings import Settings
from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus
from nsd_local.verification.block import Block
from nsd_local.verification.rule import Match
from tests.decoding.decoders import PROMPT, decoder, fresh_logits, ids, run
from tests.verification.oracle import nucleus, shaped

REQUESTS = 5000
FALSE_ALARM = 1e-6  # of each test; about 20 of them run, so the suite raises one false alarm in 50,000 runs
LAWS = [
    Law(temperature=0.6),
    Law(temperature=1.0),
    Law(temperature=1.5),
    Law(temperature=0.9, top_k=12),
    Law(temperature=1.0, top_p=0.8),
    Law(temperature=1.2, min_p=0.08),
    Law(temperature=0.8, top_k=20, top_p=0.8, min_p=0.05),
]


def fits(observed: np.ndarray, expected: np.ndarray) -> bool:
    """Chi-square of counts against probabilities, rare tokens pooled so that each cell expects at least 8."""
    total = observed.sum()
    order = np.argsort(-expected)
    common = order[expected[order] * total >= 8]
    rest = np.setdiff1d(order, common)
    counts, means = list(observed[common]), list(expected[common] * total)
    if expected[rest].sum() * total >= 1:
        counts.append(observed[rest].sum())
        means.append(expected[rest].sum() * total)
    elif observed[rest].sum() > 30:
        return False
    if len(counts) == 1:  # a point mass
        return counts[0] == total
    scale = sum(counts) / sum(means)
    return stats.chisquare(counts, np.array(means) * scale).pvalue > FALSE_ALARM


def laws(path, tokens, law):
    row = fresh_logits(path, tokens)
    options = {name: getattr(law, name) for name in ("temperature", "top_k", "top_p", "min_p")}
    return row, shaped(row, **options)


def relaxed(p, q, inside, strength):
    """The law of an emitted token under NSD: q*a + (1 - sum q*a) * residual."""
    ratio = np.divide(np.minimum(p, q), q, out=np.zeros_like(p), where=q > 0)
    keep = np.where(inside, ratio + strength * (1 - ratio), ratio)
    residual = np.maximum(p - q, 0)
    return q * keep + (1 - (q * keep).sum()) * residual / residual.sum()


def contested(target, draft, law, theta):
    """(prompt, p, q, S): of many prompts the one after which the draft has most excess inside the nucleus."""
    best, found = -1.0, None
    for letter in range(65, 105):
        prompt = [*PROMPT, letter]
        row, p = laws(target, prompt, law)
        q = laws(draft, prompt, law)[1]
        inside = nucleus(p, row, theta)
        excess = np.maximum(q - p, 0)[inside].sum()
        if excess > best:
            best, found = excess, (prompt, p, q, inside)
    return found


def sample(decoder, settings, first=None, prompt=PROMPT):
    """(V,) counts of the first emitted token, and of the second where the first was `first`."""
    counts = np.zeros((2, decoder.target.n_vocab))
    for seed in range(REQUESTS):
        tokens = ids(run(decoder, replace(settings, seed=seed), prompt))
        counts[0, tokens[0]] += 1
        if len(tokens) > 1 and tokens[0] == first:
            counts[1, tokens[1]] += 1
    return counts


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_exact_rule_emits_the_targets_law(tiny_target, tiny_draft, law):
    p = laws(tiny_target, PROMPT, law)[1]
    first = int(p.argmax())
    p_next = laws(tiny_target, [*PROMPT, first], law)[1]
    settings = Settings(law=law, rule=Exact(), draft_tokens=2, max_tokens=4)
    with decoder(tiny_target, tiny_draft) as loop:
        counts = sample(loop, settings, first)
    assert fits(counts[0], p)
    assert fits(counts[1], p_next)


@pytest.mark.parametrize("rule", [Match(), Block()], ids=lambda rule: rule.name)
def test_other_lossless_rules_emit_the_targets_law(tiny_target, tiny_far, rule):
    law = Law(temperature=0.8, min_p=0.02)
    prompt, p, _, _ = contested(tiny_target, tiny_far, law, 0.9)
    first = int(p.argmax())
    p_next = laws(tiny_target, [*prompt, first], law)[1]
    with decoder(tiny_target, tiny_far) as loop:
        counts = sample(loop, Settings(law=law, rule=rule, draft_tokens=3, max_tokens=5), first, prompt)
    assert fits(counts[0], p)
    assert fits(counts[1], p_next)


@pytest.mark.parametrize("block", [True, False])
@pytest.mark.parametrize(("law", "theta", "strength"), [(LAWS[1], 0.8, 1.0), (LAWS[0], 0.9, 0.5), (LAWS[6], 0.7, 1.0)])
def test_nucleus_rule_emits_exactly_its_relaxed_law(tiny_target, tiny_far, law, theta, strength, block):
    prompt, p, q, inside = contested(tiny_target, tiny_far, law, theta)
    pi = relaxed(p, q, inside, strength)
    deviation = strength * np.maximum(q - p, 0)[inside].sum()
    assert np.abs(pi - p).sum() / 2 == pytest.approx(deviation, abs=1e-9)
    assert deviation > 0.05  # the pair is far enough apart for the test to tell the two laws apart
    settings = Settings(
        law=law, rule=Nucleus(theta, strength), block=block, exact_first=0, draft_tokens=2, max_tokens=4
    )
    with decoder(tiny_target, tiny_far) as loop:
        counts = sample(loop, settings, prompt=prompt)
    assert fits(counts[0], pi)
    assert not fits(counts[0], p)


def test_first_tokens_are_exact_unless_asked_otherwise(tiny_target, tiny_far):
    law = LAWS[1]
    prompt, p, _, _ = contested(tiny_target, tiny_far, law, 0.8)
    settings = Settings(law=law, rule=Nucleus(0.8), draft_tokens=2, max_tokens=4)
    with decoder(tiny_target, tiny_far) as loop:
        assert fits(sample(loop, settings, prompt=prompt)[0], p)
