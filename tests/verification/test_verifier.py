"""What a verification guarantees whatever the rule: budgets, caps, uniforms, edges, refusals."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from scipy import stats

from nsd_local.errors import DecodeError, UsageError
from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Rule, Verdict, Verifier, verify_block, warm_up
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.rules import RULES
from tests.verification import oracle

COMPILED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "1"


class Rounds:
    """Random rounds with drafts really drawn from q."""

    def __init__(self, seed: int, vocab: int = 24, k: int = 5, noise: float = 1.0) -> None:
        self.rng = np.random.default_rng(seed)
        self.vocab, self.k, self.noise = vocab, k, noise

    def draw(self, law: Law = Law()) -> dict:  # noqa: B008 (frozen)
        target = self.rng.normal(0.0, 2.0, (self.k + 1, self.vocab)).astype(np.float32)
        draft = (target[: self.k] + self.rng.normal(0.0, self.noise, (self.k, self.vocab))).astype(np.float32)
        laws = [oracle.shaped(row, law.temperature, law.top_k, law.top_p, law.min_p) for row in draft]
        tokens = np.array([self.rng.choice(self.vocab, p=q) for q in laws], np.int32)
        return {
            "target_logits": target, "draft_logits": draft, "draft_tokens": tokens,
            "u_accept": self.rng.random(self.k), "u_last": float(self.rng.random()), "law": law,
        }  # fmt: skip


def same(a: Verdict, b: Verdict) -> bool:
    return (a.accepted, a.last_kind, a.last_token) == (b.accepted, b.last_kind, b.last_token)


@pytest.mark.parametrize("meter", [True, False])
def test_nothing_to_spend_is_exact_token_for_token(meter: bool) -> None:
    rounds = Rounds(1)
    for law in [Law(), Law(0.6, min_p=0.05), Law(0.0)] * 30:
        one = rounds.draw(law)
        exact = verify_block(**one, rule=Exact(), meter=meter)
        for rule, options in (
            (Nucleus(strength=0.0), {}),
            (Nucleus(cap=0.0), {}),
            (Nucleus(), {"remaining": 0.0}),
            (Nucleus(), {"exact_positions": 5}),
        ):
            verdict = verify_block(**one, rule=rule, meter=meter, **options)
            assert same(verdict, exact)
            assert not verdict.deviation.any()


@pytest.mark.parametrize("meter", [True, False])
@pytest.mark.parametrize("budget", [1e-7, 0.01, 0.3, 2.0, 7.7])
def test_a_budget_is_never_exceeded(budget: float, meter: bool) -> None:
    rounds, spent, total = Rounds(2, noise=2.0), [], 0.0
    for _ in range(200):
        verdict = verify_block(**rounds.draw(), rule=Nucleus(0.95), remaining=budget - total, meter=meter)
        spent += verdict.deviation.tolist()
        total += float(verdict.deviation.sum())
    assert sum(spent) <= budget
    assert np.sum(spent) <= budget
    assert sum(spent) > 0.99 * budget - 1e-6, "it is spent before the rest is exact"


def test_no_token_exceeds_the_cap() -> None:
    rounds, seen = Rounds(3, noise=2.0), []
    for _ in range(60):
        verdict = verify_block(**rounds.draw(), rule=Nucleus(0.95, cap=0.04))
        seen += verdict.deviation.tolist()
    assert max(seen) == pytest.approx(0.04)
    assert max(seen) <= 0.04


def test_exact_positions_come_first() -> None:
    rounds = Rounds(4, noise=2.0)
    for _ in range(40):
        verdict = verify_block(**rounds.draw(), rule=Nucleus(), exact_positions=2)
        assert not verdict.deviation[:2].any()
        assert "nucleus" not in verdict.accepted[:2]


def test_the_meter_changes_no_decision() -> None:
    rounds = Rounds(5)
    for law in [Law(), Law(0.8, top_k=8), Law(1.4, top_p=0.9)] * 30:
        one = rounds.draw(law)
        for rule in (Exact(), Nucleus(), Nucleus(0.5, 0.5)):
            assert same(verify_block(**one, rule=rule), verify_block(**one, rule=rule, meter=False))


def test_without_the_meter_unneeded_numbers_are_nan() -> None:
    one = Rounds(6).draw()
    one["u_accept"] = np.zeros(5)
    verdict = verify_block(**one, rule=Nucleus(), meter=False)
    assert np.isnan(verdict.divergence).all()
    assert np.isnan(verdict.excess).all()
    assert np.isnan(verdict.deviation).all()
    assert not verify_block(**one, rule=Exact(), meter=False).deviation.any()
    for remaining in (1.0, 5.0):
        assert not np.isnan(verify_block(**one, rule=Nucleus(), meter=False, remaining=remaining).deviation).any()


def test_draft_equal_to_target_keeps_everything() -> None:
    one = Rounds(7).draw()
    one["draft_logits"] = one["target_logits"][:5].copy()
    one["u_accept"] = np.full(5, 1.0 - 2.0**-53)
    verdict = verify_block(**one, rule=Exact())
    assert verdict.accepted == ["ratio"] * 5
    assert verdict.last_kind == "bonus"
    np.testing.assert_allclose(verdict.divergence, 0.0, atol=1e-6)


def test_what_a_verdict_tells_about_tokens() -> None:
    one = Rounds(8).draw()
    one["u_accept"] = np.zeros(5)
    verdict = verify_block(**one, rule=Exact())
    for i, x in enumerate(one["draft_tokens"]):
        p, q = oracle.shaped(one["target_logits"][i]), oracle.shaped(one["draft_logits"][i])
        assert verdict.p[i] == pytest.approx(p[x], abs=1e-6)
        assert verdict.q[i] == pytest.approx(q[x], abs=1e-6)
        assert verdict.rank[i] == oracle.ranking(one["target_logits"][i]).index(x) + 1
    p = oracle.shaped(one["target_logits"][5])
    assert verdict.last_p == pytest.approx(p[verdict.last_token], abs=1e-6)
    assert verdict.last_rank == oracle.ranking(one["target_logits"][5]).index(verdict.last_token) + 1


def test_no_drafts_is_plain_decoding() -> None:
    row = np.array([[0.0, 1.0, 2.0]], np.float32)
    nothing = np.empty(0, np.int32)
    for draft in (None, np.empty((0, 3), np.float32)):
        verdict = verify_block(row, draft, nothing, np.empty(0), 0.2, Law(), Nucleus())
        assert (verdict.accepted, verdict.last_kind, verdict.last_token) == ([], "plain", 1)
        assert verdict.divergence.shape == (0,)


def test_temperature_zero_is_greedy() -> None:
    rounds = Rounds(9)
    for _ in range(50):
        one = rounds.draw(Law(0.0))
        verdict = verify_block(**one, rule=Nucleus())
        best = np.argmax(one["target_logits"], axis=1)
        kept = len(verdict.accepted)
        assert one["draft_tokens"][:kept].tolist() == best[:kept].tolist()
        assert verdict.last_token == best[kept]
        assert set(verdict.divergence) <= {0.0, 1.0}
        assert not verdict.deviation.any()


def test_single_token_vocabulary_and_single_possible_token() -> None:
    one = np.zeros((3, 1), np.float32)
    verdict = verify_block(one, one[:2], np.zeros(2, np.int32), np.full(2, 0.99), 0.99, Law(), Exact())
    assert (verdict.accepted, verdict.last_token) == (["ratio", "ratio"], 0)
    row = np.array([-np.inf, 1.0, -np.inf], np.float32)
    target = np.array([row, row])
    other = np.array([[5.0, -np.inf, -np.inf]], np.float32)
    verdict = verify_block(target, other, np.array([0], np.int32), np.zeros(1), 0.0, Law(), Nucleus(1.0))
    assert (verdict.accepted, verdict.last_kind, verdict.last_token) == ([], "recovered", 1)
    assert verdict.divergence[0] == 1.0


@pytest.mark.parametrize("rule", [Exact(), Nucleus(0.9, 0.6)], ids=["exact", "nucleus"])
@pytest.mark.parametrize("law", [Law(), Law(0.6), Law(1.2, top_k=12)], ids=repr)
def test_first_token_of_simulated_rounds_follows_the_stated_law(rule: Exact | Nucleus, law: Law) -> None:
    """Chi-square over many rounds with drafts drawn from q; false alarm with probability 1e-6."""
    vocab, count = 20, 20_000 if COMPILED else 3_000
    rng = np.random.default_rng(12)
    target = rng.normal(0.0, 0.5, (2, vocab)).astype(np.float32)
    draft = (target[:1] + rng.normal(0.0, 0.5, (1, vocab))).astype(np.float32)
    settings = (law.temperature, law.top_k, law.top_p, law.min_p)
    p, q = oracle.shaped(target[0], *settings), oracle.shaped(draft[0], *settings)
    expected = p
    if isinstance(rule, Nucleus):
        inside = oracle.nucleus(p, target[0], rule.theta)
        gain, loss = np.maximum(q - p, 0.0) * inside, np.maximum(p - q, 0.0)
        expected = p + rule.strength * (gain - gain.sum() / loss.sum() * loss)
    verifier, counts = Verifier(vocab, 1), np.zeros(vocab)
    for token in rng.choice(vocab, count, p=q):
        one = verifier.verify(
            target, draft, np.array([token], np.int32), rng.random(1), rng.random(), law, rule, meter=False
        )
        counts[token if one.accepted else one.last_token] += 1
    possible = expected > 0.0
    assert not counts[~possible].any()
    assert (expected[possible] * count).min() > 4.0, "enough of each for the test to hold"
    assert stats.chisquare(counts[possible], expected[possible] * count).pvalue > 1e-6


def test_two_threads_with_verifiers_of_their_own() -> None:
    expected, results = {}, {}
    cases = {seed: Rounds(seed, vocab=2_000 if COMPILED else 40).draw() for seed in range(4)}
    for seed, one in cases.items():
        expected[seed] = verify_block(**one, rule=Nucleus())

    def work(seed: int) -> None:
        results[seed] = [verify_block(**cases[seed], rule=Nucleus()) for _ in range(20)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in cases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed, verdicts in results.items():
        assert len(verdicts) == 20
        assert all(same(verdict, expected[seed]) for verdict in verdicts)
        assert all(np.array_equal(verdict.excess, expected[seed].excess) for verdict in verdicts)


def test_broken_logits_are_refused_and_the_next_round_works() -> None:
    one = Rounds(13).draw()
    good = verify_block(**one, rule=Nucleus())
    for name in ("target_logits", "draft_logits"):
        broken = {**one, name: one[name].copy()}
        broken[name][0, 3] = np.nan
        with pytest.raises(DecodeError, match="NaN"):
            verify_block(**broken, rule=Nucleus())
    assert same(verify_block(**one, rule=Nucleus()), good)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"draft_tokens": np.array([0, 1, 2, 3, 24], np.int32)}, "outside the vocabulary"),
        ({"draft_tokens": np.array([0, 1, 2, 3], np.int32)}, "Target logits"),
        ({"draft_logits": np.zeros((5, 23), np.float32)}, "Draft logits"),
        ({"u_accept": np.zeros(4)}, "uniforms"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        verify_block(**Rounds(14).draw() | change, rule=Exact())


@pytest.mark.parametrize("rule", [None, *[rule() for rule in RULES.values()]], ids=lambda rule: rule and rule.name)
def test_warm_up_works_for_any_vocabulary_and_rule(rule: Rule | None) -> None:
    warm_up(1, rule)
    warm_up(151_936, rule)


def test_after_warm_up_nothing_is_left_to_compile() -> None:
    """Kernels that a round with every kind of law, draft and outcome calls are compiled already."""
    if not COMPILED:
        pytest.skip("the compiler is switched off")
    from nsd_local.sampling.kernels import prefix, select, shape
    from nsd_local.verification.kernels import block, gap

    def compiled() -> dict[str, int]:
        modules = (prefix, select, shape, gap, block)
        kernels = [getattr(module, name) for module in modules for name in dir(module)]
        return {kernel.__name__: len(kernel.signatures) for kernel in kernels if hasattr(kernel, "signatures")}

    warm_up()
    before, rounds = compiled(), Rounds(15)
    for law in (Law(), Law(0.7, 5, 0.8, 0.05), Law(0.0)):
        for rule in (Exact(), Nucleus(0.5), Nucleus(1, 1, cap=0.1), Block(), NucleusBlock(0.5), NucleusBlock(1, 1, 1)):
            for draft in (True, False):
                for meter in (True, False):
                    one = rounds.draw(law) | ({} if draft else {"draft_logits": None})
                    verify_block(**one, rule=rule, remaining=0.5, meter=meter)
    assert compiled() == before
