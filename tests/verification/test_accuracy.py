"""At a real vocabulary's size: float32 kernels stay within 1e-6 of float64, and allocate nothing of that size."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Rule, Verifier
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.rules import RULES, make

VOCAB = 151_936

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="too long without the compiler")


def model_like(rng: np.random.Generator, n: int, spread: float) -> np.ndarray:
    """(n, V) float32: a bulk of `spread` with some dozens of candidates above it."""
    rows = rng.normal(2.0, spread, (n, VOCAB))
    rows[:, rng.choice(VOCAB, 60, replace=False)] += rng.gumbel(8.0, 3.0, (n, 60))
    return rows.astype(np.float32)


def softmax(row: np.ndarray, temperature: float) -> np.ndarray:
    exponent = (row.astype(np.float64) - float(row.max())) / temperature
    law = np.exp(exponent)
    return law / law.sum()


def nucleus(p: np.ndarray, row: np.ndarray, theta: float) -> np.ndarray:
    order = np.lexsort((np.arange(len(row)), -row))
    mass_before = np.cumsum(p[order]) - p[order]
    inside = np.zeros(len(row), bool)
    inside[order[mass_before < theta]] = True
    return inside


@pytest.mark.parametrize("temperature", [0.6, 1.0, 1.8])
@pytest.mark.parametrize("spread", [2.0, 3.0, 0.3], ids=["usual", "wide", "flat"])
def test_distances_at_full_size(temperature: float, spread: float) -> None:
    rng = np.random.default_rng(1)
    target = model_like(rng, 2, spread)
    draft = (target[:1] + rng.normal(0.0, 0.7, (1, VOCAB))).astype(np.float32)
    p, q = softmax(target[0], temperature), softmax(draft[0], temperature)
    token = int(np.argmax(q))
    verifier = Verifier(VOCAB, 1)
    for theta in (0.3, 0.9, 0.99):
        verdict = verifier.verify(
            target, draft, np.array([token], np.int32), np.zeros(1), 0.4, Law(temperature), Nucleus(theta)
        )
        excess = np.maximum(q - p, 0.0)[nucleus(p, target[0], theta)].sum()
        assert verdict.divergence[0] == pytest.approx(np.abs(p - q).sum() / 2.0, abs=1e-6)
        assert verdict.excess[0] == pytest.approx(excess, abs=1e-6)
        assert verdict.p[0] == pytest.approx(p[token], abs=1e-6)
        last = softmax(target[1], temperature)
        assert abs(np.cumsum(last)[verdict.last_token] - last[verdict.last_token] / 2 - 0.4) < last.max()
    if spread == 2.0:
        for name in RULES:
            if name not in ("asd", "block", "nucleus-block"):
                one = (target, draft, np.array([token], np.int32), np.full(1, 0.999), 0.4, Law(temperature))
                assert verifier.verify(*one, make(name)).divergence[0] == pytest.approx(
                    1.0 - p[token] if name == "match" else np.abs(p - q).sum() / 2.0, abs=1e-6
                )


@pytest.mark.parametrize("rule", [Exact(), Nucleus(), NucleusBlock(), Block()], ids=lambda rule: rule.name)
@pytest.mark.parametrize("law", [Law(0.7), Law(0.7, 40, 0.9, 0.05), Law(0.0)], ids=repr)
def test_no_round_allocates_anything_of_the_vocabularys_size(rule: Rule, law: Law) -> None:
    rng = np.random.default_rng(2)
    target = model_like(rng, 4, 2.0)
    draft = (target[:3] + rng.normal(0.0, 0.7, (3, VOCAB))).astype(np.float32)
    tokens = np.argmax(draft, axis=1).astype(np.int32)
    verifier = Verifier(VOCAB, 3)
    for u in (np.zeros(3), np.full(3, 1.0 - 1e-9)):
        verifier.verify(target, draft, tokens, u, 0.5, law, rule)
        tracemalloc.start()
        verifier.verify(target, draft, tokens, u, 0.5, law, rule)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < VOCAB / 4, "not even one byte in four tokens"
