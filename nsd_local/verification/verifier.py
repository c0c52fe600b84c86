"""Verification of one round: which drafted tokens are kept, and which token follows."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nsd_local.errors import UsageError
from nsd_local.verification.position import Position
from nsd_local.verification.rule import Exact, Nucleus, Rule
from nsd_local.verification.verdict import Kind, Verdict

if TYPE_CHECKING:
    from nsd_local.sampling.law import Law

# What is left of a budget below this counts as spent, so that no rounding of sums can carry a total past it.
_SPENT = 1e-9


class _Log:
    """The per-position numbers of a verdict while it grows. Allocated once, copied out at the end."""

    def __init__(self, k_max: int) -> None:
        self.numbers = np.empty((5, k_max), np.float64)  # divergence, excess, deviation, p, q
        self.in_nucleus = np.empty(k_max, np.bool_)
        self.rank = np.empty(k_max, np.int64)
        self.n = 0

    def add(self, here: Position, deviation: float, in_nucleus: bool) -> None:
        self.numbers[:, self.n] = here.divergence, here.excess, deviation, here.p_x, here.q_x
        self.in_nucleus[self.n] = in_nucleus
        self.rank[self.n] = here.rank
        self.n += 1


class Verifier:
    """Verifies rounds of up to `k_max` drafts over `n_vocab` tokens. Owns the scratch; one per thread."""

    def __init__(self, n_vocab: int, k_max: int = 64) -> None:
        self.n_vocab = n_vocab
        self._position = Position(n_vocab)
        self._log = _Log(k_max)

    def verify(
        self,
        target_logits: NDArray[np.float32],
        draft_logits: NDArray[np.float32] | None,
        draft_tokens: NDArray[np.int32],
        u_accept: NDArray[np.float64],
        u_last: float,
        law: Law,
        rule: Rule,
        *,
        meter: bool = True,
        remaining: float | None = None,
        exact_positions: int = 0,
        relax_point_mass: bool = True,
    ) -> Verdict:
        """See `verify_block`."""
        if rule.greedy_draft:
            draft_logits = None
        k = self._check(target_logits, draft_logits, draft_tokens, u_accept)
        log, here = self._log, self._position
        log.n = 0
        accepted: list[Kind] = []
        for i in range(k):
            here.take(target_logits[i], None if draft_logits is None else draft_logits[i], int(draft_tokens[i]), law)
            exact = i < exact_positions or (here.point_mass and not relax_point_mass)
            kind, deviation = self._decide(here, float(u_accept[i]), rule, exact, meter, remaining)
            if remaining is not None:
                remaining -= deviation
            log.add(here, deviation, isinstance(rule, Nucleus) and here.in_nucleus(rule.theta))
            if kind is None:
                return self._end(accepted, "recovered", here.draw_residual(u_last))
            accepted.append(kind)
        here.p.take(target_logits[k], law)
        return self._end(accepted, "bonus" if k else "plain", here.p.draw(u_last))

    def _decide(
        self, here: Position, u: float, rule: Rule, exact: bool, meter: bool, remaining: float | None
    ) -> tuple[Kind | None, float]:
        """(kind or None for a rejection, deviation spent); NaN where a relaxed position went unmeasured."""
        ratio = here.ratio
        if not isinstance(rule, Nucleus):
            if meter:
                here.measure(0.0)
            return ("ratio" if u < ratio else None), 0.0
        strength = 0.0 if exact else rule.strength
        limit = min(math.inf if rule.cap is None else rule.cap, math.inf if remaining is None else remaining - _SPENT)
        if meter or (strength > 0.0 and limit < 1.0):
            here.measure(rule.theta)
        deviation = 0.0 if strength == 0.0 else strength * here.excess
        if deviation > limit and here.excess > 0.0:
            deviation = max(0.0, limit)
            strength = deviation / here.excess
        if u < ratio:
            return "ratio", deviation
        if strength > 0.0 and u < ratio + strength * (1.0 - ratio) and here.in_nucleus(rule.theta):
            return "nucleus", deviation
        return None, deviation

    def _end(self, accepted: list[Kind], kind: Kind, token: int) -> Verdict:
        log, p = self._log, self._position.p
        numbers = log.numbers[:, : log.n].copy()
        return Verdict(
            accepted=accepted,
            last_kind=kind,
            last_token=token,
            divergence=numbers[0],
            excess=numbers[1],
            deviation=numbers[2],
            in_nucleus=log.in_nucleus[: log.n].copy(),
            p=numbers[3],
            q=numbers[4],
            rank=log.rank[: log.n].copy(),
            last_p=p.probability(token),
            last_rank=p.rank(token),
        )

    def _check(
        self,
        target_logits: NDArray[np.float32],
        draft_logits: NDArray[np.float32] | None,
        draft_tokens: NDArray[np.int32],
        u_accept: NDArray[np.float64],
    ) -> int:
        """k; raises UsageError when the arrays do not fit together."""
        k = len(draft_tokens)
        if k > self._log.rank.shape[0]:
            raise UsageError(f"a round of {k} drafts is longer than this verifier's {self._log.rank.shape[0]}")
        if target_logits.shape != (k + 1, self.n_vocab):
            raise UsageError(f"target logits have shape {target_logits.shape}, not {(k + 1, self.n_vocab)}")
        if draft_logits is not None and draft_logits.shape != (k, self.n_vocab):
            raise UsageError(f"draft logits have shape {draft_logits.shape}, not {(k, self.n_vocab)}")
        if len(u_accept) < k:
            raise UsageError(f"{len(u_accept)} uniforms for {k} drafts")
        if any(not 0 <= token < self.n_vocab for token in draft_tokens):
            raise UsageError(f"a drafted token lies outside the vocabulary of {self.n_vocab}")
        return k


_local = threading.local()


def verify_block(
    target_logits: NDArray[np.float32],
    draft_logits: NDArray[np.float32] | None,
    draft_tokens: NDArray[np.int32],
    u_accept: NDArray[np.float64],
    u_last: float,
    law: Law,
    rule: Rule | None = None,
    *,
    meter: bool = True,
    remaining: float | None = None,
    exact_positions: int = 0,
    relax_point_mass: bool = True,
) -> Verdict:
    """Verifies one round of drafts (DESIGN section 3).

    target_logits (k+1, V) float32; draft_logits (k, V) float32, or None for point-mass drafts; draft_tokens (k,)
    int32; u_accept (k,) float64 uniforms in [0, 1), one per draft; u_last the uniform of the last token. The
    same
    uniforms are consumed by every rule. Logits may be -inf; NaN raises DecodeError.

    `meter` False leaves divergence and excess unmeasured (NaN) where the rule does not need them.
    `remaining` is
    what is left of the request's budget of deviation: the sum of the deviations never exceeds it. The first
    `exact_positions` positions are verified exactly; so are point-mass drafts unless `relax_point_mass`.
    """
    n_vocab, k = target_logits.shape[-1], len(draft_tokens)
    verifier: Verifier | None = getattr(_local, "verifier", None)
    if verifier is None or verifier.n_vocab != n_vocab or verifier._log.rank.shape[0] < k:
        verifier = _local.verifier = Verifier(n_vocab, max(k, 64))
    return verifier.verify(
        target_logits, draft_logits, draft_tokens, u_accept, u_last, law, rule or Exact(), meter=meter,
        remaining=remaining, exact_positions=exact_positions, relax_point_mass=relax_point_mass,
    )  # fmt: skip
