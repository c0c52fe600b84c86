"""Block verification: lossless by enumeration, never worse than token by token; the code does what the proof says."""

from __future__ import annotations

import numpy as np
import pytest

from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Verdict, verify_block
from nsd_local.verification.block import Block, NucleusBlock
from tests.verification import oracle
from tests.verification.block_oracle import Process, kept, nsd_law, plan
from tests.verification.enumeration import boundary, drawn_law
from tests.verification.test_verifier import Rounds, same

FAIL = 1.0 - 2.0**-53  # a uniform that fails every test but a certain one


@pytest.mark.parametrize("relaxed", [False, True], ids=["block", "nucleus-block"])
@pytest.mark.parametrize(("k", "count"), [(1, 100), (2, 400), (3, 60)])
def test_formulas_reproduce_the_chain_and_never_keep_less(k: int, count: int, relaxed: bool) -> None:
    """The proof by enumeration: the block's output is the token-wise rule's chain, to the last bits of float64."""
    for seed in range(count):
        process = Process(seed, theta=(0.5, 0.8, 0.95)[seed % 3], strength=(1.0, 1.0, 0.4)[seed % 3])
        emitted, expected = process.enumerate_block(k, relaxed)
        chain = process.chain(k, relaxed)
        assert max(abs(emitted[s] - chain[s]) for s in chain) < 1e-14
        assert expected >= process.expected_token_wise(k, relaxed) - 1e-12


def drafted_round(process: Process, path: tuple[int, ...]) -> dict:
    """What verify_block gets when `path` was drafted."""
    rows = [process.rows(path[:i]) for i in range(len(path) + 1)]
    return {
        "target_logits": np.array([p for p, _ in rows]),
        "draft_logits": np.array([q for _, q in rows[:-1]]),
        "draft_tokens": np.array(path, np.int32),
        "law": Law(),
    }


@pytest.mark.parametrize("relaxed", [False, True], ids=["block", "nucleus-block"])
@pytest.mark.parametrize("seed", range(3))
def test_the_code_itself_reproduces_the_chain(seed: int, relaxed: bool) -> None:
    """The same enumeration with every survival test and residual law read off verify_block by bisection."""
    process, k = Process(seed, theta=0.8), 2
    rule = NucleusBlock(0.8) if relaxed else Block()
    chain, emitted = process.chain(k, relaxed), {}
    emitted = dict.fromkeys(chain, 0.0)
    for path in {s[:k] for s in chain}:
        one = drafted_round(process, path)
        drafted = np.prod([process.laws(path[:i])[1][x] for i, x in enumerate(path)])

        def outcome(u: list[float], last: float = 0.5, one: dict = one) -> Verdict:
            return verify_block(**one, u_accept=np.array(u), u_last=last, rule=rule)

        h1 = boundary(lambda u, f=outcome: len(f([u, FAIL]).accepted) >= 1)
        h2 = boundary(lambda u, f=outcome: len(f([FAIL, u]).accepted) == 2)
        lasts = {
            (1.0 - h2) * (1.0 - h1): ((), drawn_law(lambda u, f=outcome: f([FAIL, FAIL], u).last_token, 3)),
            (1.0 - h2) * h1: (path[:1], drawn_law(lambda u, f=outcome: f([0.0, FAIL], u).last_token, 3)),
            h2: (path, drawn_law(lambda u, f=outcome: f([0.0, 0.0], u).last_token, 3)),
        }
        for mass, (prefix, law) in lasts.items():
            if mass > 1e-9:
                process._spread(emitted, chain, prefix, drafted * mass * law)
    assert max(abs(emitted[s] - chain[s]) for s in chain) < 2e-6


LAWS = [Law(), Law(0.7, min_p=0.03), Law(1.3, top_k=6), Law(0.0)]


@pytest.mark.parametrize("rule", [Block(), NucleusBlock(0.9), NucleusBlock(0.6, 0.5), NucleusBlock(1.0, cap=0.05)])
@pytest.mark.parametrize("vocab", [5, 700], ids=["short", "several blocks"])
def test_verdicts_are_the_oracles(rule: Block | NucleusBlock, vocab: int) -> None:
    rounds = Rounds(31, vocab=vocab, k=4, noise=0.8)
    for law in LAWS * (25 if vocab == 5 else 3):
        one = rounds.draw(law)
        verdict = verify_block(**one, rule=rule)
        ps, qs, goals, spent = [], [], [], []
        for i in range(4):
            settings = (law.temperature, law.top_k, law.top_p, law.min_p)
            p, q = (oracle.shaped(one[name][i], *settings) for name in ("target_logits", "draft_logits"))
            goal, deviation = p, 0.0
            if isinstance(rule, NucleusBlock):
                inside = oracle.nucleus(p, one["target_logits"][i], rule.theta)
                _, excess = nsd_law(p, q, inside, 1.0)
                deviation = min(rule.strength * excess, 1.0 if rule.cap is None else rule.cap)
                goal, _ = nsd_law(p, q, inside, deviation / excess if excess else 0.0)
            ps, qs, goals, spent = [*ps, p], [*qs, q], [*goals, goal], [*spent, deviation]
        tokens, u = one["draft_tokens"], one["u_accept"]
        h, residuals = plan(goals, qs, tokens)
        if min(abs(np.array(h) - u)) < 1e-5:
            continue  # a float32 rounding could tip it
        n, plain = kept(h, u), kept(plan(ps, qs, tokens)[0], u)
        assert verdict.accepted == ["ratio"] * min(n, plain) + ["nucleus"] * max(0, n - plain)
        assert len(verdict.deviation) == min(n + 1, 4)
        np.testing.assert_allclose(verdict.deviation, spent[: n + 1], atol=1e-6)
        if n < 4 and np.abs(np.cumsum(residuals[n] / residuals[n].sum()) - one["u_last"]).min() > 1e-5:
            assert verdict.last_token == oracle.inverse_cdf(residuals[n], one["u_last"])


def test_point_mass_drafts_keep_the_law_of_exact() -> None:
    """For point masses the token-wise rule is already the best one: same expected kept drafts, law unchanged."""
    process, k = Process(5), 2
    for path in [(0, 1), (2, 2)]:
        one = drafted_round(process, path) | {"draft_logits": None}
        p1, p2 = process.laws(())[0][path[0]], process.laws(path[:1])[0][path[1]]
        run = lambda u, o=one: verify_block(**o, u_accept=np.array(u), u_last=0.5, rule=Block())  # noqa: E731
        h1 = boundary(lambda u, f=run: len(f([u, FAIL]).accepted) >= 1)
        h2 = boundary(lambda u, f=run: len(f([FAIL, u]).accepted) == k)
        assert h2 == pytest.approx(p1 * p2, abs=1e-6)
        assert h1 * (1.0 - h2) + h2 == pytest.approx(p1, abs=1e-6)


def test_point_mass_drafts_are_judged_as_by_exact() -> None:
    rounds = Rounds(34, noise=0.5)
    for _ in range(60):
        one = rounds.draw() | {"draft_logits": None, "relax_point_mass": False}
        assert same(verify_block(**one, rule=NucleusBlock(0.9)), verify_block(**one, rule=Exact()))


def test_block_keeps_more_than_token_by_token_in_the_long_run() -> None:
    rounds, count = Rounds(32, vocab=12, k=4, noise=0.8), {}
    for _ in range(1_500):
        one = rounds.draw()
        for rule in (Exact(), Block(), Nucleus(0.8), NucleusBlock(0.8)):
            verdict = verify_block(**one, rule=rule, meter=False)
            count[rule.name] = count.get(rule.name, 0) + len(verdict.accepted)
    assert count["block"] > count["exact"]
    assert count["nucleus-block"] > count["nucleus"]


@pytest.mark.parametrize("budget", [0.02, 0.5, 3.0])
def test_a_budget_holds_under_block_verification(budget: float) -> None:
    rounds, total = Rounds(33, noise=2.0), 0.0
    for _ in range(150):
        verdict = verify_block(**rounds.draw(), rule=NucleusBlock(0.95), remaining=budget - total, meter=False)
        total += float(verdict.deviation.sum())
    assert 0.95 * budget <= total <= budget


@pytest.mark.parametrize("strength", [1.0, 0.5])
def test_over_a_sequence_the_deviations_bound_the_total_variation(strength: float) -> None:
    """On 200 random processes of 3 tokens over 4 steps: TV of the sequence <= expected sum of the deviations."""
    tightness = []
    for seed in range(200):
        process = Process(seed, theta=0.8, strength=strength)
        relaxed, exact, spent = {(): 1.0}, {(): 1.0}, 0.0
        for _ in range(4):
            following: tuple[dict, dict] = ({}, {})
            for prefix, mass in relaxed.items():
                p, _, pi, excess = process.laws(prefix)
                spent += mass * strength * excess
                for x in range(3):
                    following[0][(*prefix, x)] = mass * pi[x]
                    following[1][(*prefix, x)] = exact[prefix] * p[x]
            relaxed, exact = following
        distance = sum(abs(relaxed[s] - exact[s]) for s in relaxed) / 2.0
        assert distance <= spent + 1e-12
        tightness.append(distance / spent)
    print(f"\nstrength {strength}: TV / bound {np.mean(tightness):.2f} on average, {np.max(tightness):.2f} at most")
    assert np.max(tightness) > 0.7, "the bound is not idle"
