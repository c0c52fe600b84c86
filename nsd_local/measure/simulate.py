"""Predicts the speed of settings and machines that were not run, from recorded rounds and a cost curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nsd_local.decoding.adaptive import Adaptive
from nsd_local.decoding.costs import Costs
from nsd_local.decoding.records import Round, Times, Token
from nsd_local.drafting.draft import Go
from nsd_local.drafting.offer import Offer
from nsd_local.measure.trace import Trace
from nsd_local.verification.rule import Rule

DraftTokens = int | Literal["auto"]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a setting is expected to do."""

    k: DraftTokens
    tokens: float
    rounds: float
    seconds: float

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds

    @property
    def mean_accepted_length(self) -> float:
        return self.tokens / self.rounds


def predict(
    traces: Sequence[Trace], costs: Costs, k: DraftTokens, rule: Rule, *, exact_first: int = 0, seed: int = 0
) -> Prediction:
    """Expected tokens per second over all traces together.

    A fixed k is summed exactly over every way the rounds may fall; `auto` plays the real controller once
    per trace.
    """
    parts: list[Prediction] = []
    for trace in traces:
        kept = trace.acceptance(rule, exact_first) if k != 0 else [0.0] * len(trace)
        if k == "auto":
            parts.append(_play(trace, kept, costs, seed + len(parts)))
        else:
            parts.append(_expect(trace.prompt_tokens, kept, costs, k))
    return Prediction(k, sum(p.tokens for p in parts), sum(p.rounds for p in parts), sum(p.seconds for p in parts))


def _expect(start: int, kept: Sequence[float], costs: Costs, k: int) -> Prediction:
    """Expected rounds and seconds from each position to the end, backwards; a round that drafts j tokens at
    t goes on at t + a + 1 with the probability that a of them are kept.
    """
    n = len(kept)
    seconds, rounds = np.zeros(n + k + 2), np.zeros(n + k + 2)
    for t in range(n - 1, -1, -1):
        j = min(k, n - t - 1)
        context = start + t - 1
        time, passes, reach = costs.round(j, context), 1.0, 1.0
        for a in range(j):
            rejected = reach * (1.0 - kept[t + a])
            time += rejected * seconds[t + a + 1]
            passes += rejected * rounds[t + a + 1]
            reach *= kept[t + a]
        time += reach * seconds[t + j + 1]
        passes += reach * rounds[t + j + 1]
        if j and t + j + 1 < n:  # after a full acceptance the draft model has one token more to read
            time += reach * (costs.draft(2, context) - costs.draft(1, context))
        seconds[t], rounds[t] = time, passes
    return Prediction(k, float(n), float(rounds[0]), float(seconds[0]))


def _play(trace: Trace, kept: Sequence[float], costs: Costs, seed: int) -> Prediction:
    """One run of the adaptive controller over a trace, with uniforms from `seed`."""
    rounds = play(trace, kept, costs, Adaptive(costs), np.random.default_rng(seed))
    return Prediction("auto", len(trace), len(rounds), sum(round.times.total for round in rounds))


def play(trace: Trace, kept: Sequence[float], costs: Costs, length: Adaptive, rng: np.random.Generator) -> list[Round]:
    """The rounds that `length` would have run: drafts at position t are kept with probability kept[t]."""
    n, t, read = len(kept), 0, 0  # `read`: positions that the draft model has in memory
    rounds: list[Round] = []
    while t < n:
        context = trace.prompt_tokens + t - 1
        pending = t - read + 1
        limit = n - t - 1
        offers = (Offer("model", limit, pending=pending),) if limit else ()
        choice = length.choose(limit, context, offers)
        k, passes = _drafted(trace, t, choice.k, length)
        accepted = 0
        while accepted < k and rng.random() < kept[t + accepted]:
            accepted += 1
        draft = costs.drafting(max(passes, 1), context, pending) if passes else 0.0
        times = Times(draft, costs.verify(k + 1, context), other=costs.overhead[0] + k * costs.overhead[1])
        round = _round(len(rounds), context, k, choice.why, kept[t : t + k], accepted, times)
        length.observe(round)
        rounds.append(round)
        if passes:
            read = t + min(accepted + 1, max(k, 1))
        t += accepted + 1
    return rounds


def _drafted(trace: Trace, t: int, most: int, length: Adaptive) -> tuple[int, int]:
    """How many tokens are drawn, and how many draft passes that takes."""
    for position in range(most if trace.entropy else 0):
        go = length.proceed(position, trace.entropy[t + position])
        if go is not Go.ON:
            return position + (go is Go.LAST), position + 1
    return most, most


def _round(index: int, context: int, k: int, why: str, kept: Sequence[float], accepted: int, times: Times) -> Round:
    processed = min(k, accepted + 1)
    token = Token(0, "", "plain", 1.0, None, 1, None, 0.0, index)
    divergence = tuple(1.0 - value for value in kept[:processed])
    return Round(
        index=index,
        n_past=context,
        k=k,
        why=why,
        source="model" if k else "",
        drafted=(0,) * k,
        tokens=(token,) * (accepted + 1),
        accepted=accepted,
        divergence=divergence,
        excess=(0.0,) * processed,
        deviation=(0.0,) * processed,
        rejected_rank=None,
        rejected_in_nucleus=None,
        times=times,
    )
