"""Adaptive: the draft length it chooses, on made-up machines and texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.controller import tells_acceptance
from nsd_local.decoding.costs import Costs, Curve
from nsd_local.decoding.records import Round
from nsd_local.drafting.draft import Go
from nsd_local.drafting.offer import Offer
from nsd_local.measure.simulate import play, predict
from nsd_local.measure.trace import Trace
from nsd_local.verification import verify_block
from nsd_local.verification.auto_strength import AutoStrength
from nsd_local.verification.rule import Exact, Nucleus, Rule
from nsd_local.verification.rules import describe
from tests.decoding.rounds import timed
from tests.verification.test_verifier import Rounds

DRAFT = {1: 1.0, 2: 1.1, 4: 1.5, 8: 2.3, 16: 4.0}


def machine(verify: dict[int, float], step: float, plain: float = 0.1) -> Costs:
    """A machine whose pass over n tokens costs verify[n] plain passes, a draft step `step` of them."""
    target = {n: plain * cost for n, cost in verify.items()}
    return Costs((Curve(0, target, {n: plain * step * cost for n, cost in DRAFT.items()}),))


# Shaped like measurements of a 1.5B target with a 0.5B draft on two cores: unquantized, where checking is
# cheap, and 4-bit, where it is not. The middle one has a step: 8 tokens cost no more than 5.
CHEAP = machine({1: 1.0, 2: 1.05, 3: 1.25, 4: 1.5, 5: 1.8, 6: 2.1, 7: 2.4, 8: 2.7, 9: 3.0}, 0.13)
STEPPED = machine({1: 1.0, 2: 1.2, 3: 1.5, 4: 1.9, 5: 3.0, 6: 3.0, 7: 3.1, 8: 3.1, 9: 3.9}, 0.2)
DEAR = machine({1: 1.0, 2: 1.6, 3: 2.2, 4: 2.9, 5: 3.9, 6: 4.9, 7: 5.9, 8: 6.9}, 0.35)


def text(rng: np.random.Generator, n: int, easy: float, hard: float) -> list[float]:
    """Acceptance probabilities of n positions: a share `easy` of sure ones, the others about `hard`."""
    sure = rng.random(n) < easy
    return np.where(sure, 0.97, rng.beta(4 * hard, 4 * (1 - hard), n)).tolist()


def run(kept: Sequence[float], costs: Costs, seed: int, length: Adaptive | None = None) -> list[Round]:
    trace = Trace(100, tuple(1.0 - value for value in kept), {})
    return play(trace, kept, costs, length or Adaptive(costs), np.random.default_rng(seed))


def speed(rounds: Sequence[Round]) -> float:
    tokens = sum(len(round.tokens) for round in rounds)
    return tokens / sum(round.times.total for round in rounds)


@pytest.mark.parametrize("easy", [0.1, 0.4, 0.7, 0.9])
@pytest.mark.parametrize("costs", [CHEAP, STEPPED, DEAR], ids=["cheap", "stepped", "dear"])
def test_close_to_the_best_fixed_length_and_never_below_plain(costs: Costs, easy: float) -> None:
    ratios, plain = [], []
    for seed in range(8):
        kept = text(np.random.default_rng(seed), 300, easy, 0.35)
        trace = Trace(100, tuple(1.0 - value for value in kept), {})
        fixed = [predict([trace], costs, k, Exact()).tokens_per_second for k in range(9)]
        reached = speed(run(kept, costs, seed))
        ratios.append(reached / max(fixed))
        plain.append(reached / fixed[0])
    assert np.mean(ratios) > 0.95
    assert np.mean(plain) > 0.98
    assert min(plain) > 0.95


@pytest.mark.parametrize("costs", [CHEAP, STEPPED], ids=["cheap", "stepped"])
@pytest.mark.parametrize("seed", range(6))
def test_a_hostile_switch_is_noticed_and_so_is_its_end(costs: Costs, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = [text(rng, 160, 0.95, 0.5), rng.uniform(0.0, 0.1, 60).tolist(), text(rng, 160, 0.95, 0.5)]
    rounds = run([value for part in parts for value in part], costs, seed)
    starts = np.cumsum([0, *(len(round.tokens) for round in rounds)])
    lengths = [round.k for round in rounds]
    hostile, friendly = int(np.searchsorted(starts, 160)), int(np.searchsorted(starts, 220))
    assert np.median(lengths[hostile - 10 : hostile]) >= 2
    assert max(lengths[hostile + 8 : friendly]) <= 1
    assert max(lengths[friendly : friendly + 16]) >= 2
    assert np.median(lengths[friendly + 16 : friendly + 26]) >= 2


@pytest.mark.parametrize("seed", range(4))
def test_a_hostile_switch_of_a_real_pair(seed: int) -> None:
    """Real laws: code, then random hex digits, then code (see the file for what was measured)."""
    data = json.loads((Path(__file__).parent / "hostile_trace.json").read_text())
    trace = Trace(data["prompt_tokens"], data["divergence"], {}, entropy=data["entropy"])
    length, rng = Adaptive(CHEAP), np.random.default_rng(seed)
    rounds = play(trace, trace.acceptance(Exact()), CHEAP, length, rng)
    starts = np.cumsum([0, *(len(round.tokens) for round in rounds)])
    lengths = [round.k for round in rounds]
    code, digits, _ = data["parts"]
    hostile, friendly = (int(np.searchsorted(starts, at)) for at in (code, code + digits))
    assert np.median(lengths[hostile - 10 : hostile]) >= 3
    assert min(lengths[hostile : hostile + 8]) <= 1
    assert np.median(lengths[hostile + 2 : friendly]) <= 2, "seven of ten digits are kept, so two may pay"
    assert max(lengths[friendly : friendly + 8]) >= 4
    assert np.median(lengths[friendly + 4 : friendly + 16]) >= 3


def test_a_pair_that_cannot_win_is_never_tried_and_says_so() -> None:
    length = Adaptive(DEAR)
    rounds = run([0.9] * 200, DEAR, 0, length)[:-1]  # nothing can be drafted in the last
    assert {round.k for round in rounds} == {0}
    assert length.off
    assert length.verdict().startswith("drafting is off: it loses even if 95% of the drafts are kept")
    assert "verifying 4 tokens costs 2.9 plain passes" in rounds[0].why


def test_a_draft_that_is_never_right_is_given_up_and_says_so() -> None:
    length = Adaptive(CHEAP)
    rounds = run([0.02] * 300, CHEAP, 0, length)
    assert max(round.k for round in rounds[20:]) <= 1
    assert sum(round.k for round in rounds[20:]) <= len(rounds) / 5
    assert "tok/s vs plain 10" in rounds[-2].why
    assert length.off
    assert length.verdict().startswith("drafting is off after ")


def test_only_measured_widths_are_used_and_the_limit_holds() -> None:
    sparse = machine({1: 1.0, 3: 1.2, 6: 1.4}, 0.1)
    assert {round.k for round in run([0.99] * 100, sparse, 0)} <= {0, 2, 5}
    assert Adaptive(sparse).choose(4, 0).k == 2
    assert Adaptive(sparse).choose(1, 0).k == 0
    assert Adaptive(sparse).choose(8, 0, ()).why == "nothing to propose"
    assert Adaptive(sparse).choose(0, 0).k == 0


def test_it_says_why() -> None:
    choice = Adaptive(CHEAP).choose(8, 0)
    assert choice.why == f"k {choice.k} expected 15 tok/s vs plain 10"
    assert choice.source == "model"


def test_lookup_is_taken_where_its_matches_are_good() -> None:
    length = Adaptive(DEAR)
    good = Offer("ngram", 3, confidence=(0.97, 0.97, 0.97))
    poor = Offer("ngram", 3, confidence=(0.3, 0.3, 0.3))
    model = Offer("model", 8)
    assert length.choose(8, 0, (model, good)).source == "ngram"
    assert length.choose(8, 0, (model, poor)).k == 0
    cheap = Adaptive(CHEAP)
    assert cheap.choose(8, 0, (model, poor)).source == "model"
    assert cheap.choose(8, 0, (model, good)).source == "ngram"


def test_lookup_that_rarely_hits_is_not_probed() -> None:
    length = Adaptive(DEAR)
    for _ in range(60):
        choice = length.choose(8, 0, (Offer("ngram", 8, confidence=(0.1,) * 8),))
        assert choice.k == 0
        length.observe(timed(k=0, verify=0.1))


def test_reading_what_a_model_missed_is_part_of_the_price() -> None:
    near, far = Offer("model", 8), Offer("model", 8, pending=2_000)
    assert Adaptive(CHEAP).choose(8, 0, (near,)).k > 0
    assert Adaptive(CHEAP).choose(8, 0, (far,)).k == 0


def test_the_prompt_is_read_only_where_that_can_pay() -> None:
    unread = Offer("model", 1, pending=200)
    assert Adaptive(CHEAP).reads((unread,), 200, None)
    assert not Adaptive(CHEAP).reads((unread,), 200, 8), "not for so short an answer"
    assert not Adaptive(CHEAP).reads((Offer("model", 1, pending=20_000),), 20_000, None)
    assert not Adaptive(DEAR).reads((unread,), 200, None), "this pair is slower with drafts"
    assert Adaptive(DEAR).reads((Offer("ngram", 1, confidence=(0.5,)),), 200, None)


def test_with_a_seed_choices_depend_neither_on_the_clock_nor_on_the_past() -> None:
    kept = text(np.random.default_rng(3), 200, 0.6, 0.4)
    length = Adaptive(CHEAP)
    seen = []
    for slow in (CHEAP, machine({1: 3.0, 2: 9.0, 4: 9.0}, 2.0), CHEAP):
        length.begin(reproducible=True)
        seen.append([round.k for round in run(kept, slow, 3, length)])
        length.begin()
        run([0.1] * 50, DEAR, 0, length)
    assert seen[0] == seen[1] == seen[2]


def test_without_the_meter_it_learns_from_what_was_kept() -> None:
    length = Adaptive(CHEAP)
    length.begin(metered=False)
    for _ in range(12):
        choice = length.choose(8, 0)
        kept = (0.9,) * min(choice.k, 1)  # what a meter would have said; not to be used
        length.observe(timed(k=choice.k, verify=CHEAP.verify(choice.k + 1, 0), kept=kept, accepted=0))
    assert length.choose(8, 0).k == 0


def test_without_a_calibration_it_finds_out() -> None:
    for costs, wins in ((CHEAP, True), (DEAR, False)):
        kept = text(np.random.default_rng(1), 600, 0.8, 0.4)
        trace = Trace(100, tuple(1.0 - value for value in kept), {})
        fixed = [predict([trace], costs, k, Exact()).tokens_per_second for k in range(9)]
        rounds = run(kept, costs, 1, Adaptive(None, step=0.33))
        assert speed(rounds) > (0.9 * max(fixed) if wins else 0.93 * fixed[0])
        assert speed(rounds[len(rounds) // 2 :]) > 0.93 * max(fixed)


def draft(length: Adaptive, most: int, entropies: Sequence[float]) -> int:
    """How many tokens are drawn where q has these entropies."""
    for position, entropy in enumerate(entropies[:most]):
        go = length.proceed(position, entropy)
        if go is not Go.ON:
            return position + (go is Go.LAST)
    return most


def test_within_a_round_it_stops_where_q_is_unsure() -> None:
    length = Adaptive(STEPPED)
    for i in range(120):
        choice = length.choose(8, 0)
        unsure = i % 3 == 0  # a draft from an unsure q is never kept, one from a sure q always is
        entropy, chance = (3.0, 0.02) if unsure else (0.001, 0.99)
        k = draft(length, choice.k, [entropy] * choice.k)
        times = {"verify": STEPPED.verify(k + 1, 0), "draft": STEPPED.drafting(max(k, 1), 0)}
        accepted = 0 if unsure else k
        length.observe(timed(k=k, kept=(chance,) * min(k, accepted + 1), accepted=accepted, **times))
    choice = length.choose(8, 0)
    assert choice.why.endswith("up to 8 while q is sure")
    assert draft(length, 8, [3.0] * 8) <= 1
    length.choose(8, 0)
    assert draft(length, 8, [0.001] * 8) >= 7
    length.choose(8, 0)
    assert 3 <= draft(length, 8, [0.001] * 3 + [3.0] * 5) <= 4


def test_an_unsure_token_may_be_the_last_one_drawn() -> None:
    """Its pass is paid for; the next pass is not worth while, but checking it costs next to nothing."""
    flat = machine({n: 1.0 + 0.001 * n for n in range(1, 10)}, 0.4)
    length = Adaptive(flat)
    assert length.choose(8, 0).k > 0
    assert length.proceed(0, 3.0) is Go.LAST
    steep = machine({1: 1.0, **{n: 1.2 + 0.3 * n for n in range(2, 10)}}, 0.01)
    length = Adaptive(steep)
    assert length.choose(8, 0).k > 0
    assert length.proceed(0, 3.0) is Go.STOP


def test_the_verdict_tells_what_was_gained() -> None:
    length = Adaptive(CHEAP)
    run([0.95] * 300, CHEAP, 0, length)
    verdict = length.verdict()
    assert verdict.startswith("k auto: drafted in ")
    assert "x plain decoding" in verdict


@pytest.mark.parametrize("rule", [Exact(), Nucleus(0.9, 0.5), Nucleus(cap=0.1), AutoStrength(0.2)], ids=describe)
def test_rules_that_tell_how_likely_a_draft_is_kept(rule: Rule) -> None:
    """Kept and foreseen drafts of 400 rounds differ by less than six standard deviations."""
    rounds, memory = Rounds(5, noise=2.0), rule.start()
    kept = foreseen = variance = 0.0
    for _ in range(400):
        verdict = verify_block(**rounds.draw(), rule=rule, memory=memory)
        chance = 1.0 - verdict.divergence + verdict.deviation
        kept, foreseen = kept + len(verdict.accepted), foreseen + chance.sum()
        variance += (chance * (1.0 - chance)).sum()
    assert tells_acceptance(rule)
    assert abs(kept - foreseen) < 6.0 * variance**0.5


@pytest.mark.parametrize(("costs", "pays"), [(CHEAP, True), (DEAR, False)], ids=["cheap", "dear"])
def test_with_a_seed_it_does_not_matter_what_a_model_has_read_before(costs: Costs, pays: bool) -> None:
    length = Adaptive(costs)
    for pending in (1, 200, 2_000):
        length.begin(reproducible=True)
        assert length.reads((Offer("model", 1, pending=pending),), 2_000, 8) == pays
        assert (length.choose(8, 0, (Offer("model", 8, pending=pending),)).k > 0) == pays
