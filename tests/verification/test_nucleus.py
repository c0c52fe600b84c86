"""The two core rules by exact enumeration: what they emit is what they say they emit."""

from __future__ import annotations

import numpy as np
import pytest

from nsd_local.sampling import Law
from nsd_local.verification import Exact, Match, Nucleus
from tests.verification import oracle
from tests.verification.enumeration import Step, distance

LAWS = [Law(), Law(0.5), Law(0.0), Law(0.8, top_k=3), Law(1.2, top_p=0.8), Law(0.9, min_p=0.1)]


def pair(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two related rows of 2 to 6 tokens, sometimes tied or masked."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.integers(2, 7))
    p = rng.normal(0.0, 1.5, vocab)
    q = p + rng.normal(0.0, 1.5, vocab)
    if seed % 3 == 1:
        p, q = np.round(p), np.round(q)
    if seed % 3 == 2:
        p[rng.integers(vocab)] = -np.inf
        q[rng.integers(vocab)] = -np.inf
    return p.astype(np.float32), q.astype(np.float32)


def shaped(row: np.ndarray, law: Law) -> np.ndarray:
    return oracle.shaped(row, law.temperature, law.top_k, law.top_p, law.min_p)


@pytest.mark.parametrize("seed", range(30))
def test_exact_emits_the_targets_law(seed: int) -> None:
    p_row, q_row = pair(seed)
    law = LAWS[seed % len(LAWS)]
    p, q = shaped(p_row, law), shaped(q_row, law)
    emitted, kept = Step(p_row, q_row, law, Exact()).emitted(q)
    np.testing.assert_allclose(emitted, p, atol=1e-6)
    assert kept == pytest.approx(1.0 - distance(p, q), abs=1e-6)


@pytest.mark.parametrize("seed", range(30))
def test_nucleus_deviates_by_exactly_what_it_reports(seed: int) -> None:
    p_row, q_row = pair(seed)
    law = LAWS[seed % len(LAWS)]
    p, q = shaped(p_row, law), shaped(q_row, law)
    for theta, strength, cap in ((0.9, 1.0, None), (0.5, 0.4, None), (1.0, 1.0, 0.05)):
        rule = Nucleus(theta, strength, cap)
        step = Step(p_row, q_row, law, rule)
        excess = np.maximum(q - p, 0.0)[oracle.nucleus(p, p_row, theta)].sum()
        spent = strength * excess if cap is None else min(strength * excess, cap)
        emitted, kept = step.emitted(q)
        assert distance(emitted, p) == pytest.approx(spent, abs=1e-6)
        assert kept == pytest.approx(1.0 - distance(p, q) + spent, abs=1e-6)
        verdict = step.verdict(int(np.argmax(q)), 0.5)
        assert verdict.deviation[0] == pytest.approx(spent, abs=1e-6)
        assert verdict.excess[0] == pytest.approx(excess, abs=1e-6)


def test_point_mass_drafts_keep_the_law_unless_relaxed() -> None:
    p_row = np.array([1.0, 0.5, 0.4, -1.0], np.float32)
    p = oracle.shaped(p_row)
    for token in range(4):
        step = Step(p_row, p_row, Law(), Nucleus(0.8), relax_point_mass=False)
        step.draft = None
        q = np.eye(4)[token]
        emitted, kept = step.emitted(q)
        np.testing.assert_allclose(emitted, p, atol=1e-6)
        assert kept == pytest.approx(p[token], abs=1e-6)
        step.options = {}
        relaxed = step.verdict(token, 0.999)
        in_nucleus = oracle.nucleus(p, p_row, 0.8)[token]
        assert relaxed.accepted == (["nucleus"] if in_nucleus else [])
        assert relaxed.deviation[0] == pytest.approx(1.0 - p[token] if in_nucleus else 0.0, abs=1e-6)


def test_a_token_the_draft_cannot_draw_is_judged_by_the_target_alone() -> None:
    p_row = np.array([0.0, 0.0, -np.inf], np.float32)
    q_row = np.array([0.0, -np.inf, -np.inf], np.float32)
    step = Step(p_row, q_row, Law(), Exact())
    assert step.verdict(1, 0.9).accepted == ["ratio"]
    assert step.verdict(2, 0.0).accepted == []


@pytest.mark.parametrize("seed", range(12))
def test_match_keeps_the_law_with_the_drafts_argmax(seed: int) -> None:
    p_row, q_row = pair(seed)
    law = LAWS[seed % len(LAWS)]
    p = shaped(p_row, law)
    best = int(oracle.ranking(q_row)[0])
    emitted, kept = Step(p_row, q_row, law, Match()).emitted(np.eye(len(p))[best])
    np.testing.assert_allclose(emitted, p, atol=1e-6)
    assert kept == pytest.approx(p[best], abs=1e-6)
    verdict = Step(p_row, q_row, law, Match()).verdict(best, 0.5)
    assert verdict.q[0] == 1.0
    assert verdict.divergence[0] == pytest.approx(1.0 - p[best], abs=1e-6)
