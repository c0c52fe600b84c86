"""p and q at one position as whole vectors, for the rules that are formulas on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.verification.kernels import vectors

if TYPE_CHECKING:
    from nsd_local.verification.position import Position
    from nsd_local.verification.vector_rule import Vector


class Laws:
    """What a formula may look at: p and q (V,) float32 at one position, the raw logits, and the place in the round.

    `index` counts drafts from 0 to k-1; `memory` is what the rule's `start` returned. The arrays are scratch of the
    verifier: valid for one position only, not to be written to.
    """

    def __init__(self, n_vocab: int) -> None:
        self.p: Vector = np.zeros(n_vocab, np.float32)
        self.q: Vector = np.zeros(n_vocab, np.float32)

    def take(self, here: Position, index: int, k: int, memory: Any) -> None:
        """Spreads out the laws of `here`, whose p was taken with its entropy."""
        self._shape = here.p
        self.logits: Vector = here.p.row
        self.token, self.index, self.k, self.memory = here.token, index, k, memory
        vectors.fill(here.p.row, here.p.block_max, here.p.state, self.p)
        if here.point_mass:
            self.q[:] = 0.0
            self.q[here.token] = 1.0
        else:
            vectors.fill(here.q.row, here.q.block_max, here.q.state, self.q)
        self.top = here.p.top

    @property
    def entropy(self) -> float:
        """Of p, in nats."""
        return self._shape.entropy

    @property
    def best(self) -> float:
        """max p."""
        return float(self.p[self.top])

    def shortlist(self, n: int) -> NDArray[np.bool_]:
        """(V,) mask of the target's n best-ranked tokens, ties by lower id."""
        return self._shape.members(*self._shape.best(n))

    def nucleus(self, theta: float) -> NDArray[np.bool_]:
        """(V,) mask of S_theta(p)."""
        return self._shape.members(*self._shape.nucleus(theta))

    def point(self, token: int) -> Vector:
        """The point mass at one token."""
        law = np.zeros_like(self.p)
        law[token] = 1.0
        return law

    def total(self, values: Vector) -> float:
        """Sum of values (V,)."""
        return float(vectors.total(values))

    def with_scaled_residuals(self, base: Vector, weights: Vector, scales: Vector) -> Vector:
        """base + sum over j of weights[j] * normalised [scales[j] p - q]+; base (V,) is overwritten."""
        if len(weights):
            masses = np.zeros(len(weights), np.float64)
            vectors.residual_masses(self.p, self.q, scales, masses)
            factors = np.divide(weights, masses, out=np.zeros_like(masses), where=masses > 0.0)
            vectors.add_residuals(self.p, self.q, scales, factors.astype(np.float32), base)
        return base
