"""How far to draft: the choice of k before each round, and whether to draw one more token within it.

The loop's side of the contract, once per request and then once per round:

    length.begin(metered=..., reproducible=...)
    if length.reads(proposer.offers(1), len(prompt), max_tokens): the draft model reads the prompt, too
    choice = length.choose(limit, context, proposer.offers(limit))
    draft = proposer.propose(choice.k, law, rng, length.proceed, source=choice.source)   # if choice.k
    ... verify, commit ...
    length.observe(round)            # round.why is choice.why, round.source is draft.source

Nothing here may depend on a token drawn in this round or on its probability: that would bias q.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from nsd_local.decoding.records import Round
from nsd_local.decoding.tally import Tally
from nsd_local.drafting.draft import Go
from nsd_local.drafting.offer import Offer
from nsd_local.verification.auto_strength import AutoStrength
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.rule import Exact, Match, Nucleus, Rule

ANY_OFFER = (Offer("model", most=64),)


@dataclass(frozen=True, slots=True)
class Choice:
    """How many tokens to draft in the next round, why, and by which of the offers ("" for none)."""

    k: int
    why: str
    source: str = ""


class DraftLength(Protocol):
    """Chooses k, 0 included."""

    def begin(self, *, metered: bool = True, reproducible: bool = False) -> None:
        """A request starts.

        `metered`: `1 - divergence + deviation` of a position is its acceptance probability (see `tells_acceptance`,
        with the meter on); otherwise only accepted or not is known. `reproducible`: a seed
        was given, so the choices must not depend on the clock or on earlier requests.
        """
        ...

    def reads(self, offers: Sequence[Offer], context: int, tokens: int | None) -> bool:
        """Is it worth while that a draft model reads the prompt before the answer begins?

        `offers` say how much it has not read, `tokens` is the length of the answer at most, if known. Without it,
        the draft model reads the prompt when it is first asked to propose.
        """
        ...

    def choose(self, limit: int, context: int, offers: Sequence[Offer] = ANY_OFFER) -> Choice:
        """k of the next round, `context` tokens being in memory.

        `limit` is the most that fits (context, max_tokens, rollback).
        """
        ...

    def proceed(self, position: int, entropy: float) -> Go:
        """Draw the draft token at `position` (from 0)? Asked before it is drawn; `entropy` of q in nats."""
        ...

    def observe(self, round: Round) -> None:
        """What came of it."""
        ...

    @property
    def off(self) -> bool:
        """Did nothing draft in this request, or was it given up on the way?"""
        ...

    def verdict(self) -> str:
        """One line for the user on the request so far: why k is what it is, or why drafting is off."""
        ...


def tells_acceptance(rule: Rule) -> bool:
    """Is `1 - divergence + deviation` of a position the probability that its draft is kept under this rule?

    Block verification keeps at least as much in expectation, and this says it with far less noise than a count.
    """
    return isinstance(rule, (Exact, Match, Nucleus, AutoStrength, Block, NucleusBlock))


class Fixed:
    """The same k every round, as far as it fits. `off` says why it is 0."""

    def __init__(self, k: int, off: str = "k 0 as asked") -> None:
        self.k, self._off = k, "" if k else off
        self._tally = Tally()

    def begin(self, *, metered: bool = True, reproducible: bool = False) -> None:
        self._tally = Tally()

    def reads(self, offers: Sequence[Offer], context: int, tokens: int | None) -> bool:
        return self.k > 0

    def choose(self, limit: int, context: int, offers: Sequence[Offer] = ANY_OFFER) -> Choice:
        if self.k == 0:
            return Choice(0, self._off)
        if limit < 1:
            return Choice(0, "no room for a draft")
        self._off = "" if offers else "nothing to propose"
        if not offers:
            return Choice(0, self._off)
        k = min(self.k, limit, offers[0].most)
        why = f"k {k} as asked" if k == self.k else f"k {k} of {self.k}: no more fits"
        return Choice(k, why, offers[0].source)

    def proceed(self, position: int, entropy: float) -> Go:
        return Go.ON

    def observe(self, round: Round) -> None:
        self._tally.add(round, None, probe=False)

    @property
    def off(self) -> bool:
        return self._tally.off(self._off)

    def verdict(self) -> str:
        return self._tally.told(self._off) if self.off else f"k {self.k} as asked"
