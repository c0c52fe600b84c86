"""Verification of one round: which drafted tokens are kept, and which token follows."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.errors import UsageError
from nsd_local.verification.block import Block, NucleusBlock
from nsd_local.verification.block_judge import BlockJudge, Take
from nsd_local.verification.limits import Limits
from nsd_local.verification.log import Log
from nsd_local.verification.plain import TargetTopP
from nsd_local.verification.position import Position
from nsd_local.verification.ratio_judge import RatioJudge
from nsd_local.verification.rule import Exact, Nucleus, Rule
from nsd_local.verification.vector_judge import VectorJudge
from nsd_local.verification.vector_rule import VectorRule
from nsd_local.verification.verdict import Kind, Verdict

if TYPE_CHECKING:
    from nsd_local.sampling.law import Law


class Verifier:
    """Verifies rounds of up to `k_max` drafts over `n_vocab` tokens. Owns the scratch; one per thread."""

    def __init__(self, n_vocab: int, k_max: int = 64) -> None:
        self.n_vocab = n_vocab
        self._position = Position(n_vocab)
        self._log = Log(k_max)
        self._ratio = RatioJudge()
        self._block = BlockJudge(self._position, self._log)
        self._vector: VectorJudge | None = None  # made when first needed: it owns two more vectors of V

    @property
    def k_max(self) -> int:
        return self._log.k_max

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
        memory: Any = None,
    ) -> Verdict:
        """See `verify_block`."""
        if rule.greedy_draft:
            draft_logits = None
        k = self._check(target_logits, draft_logits, draft_tokens, u_accept)
        rule.check_law(law)
        if isinstance(rule, NucleusBlock) and draft_logits is None and not relax_point_mass:
            rule = Nucleus(rule.theta, rule.strength, rule.cap)  # nothing is gained by judging point masses together
        limits = Limits(meter, remaining)
        judge = self._judge(rule, limits, rule.start() if memory is None else memory)
        here, self._log.n = self._position, 0

        def take(i: int) -> bool:
            """Shapes position i; must it be verified exactly?"""
            q_row = None if draft_logits is None else draft_logits[i]
            here.take(target_logits[i], q_row, int(draft_tokens[i]), law, entropy=judge is self._vector)
            return i < exact_positions or (here.point_mass and not relax_point_mass)

        if judge is self._block:
            kinds, token = self._block.run(k, take, u_accept, u_last) if k else ([], None)
        else:
            kinds, token = self._one_by_one(judge, k, take, u_accept, u_last, getattr(rule, "theta", None))
        if token is not None:
            return self._verdict(kinds, "recovered", token)
        return self._bonus(kinds, "bonus" if k else "plain", target_logits[k], u_last, law, rule)

    def _judge(self, rule: Rule, limits: Limits, memory: Any) -> RatioJudge | VectorJudge | BlockJudge:
        """The judge of this rule, ready for a round."""
        if isinstance(rule, NucleusBlock):
            self._block.begin(rule.theta, rule.strength, rule.cap, limits)
            return self._block
        if isinstance(rule, Block):
            self._block.begin(None, 0.0, None, limits)
            return self._block
        if isinstance(rule, VectorRule):
            if self._vector is None:
                self._vector = VectorJudge(self.n_vocab)
            self._vector.begin(rule, limits, memory)
            return self._vector
        self._ratio.begin(rule, limits, memory)
        return self._ratio

    def _one_by_one(
        self, judge: Any, k: int, take: Take, u_accept: NDArray[np.float64], u_last: float, theta: float | None
    ) -> tuple[list[Kind], int | None]:
        """(kinds of the kept drafts, token drawn at the first rejection, or None if there was none)."""
        here = self._position
        kinds: list[Kind] = []
        for i in range(k):
            exact = take(i)
            kind, deviation = judge.decide(here, float(u_accept[i]), exact, i, k)
            self._log.add(here, deviation, theta is not None and here.in_nucleus(theta))
            if kind is None:
                return kinds, judge.recover(here, u_last)
            kinds.append(kind)
        judge.bonus()
        return kinds, None

    def _bonus(
        self, kinds: list[Kind], kind: Kind, row: NDArray[np.float32], u: float, law: Law, rule: Rule
    ) -> Verdict:
        """The verdict of a round whose drafts were all kept: one more token of the target's law."""
        p, kept = self._position.p, 1.0
        p.take(row, law)
        if isinstance(rule, TargetTopP):
            kept = p.narrow(rule.theta)
        return self._verdict(kinds, kind, p.draw(u), kept)

    def _verdict(self, accepted: list[Kind], kind: Kind, token: int, kept: float = 1.0) -> Verdict:
        """`kept` is the share of p that the last token's law left standing."""
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
            p=numbers[4],
            q=numbers[5],
            rank=log.rank[: log.n].copy(),
            last_p=p.probability(token) * kept,
            last_rank=p.rank(token),
            acceptance=numbers[3],
            last_deviation=max(0.0, 1.0 - kept),
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
        if k > self.k_max:
            raise UsageError(f"a round of {k} drafts is longer than this verifier's {self.k_max}")
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
    memory: Any = None,
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
    `memory` is what `rule.start()` returned at the beginning of the request; without it every call stands alone.
    """
    n_vocab, k = target_logits.shape[-1], len(draft_tokens)
    verifier: Verifier | None = getattr(_local, "verifier", None)
    if verifier is None or verifier.n_vocab != n_vocab or verifier.k_max < k:
        verifier = _local.verifier = Verifier(n_vocab, max(k, 64))
    return verifier.verify(
        target_logits, draft_logits, draft_tokens, u_accept, u_last, law, rule or Exact(), meter=meter,
        remaining=remaining, exact_positions=exact_positions, relax_point_mass=relax_point_mass, memory=memory,
    )  # fmt: skip
