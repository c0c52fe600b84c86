"""p and q at one position as whole vectors, and the vector operations that rules are written in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nsd_local.verification.kernels import formulas, vectors

if TYPE_CHECKING:
    from nsd_local.verification.position import Position
    from nsd_local.verification.vector_rule import Vector

_BUFFERS = 6  # more vectors than any rule holds at once


class Laws:
    """What a formula may look at: p and q (V,) float32 at one position, the raw logits, and the place in the round.

    `index` counts drafts from 0 to k-1; `memory` is what the rule's `start` returned. Vectors, also those that the
    methods return, are scratch of the verifier: valid for one position only, not to be written to.
    """

    def __init__(self, n_vocab: int) -> None:
        self.p: Vector = np.zeros(n_vocab, np.float32)
        self.q: Vector = np.zeros(n_vocab, np.float32)
        self._pool = [np.zeros(n_vocab, np.float32) for _ in range(_BUFFERS)]
        self._used = 0

    def take(self, here: Position, index: int, k: int, memory: Any) -> None:
        """Spreads out the laws of `here`, whose p was taken with its entropy."""
        self._shape, self._used = here.p, 0
        self.logits: Vector = here.p.row
        self.token, self.index, self.k, self.memory = here.token, index, k, memory
        vectors.fill(here.p.row, here.p.block_max, here.p.state, self.p)
        if here.point_mass:
            self.q[:] = 0.0
            self.q[here.token] = 1.0
        else:
            vectors.fill(here.q.row, here.q.block_max, here.q.state, self.q)
        self.top = here.p.top
        self.goal = self.p  # of rules that aim at a law of their own

    def _out(self) -> Vector:
        self._used += 1
        return self._pool[self._used - 1]

    @property
    def entropy(self) -> float:
        """Of p, in nats."""
        return self._shape.entropy

    @property
    def best(self) -> float:
        """max p."""
        return float(self.p[self.top])

    def second(self) -> int:
        """The token ranked second in the raw row; the first where there is only one."""
        return self._shape.best(2)[1]

    def shortlist(self, n: int, level: float = 0.0) -> Vector:
        """1 for the target's n best-ranked tokens (ties by lower id) with p >= level and p > 0, else 0."""
        return self._chosen(*self._shape.best(n), level)

    def nucleus(self, theta: float) -> Vector:
        """1 for the tokens of S_theta(p), else 0."""
        return self._chosen(*self._shape.nucleus(theta), 0.0)

    def _chosen(self, cut: float, cut_id: int, level: float) -> Vector:
        out = self._out()
        formulas.chosen(self.logits, self.p, np.float32(cut), cut_id, np.float32(level), out)
        return out

    def point(self, token: int) -> Vector:
        """The point mass at one token."""
        out = self._out()
        out[:] = 0.0
        out[token] = 1.0
        return out

    def over(self, values: Vector, level: float) -> Vector:
        """1 where values > level, else 0."""
        out = self._out()
        formulas.over(values, np.float32(level), out)
        return out

    def ratio(self, p: Vector, q: Vector, lenience: float = 1.0) -> Vector:
        """min(1, p / (lenience q)); a token that q cannot draw counts by p alone."""
        out = self._out()
        formulas.ratio(p, q, np.float32(lenience), out)
        return out

    def above(self, p: Vector, q: Vector, scale: float = 1.0) -> Vector:
        """[scale p - q]+."""
        out = self._out()
        formulas.above(p, q, np.float32(scale), out)
        return out

    def scaled(self, p: Vector, mask: Vector, scale: float) -> Vector:
        """scale p where the mask is 1, else 0."""
        out = self._out()
        formulas.scaled(p, mask, np.float32(scale), out)
        return out

    def blend(self, a: Vector, r: Vector, share: float) -> Vector:
        """q a + share r."""
        out = self._out()
        formulas.blend(self.q, a, r, np.float32(share), out)
        return out

    def thresholds(self, acc: float, single: float) -> Vector:
        """1 where p >= single, else min(1, p / acc)."""
        out = self._out()
        formulas.thresholds(self.p, np.float32(acc), np.float32(single), out)
        return out

    def raised(self, delta: float) -> Vector:
        """min(1, p + sqrt(2 delta p (1 - p)))."""
        out = self._out()
        formulas.raised(self.p, np.float32(delta), out)
        return out

    def without_rejected(self, a: Vector) -> Vector:
        """q a, plus for every rejected token its share of p without that token."""
        share, out = self._out(), self._out()
        formulas.rejected_share(self.p, self.q, a, share)
        formulas.redistribute(self.p, self.q, a, share, np.float32(self.total(share)), out)
        return out

    def total(self, values: Vector) -> float:
        """Sum of values."""
        return float(vectors.total(values))

    def dot(self, a: Vector, b: Vector) -> float:
        """Sum of a b."""
        return float(vectors.dot(a, b))

    def with_residuals(self, a: Vector, weights: Vector, scales: Vector) -> Vector:
        """q a + sum over j of weights[j] times the normalised [scales[j] p - q]+."""
        out = self.blend(a, a, 0.0)
        if len(weights):
            masses = np.zeros(len(weights), np.float64)
            vectors.residual_masses(self.p, self.q, scales, masses)
            factors = np.divide(weights, masses, out=np.zeros_like(masses), where=masses > 0.0)
            vectors.add_residuals(self.p, self.q, scales, factors.astype(np.float32), out)
        return out
