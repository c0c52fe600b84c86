"""Every token-wise rule: its formula, its emitted law, its strict setting, its guards, its name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nsd_local.errors import UsageError
from nsd_local.sampling import Law
from nsd_local.verification import Exact, Nucleus, Rule, verify_block
from nsd_local.verification.auto_strength import AutoStrength
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.cactus import Cactus
from nsd_local.verification.cascade import Cascade
from nsd_local.verification.greedy import Asd, Mars
from nsd_local.verification.lenience import Lenience
from nsd_local.verification.plain import TargetTopP
from nsd_local.verification.rules import RULES, describe, make, parameters, parse
from nsd_local.verification.shortlist import Relaxed, TopK
from nsd_local.verification.threshold import Threshold
from nsd_local.verification.typical import Typical
from tests.verification import oracle, rule_oracle
from tests.verification.enumeration import Step, boundary, distance, drawn_law
from tests.verification.test_nucleus import LAWS, pair, shaped
from tests.verification.test_verifier import Rounds, same

FORMULAS: list[Rule] = [
    Lenience(0.6), Lenience(1.0), Typical(), Typical(0.3, 0.9), TopK(1), TopK(2), Relaxed(2, 0.3), Relaxed(10, 1.0),
    Threshold(0.7, 0.6), Threshold(1.0, 1.0), Cactus(0.1), Cactus(0.0), Cascade(0.4), Cascade(-1.0), Mars(0.6),
    TargetTopP(0.7), TargetTopP(1.0),
]  # fmt: skip


@pytest.mark.parametrize("rule", FORMULAS, ids=describe)
def test_reported_acceptance_and_deviation_are_the_formulas(rule: Rule) -> None:
    """On 300 random pairs of laws, one verification each."""
    for seed in range(300):
        p_row, q_row = pair(seed)
        law = LAWS[seed % len(LAWS)]
        p, q = shaped(p_row, law), shaped(q_row, law)
        pi, kept = rule_oracle.emitted(rule, p, q, p_row)
        verdict = Step(p_row, q_row, law, rule).verdict(int(np.argmax(q)), 0.5)
        assert verdict.acceptance[0] == pytest.approx(kept, abs=1e-6)
        assert verdict.deviation[0] == pytest.approx(distance(pi, p), abs=1e-6)
        assert verdict.divergence[0] == pytest.approx(distance(p, q), abs=1e-6)


@pytest.mark.parametrize("rule", FORMULAS, ids=describe)
def test_what_is_emitted_is_what_is_reported(rule: Rule) -> None:
    """The emitted law read off the decisions themselves, by bisecting both uniforms."""
    for seed in range(14):
        p_row, q_row = pair(seed)
        law = LAWS[seed % len(LAWS)]
        p, q = shaped(p_row, law), shaped(q_row, law)
        step = Step(p_row, q_row, law, rule)
        emitted, kept = step.emitted(q)
        verdict = step.verdict(int(np.argmax(q)), 0.5)
        np.testing.assert_allclose(emitted, rule_oracle.emitted(rule, p, q, p_row)[0], atol=1e-6)
        assert verdict.acceptance[0] == pytest.approx(kept, abs=1e-6)
        assert verdict.deviation[0] == pytest.approx(distance(emitted, p), abs=1e-6)


@pytest.mark.parametrize("rule", [Lenience(0.5), Typical(), Cactus(0.2), Threshold(), Mars(0.5)], ids=describe)
def test_a_budget_mixes_any_rule_with_exact(rule: Rule) -> None:
    """What is left of the budget is what the position spends: (1-s) p + s pi deviates by s TV(pi, p)."""
    for seed in range(40):
        p_row, q_row = pair(seed)
        p, q = oracle.shaped(p_row), oracle.shaped(q_row)
        full = distance(rule_oracle.emitted(rule, p, q, p_row)[0], p)
        step = Step(p_row, q_row, Law(), rule, remaining=0.03)
        verdict = step.verdict(int(np.argmax(q)), 0.5)
        assert verdict.deviation[0] == pytest.approx(min(full, 0.03), abs=1e-6)
        assert verdict.deviation[0] <= 0.03
        if seed < 6 and full > 0.0:
            strength = float(verdict.deviation[0] / verdict.excess[0])
            assert strength == pytest.approx(min(1.0, 0.03 / full), abs=1e-4)
            law = sum(q[x] * _mixed(step, int(x), strength) for x in np.nonzero(q)[0])
            assert distance(law, p) == pytest.approx(verdict.deviation[0], abs=1e-6)


def _mixed(step: Step, token: int, strength: float) -> np.ndarray:
    """(V,) law of what follows when `token` was drafted: below `strength` the rule decides, above it exact does."""
    law = np.zeros(step.vocab)
    for start, width in ((0.0, strength), (strength + 1e-9, 1.0 - strength - 1e-9)):
        if width <= 0.0:
            continue
        a = boundary(lambda v, s=start, w=width: bool(step.verdict(token, s + v * w).accepted))
        law[token] += width * a
        if a < 1.0 - 1e-7:
            rejected = start + (a + (1.0 - a) / 2.0) * width
            law += width * (1.0 - a) * drawn_law(lambda u, r=rejected: step.verdict(token, r, u).last_token, step.vocab)
    return law


STRICT = [Lenience(1.0), Cactus(0.0), Cascade(-1.0), TargetTopP(1.0), AutoStrength(0.0), Nucleus(strength=0.0)]


@pytest.mark.parametrize("rule", STRICT, ids=describe)
def test_the_strict_setting_is_exact_token_for_token(rule: Rule) -> None:
    rounds = Rounds(21)
    for law in [Law(), Law(0.7, min_p=0.02), Law(0.0)] * 40:
        one = rounds.draw(law)
        verdict = verify_block(**one, rule=rule)
        assert same(verdict, verify_block(**one, rule=Exact()))
        np.testing.assert_allclose(verdict.deviation, 0.0, atol=1e-6)


def test_thresholds_of_one_are_exact_for_point_mass_drafts() -> None:
    rounds = Rounds(22)
    for _ in range(60):
        one = rounds.draw() | {"draft_logits": None}
        assert same(verify_block(**one, rule=Threshold(1.0, 1.0)), verify_block(**one, rule=Exact()))


@pytest.mark.parametrize("name", [name for name in RULES if name not in ("asd", "mars")])
def test_at_temperature_zero_every_other_rule_is_strict_greedy(name: str) -> None:
    rounds, rule = Rounds(23), make(name)
    for _ in range(30):
        one = rounds.draw(Law(0.0))
        assert same(verify_block(**one, rule=rule), verify_block(**one, rule=Exact()))
    assert rule.works_at_zero == rule.lossless, "what is only strict there says so"


@pytest.mark.parametrize("rule", [Asd(budget=0.0), Asd(m=0), Asd(g=0.0), Mars(1.0)], ids=describe)
def test_greedy_rules_at_their_strict_setting(rule: Rule) -> None:
    rounds = Rounds(24, noise=0.5)
    for _ in range(60):
        one = rounds.draw(Law(0.0))
        assert same(verify_block(**one, rule=rule), verify_block(**one, rule=Exact()))


@pytest.mark.parametrize("name", RULES)
def test_no_budget_and_exact_positions_are_exact_whatever_the_rule(name: str) -> None:
    rounds, rule = Rounds(25, noise=1.5), make(name)
    plain = Block() if name in ("block", "nucleus-block") else make("match") if name == "match" else Exact()
    for law in [Law(0.0)] * 20 if name == "asd" else [Law(), Law(0.8, top_k=9)] * 10:
        one = rounds.draw(law)
        for options in ({"remaining": 0.0}, {"exact_positions": 5}):
            if name == "target-topp":
                options = {**options}
                one["u_accept"] = np.ones(5) - 1e-9  # its bonus is truncated whatever the guards; look at drafts only
            verdict, expected = verify_block(**one, rule=rule, **options), verify_block(**one, rule=plain)
            if expected.last_kind == "recovered" or name != "target-topp":
                assert same(verdict, expected)
            assert not verdict.deviation.any()


@pytest.mark.parametrize("name", RULES)
def test_without_drafts_every_rule_decodes_plainly(name: str) -> None:
    row, rule = np.array([[0.0, 1.0, 2.0]], np.float32), make(name)
    law = Law(0.0) if name == "asd" else Law()
    verdict = verify_block(row, None, np.empty(0, np.int32), np.empty(0), 0.999, law, rule, memory=rule.start())
    assert (verdict.accepted, verdict.last_kind, verdict.last_token) == ([], "plain", 2)


def test_asd_keeps_its_ledger_over_the_request() -> None:
    target = np.zeros((4, 3), np.float32)
    target[:, 1] = 1.0  # the argmax everywhere; token 0 has regret 1
    draft, law = target[:3].copy(), Law(0.0)
    one = (target, draft, np.array([0, 0, 0], np.int32), np.full(3, 0.5), 0.5, law)
    generous = Asd(budget=10.0, g=1.0, m=9)
    verdict = verify_block(*one, generous)
    assert verdict.accepted == ["nucleus"] * 3
    assert verdict.deviation.tolist() == [1.0] * 3, "each is another token than the target's law allows"
    assert verify_block(*one, Asd(budget=10.0, g=1.0, m=2)).accepted == ["nucleus"] * 2
    assert verify_block(*one, Asd(budget=10.0, g=0.5, m=9)).accepted == ["nucleus"] * 2, "r <= g (k - i)"
    rule = Asd(budget=4.0, g=1.0, m=9)
    memory = rule.start()
    kept = [len(verify_block(*one, rule, memory=memory).accepted) for _ in range(3)]
    assert kept == [3, 1, 0]
    assert memory.spent == pytest.approx(4.0)
    assert verify_block(*one, rule, memory=memory).last_token == 1, "then the target's argmax"
    with pytest.raises(UsageError, match="temperature 0 only"):
        verify_block(*one[:-1], Law(), rule)


def test_mars_depends_on_a_shift_that_no_law_sees() -> None:
    row = np.array([2.0, 1.9, 0.0], np.float32)
    draft = np.array([[0.0, 9.0, 0.0]], np.float32)
    one = (draft, np.array([1], np.int32), np.array([0.999]), 0.5, Law())
    assert verify_block(np.array([row, row]), *one, Mars()).accepted == ["nucleus"]
    shifted = row - 1.5  # the same law
    verdict = verify_block(np.array([shifted, shifted]), *one, Mars())
    assert (verdict.accepted, verdict.last_token) == ([], 0)


@pytest.mark.parametrize("rule", [Lenience(0.5), Typical(), AutoStrength(1.5)], ids=describe)
def test_what_counts_against_a_limit_is_measured_without_the_meter_too(rule: Rule) -> None:
    rounds, remaining = Rounds(27, noise=2.0), None if isinstance(rule, AutoStrength) else 5.0
    memories = rule.start(), rule.start()
    for _ in range(50):
        one = rounds.draw()
        metered, bare = (
            verify_block(**one, rule=rule, remaining=remaining, memory=memory, meter=meter)
            for memory, meter in zip(memories, (True, False), strict=True)
        )
        assert same(metered, bare)
        assert metered.deviation.tolist() == bare.deviation.tolist()
    assert memories[0] == memories[1]


def test_auto_strength_earns_what_it_spends() -> None:
    rounds, rule = Rounds(26, noise=2.0), AutoStrength(0.05, 0.95)
    memory, spent, tokens = rule.start(), 0.0, 0
    for _ in range(400):
        verdict = verify_block(**rounds.draw(), rule=rule, memory=memory)
        spent += float(verdict.deviation.sum())
        tokens += len(verdict.accepted) + 1
        assert spent <= 0.05 * tokens + 1e-9
    assert spent == pytest.approx(0.05 * tokens, rel=0.02), "the nucleus leaves enough to spend in this process"


def test_target_topp_truncates_every_token() -> None:
    row = np.array([[0.0, 2.0, 1.0, -1.0]], np.float32)
    p = oracle.shaped(row[0])
    inside = oracle.nucleus(p, row[0], 0.8)
    nothing = (np.empty((0, 4), np.float32), np.empty(0, np.int32), np.empty(0))
    for u in np.linspace(0.0, 0.999, 30):
        verdict = verify_block(row, *nothing, float(u), Law(), TargetTopP(0.8))
        expected = oracle.inverse_cdf(p * inside, u)
        assert (verdict.last_kind, verdict.last_token) == ("plain", expected)
        assert verdict.last_deviation == pytest.approx(1.0 - p[inside].sum(), abs=1e-6)
        assert verdict.last_p == pytest.approx(p[expected], abs=1e-6)
    assert not TargetTopP.drafts


def test_every_rule_can_be_named_and_listed() -> None:
    for name, rule in RULES.items():
        assert rule.name == name
        for text in (rule.formula, rule.source, rule.__doc__):
            assert text
        assert make(name) == rule()
        assert parse(name) == rule()
        assert set(parameters(rule)) == {field.name for field in dataclasses.fields(rule)}
        changed = {key: 0.5 for key, value in parameters(rule).items() if isinstance(value, float)}
        assert parse(describe(make(name, changed))) == make(name, changed)
    assert parse("topk: n=5") == TopK(5)
    assert parse("nucleus:theta=0.8,cap=0.1") == Nucleus(0.8, cap=0.1)
    assert describe(Nucleus()) == "nucleus"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nukleus", "Choose one of exact, block"),
        ("exact:theta=1", "It has none"),
        ("lenience:x=1", "It has l"),
        ("lenience:l", "key=value"),
        ("lenience:l=much", "must be a number"),
        ("topk:n=1.5", "whole number"),
        ("lenience:l=0", "must lie in"),
        ("typical:eps=-1", "must be 0 or more"),
        ("threshold:acc=0", "must lie in"),
        ("cascade:alpha=2", "must lie in"),
        ("relaxed:n=0", "1 or more"),
        ("target-topp:theta=0", "must lie in"),
        ("nucleus-block:cap=-1", "0 or more"),
        ("auto-strength:deviation=-1", "0 or more"),
        ("asd:m=-1", "0 or more"),
        ("mars:margin=2", "must lie in"),
        ("cactus:delta=nan", "0 or more"),
    ],
)
def test_nonsense_is_refused(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse(text)


def test_strict_nucleus_block_is_block() -> None:
    rounds = Rounds(27, noise=1.0)
    for _ in range(80):
        one = rounds.draw()
        assert same(verify_block(**one, rule=NucleusBlock(strength=0.0)), verify_block(**one, rule=Block()))
