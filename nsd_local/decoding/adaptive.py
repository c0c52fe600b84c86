"""The draft length that pays on this machine for this text, chosen anew each round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from nsd_local.decoding.acceptance import Acceptance, chances
from nsd_local.decoding.breakeven import SURE, break_even, expected_tokens
from nsd_local.decoding.controller import ANY_OFFER, Choice
from nsd_local.decoding.costs import Costs
from nsd_local.decoding.pace import GUESS_STEP, Pace
from nsd_local.decoding.probing import Probing
from nsd_local.decoding.records import Round
from nsd_local.decoding.tally import Tally
from nsd_local.drafting.draft import Go
from nsd_local.drafting.offer import Offer

MARGIN = 1.01  # drafting must promise this much more than plain decoding
ANSWER = 256  # tokens of an answer, for all that is known before it
UP_TO = 12  # drafts in a round whose every position is weighed anew
HORIZON = 16  # rounds over which the reading of what a draft model missed is written off


@dataclass(frozen=True, slots=True)
class Plan:
    """One way to run a round, and its expected tokens per second."""

    k: int
    source: str
    rate: float
    pending: int = 1
    probe: bool = False


PLAIN = Plan(0, "", 0.0)


class Adaptive:
    """Chooses k, 0 included, to maximise expected tokens per second.

    The expected tokens of a round come from the recent acceptance probabilities per position, its seconds
    from the measured costs. Where drafting does not pay it decodes plainly and tries one token now and then
    (see Probing). One instance serves a pair while it is loaded: what it learned carries over to the next
    request, except where that request must be reproducible.
    """

    def __init__(self, costs: Costs | None = None, *, step: float = GUESS_STEP) -> None:
        """`step`: without `costs`, the guessed time of a draft step relative to a target pass."""
        self._costs, self._step = costs, step
        self._pace = Pace(costs, step=step)
        self._acceptance: dict[str, Acceptance] = {}
        self._asking: set[str] = set()  # proposers that ask before every draw
        self._start()

    def begin(self, *, metered: bool = True, reproducible: bool = False) -> None:
        if reproducible:
            self._acceptance.clear()
            self._asking.clear()
            self._pace = Pace(self._costs, step=self._step)
        self._pace.learning = not reproducible
        self._start(metered)

    def _start(self, metered: bool = True) -> None:
        self._metered = metered
        self._probing: dict[str, Probing] = {}
        self._tally = Tally()
        self._off = ""  # why the last round was plain
        self._hoped = 0.0
        self._enter(PLAIN, (), 0, 0.0)

    def reads(self, offers: Sequence[Offer], context: int, tokens: int | None) -> bool:
        """Would drafting with what is expected of this pair win back the time that reading takes?"""
        plain = self._pace.round(0, context)
        for offer in self._seen(offers):
            if offer.source == "model" and (offer.pending > 1 or not self._pace.learning):
                cost = self._pace.drafting(1, context, offer.pending) - self._pace.drafting(1, context)
                best = max(plan.rate for plan in self._plans(Offer("model", 64), 64, context))
                saved = min(tokens or ANSWER, ANSWER) * (plain - 1.0 / best)
                if best * plain <= MARGIN or saved < cost:
                    return False
        return True

    def choose(self, limit: int, context: int, offers: Sequence[Offer] = ANY_OFFER) -> Choice:
        if limit < 1:
            self._enter(PLAIN, (), context, 0.0)
            return Choice(0, "no room for a draft")
        offers = self._seen(offers)
        plain = 1.0 / self._pace.round(0, context)
        plans = [plan for offer in offers for plan in self._plans(offer, limit, context)]
        plan = max(plans, key=lambda plan: plan.rate, default=PLAIN)
        self._off = ""
        if plan.rate <= MARGIN * plain:
            self._off = self._reason(plan, plain, offers, context)
            plan = self._probe(plans, plain, offers, context) or PLAIN
        self._enter(plan, offers, context, max(plan.rate, plain))
        if plan.probe:
            return Choice(plan.k, f"probe ({self._off})", plan.source)
        if not plan.k:
            return Choice(0, self._off)
        why = f"k {plan.k} expected {self._versus(plan.rate, plain)}"
        if plan.source in self._asking:  # q will be asked at every position, so the plan is no limit
            self._most = max(self._lengths(min(limit, UP_TO, self._offered(plan.source))), default=plan.k)
            why += f", up to {self._most} while q is sure"
        return Choice(self._most, why, plan.source)

    def proceed(self, position: int, entropy: float) -> Go:
        """Weighs what a longer draft may bring against what its time would bring at the rate of this round.

        The pass that gave this entropy is spent either way and counts for no side.
        """
        self._asking.add(self._plan.source)
        del self._entropies[position:]
        self._entropies.append(entropy)
        acceptance, pace, context = self._of(self._plan.source), self._pace, self._context
        stopping, step = pace.verify(position + 1, context), pace.drafting(1, context)
        self._reach *= acceptance.knowing(position, entropy)
        reach = tokens = self._reach
        last = tokens - self._rate * (pace.verify(position + 2, context) - stopping)
        longer = -math.inf
        for drafts in range(position + 2, self._most + 1):
            reach *= max(acceptance.at(drafts - 1), self._hoped)
            tokens += reach
            seconds = pace.verify(drafts + 1, context) - stopping + (drafts - position - 1) * step
            longer = max(longer, tokens - self._rate * seconds)
        if longer > max(last, 0.0):
            return Go.ON
        return Go.LAST if last > 0.0 or self._plan.probe else Go.STOP  # a probe is to learn something

    def observe(self, round: Round) -> None:
        self._pace.observe(round, self._plan.pending, passes=max(round.k, len(self._entropies)))
        plain = self._pace.round(0, round.n_past) if self._pace.known else None
        self._tally.add(round, plain, probe=self._plan.probe)
        kept = chances(round.divergence, round.deviation, round.accepted, self._metered)
        if round.source:
            self._of(round.source).add(kept, self._entropies, refused=round.accepted == round.k)
            if self._plan.probe and kept:
                self._probing_of(round.source).learn(sum(kept) >= self._hoped * len(kept))
            elif plain is not None:
                self._probing_of(round.source).gained(len(round.tokens) - round.times.total / plain)
        for offer in self._offers:
            if offer.source != round.source:
                self._of(offer.source).idle()
                self._probing_of(offer.source).pass_plain()

    @property
    def off(self) -> bool:
        return self._tally.off(self._off)

    def verdict(self) -> str:
        """Why k was what it was in this request, or why drafting is off."""
        return self._tally.told(self._off)

    def _seen(self, offers: Sequence[Offer]) -> Sequence[Offer]:
        """The offers; in a reproducible request without what a draft model still has to read.

        That depends on what was answered before.
        """
        return offers if self._pace.learning else [replace(offer, pending=1) for offer in offers]

    def _plans(self, offer: Offer, limit: int, context: int) -> list[Plan]:
        """What each draft length on offer promises."""
        lengths = self._lengths(min(limit, offer.most))
        tokens = self._expected(offer, max(lengths, default=0))
        missed = 0.0
        if offer.source == "model" and offer.pending > 1:
            missed = self._pace.drafting(1, context, offer.pending) - self._pace.drafting(1, context)
        return [
            Plan(
                k,
                offer.source,
                tokens[k] / (self._pace.round(k, context, source=offer.source) + missed / HORIZON),
                offer.pending,
            )
            for k in lengths
        ]

    def _offered(self, source: str) -> int:
        return max(offer.most for offer in self._offers if offer.source == source)

    def _lengths(self, longest: int) -> list[int]:
        """The draft lengths whose pass was measured (without a calibration: those that the guess covers)."""
        return [n - 1 for n in self._pace.costs.widths if 1 < n <= longest + 1]

    def _expected(self, offer: Offer, k: int) -> list[float]:
        """Entry i: the expected tokens of a round that drafts i tokens, for i = 0..k."""
        acceptance = self._of(offer.source)
        lengths, reach = [1.0], 1.0
        for i in range(k):
            reach *= offer.confidence[i] if i < len(offer.confidence) else acceptance.at(i)
            lengths.append(lengths[-1] + reach)
        return lengths

    def _probe(self, plans: Sequence[Plan], plain: float, offers: Sequence[Offer], context: int) -> Plan | None:
        """A round of a proposer that does not pay at present, if it is time for one.

        It drafts one token, or as many as would pay just at break-even: whichever is expected to lose less.
        """
        for offer in offers:
            probing = self._probing_of(offer.source)
            own = [plan for plan in plans if plan.source == offer.source]
            if offer.confidence or not own or probing.waiting:  # who keeps own statistics needs no probes
                continue
            needed = self._needed(context)
            if needed is None:
                continue
            tokens = self._expected(offer, own[-1].k)
            seconds = {p.k: self._pace.round(p.k, context, source=offer.source, pending=offer.pending) for p in own}
            losses = {k: plain * spent - tokens[k] for k, spent in seconds.items()}
            enough = max(seconds, key=lambda k: expected_tokens(needed, k) / seconds[k])
            k = min(own[0].k, enough, key=lambda k: losses[k])
            if probing.affords(losses[k]):
                probing.spend(losses[k])
                self._hoped = needed
                return Plan(k, offer.source, tokens[k] / seconds[k], offer.pending, probe=True)
        return None

    def _needed(self, context: int) -> float | None:
        """The acceptance per position from which on a draft model pays; None if none would do."""
        rounds = {k: self._pace.round(k, context, source="model") for k in self._lengths(64)}
        return break_even(rounds, self._pace.round(0, context) / MARGIN)

    def _reason(self, best: Plan, plain: float, offers: Sequence[Offer], context: int) -> str:
        """Why nothing is drafted."""
        if not best.k:
            return "nothing to propose" if not offers else "no draft fits"
        if best.source == "model" and self._needed(context) is None:
            return f"it loses even if {SURE:.0%} of the drafts are kept, {self._cost(context)}"
        kept = self._expected(next(o for o in offers if o.source == best.source), 1)[1] - 1.0
        return f"k {best.k} expected {self._versus(best.rate, plain)} with {kept:.0%} of first drafts kept"

    def _cost(self, context: int) -> str:
        """What this machine charges, relative to a plain round."""
        n = min(4, max(self._pace.costs.widths))
        one, draft = self._pace.verify(1, context), self._pace.drafting(1, context)
        return (
            f"since verifying {n} tokens costs {self._pace.verify(n, context) / one:.1f} plain passes "
            f"and drafting one {draft / one:.2f}"
        )

    def _versus(self, rate: float, plain: float) -> str:
        if self._pace.known:
            return f"{rate:.0f} tok/s vs plain {plain:.0f}"
        return f"{rate / plain:.2f} x plain"

    def _of(self, source: str) -> Acceptance:
        return self._acceptance.setdefault(source, Acceptance())

    def _probing_of(self, source: str) -> Probing:
        return self._probing.setdefault(source, Probing())

    def _enter(self, plan: Plan, offers: Sequence[Offer], context: int, rate: float) -> None:
        """The state of the round that begins."""
        self._plan, self._offers, self._context, self._rate = plan, tuple(offers), context, rate
        self._most = plan.k  # how far this round may go
        self._hoped = self._hoped if plan.probe else 0.0  # acceptance that a probe looks for
        self._entropies: list[float] = []
        self._reach = 1.0  # probability that all drafts so far are kept
