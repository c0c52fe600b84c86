"""One position of a round: the target's and the draft's law there, compared."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nsd_local.sampling.kernels.prefix import inside
from nsd_local.sampling.kernels.shape import NEGLIGIBLE
from nsd_local.sampling.shape import Scratch, Shape
from nsd_local.verification.kernels.block import draw_surplus, goal_of, surplus
from nsd_local.verification.kernels.gap import draw_gap, gap

if TYPE_CHECKING:
    from nsd_local.sampling.law import Law

_ROUNDING = 1e-6
_NOTHING = (np.float32(np.inf), -1)  # the empty prefix of a ranking

Pull = tuple[float, float]  # (up, down) of NSD's output law: strength, strength * E_S / D


class Position:
    """p and q at one position for a drafted token x. Each number is worked out when asked for.

    `q` is the point mass at x when no draft row is given. One object serves position after position.
    """

    def __init__(self, n_vocab: int) -> None:
        scratch = Scratch(n_vocab)
        self.p = Shape(n_vocab, scratch)
        self.q = Shape(n_vocab, scratch)
        self._gain = np.empty(self.p.block_sum.shape[0], np.float64)  # block sums of the residual

    def take(
        self,
        p_row: NDArray[np.float32],
        q_row: NDArray[np.float32] | None,
        token: int,
        law: Law,
        *,
        entropy: bool = False,
    ) -> None:
        """Shapes both rows (V,) float32. Raises DecodeError when a row is unusable."""
        self.token = token
        self.p.take(p_row, law, entropy=entropy)
        self.p_x = self.p.probability(token)
        self.point_mass = q_row is None
        self.q_x = 1.0
        if q_row is not None:
            self.q.take(q_row, law)
            self.q_x = self.q.probability(token)
        self.rank = self.p.rank(token)
        self.nucleus: tuple[np.float32, int] | None = None  # (cut, cut_id) once it was needed
        self._measured = False
        self.divergence = self.excess = self.acceptance = math.nan

    @property
    def ratio(self) -> float:
        """min(1, p(x)/q(x)); a token that q cannot have drawn counts by p alone."""
        if self.p_x >= self.q_x:
            return 1.0 if self.p_x > 0.0 else 0.0
        return self.p_x / self.q_x

    def in_nucleus(self, theta: float) -> bool:
        """x in S_theta(p): the mass ranked before it is below theta."""
        if self.p_x <= 0.0 or theta <= 0.0:
            return False
        if self.nucleus is not None:
            return bool(inside(self.p.row[self.token], self.token, *self.nucleus))
        if self.p_x > max(1.0 - theta, NEGLIGIBLE):
            return True  # what is left of 1 for the tokens before it cannot reach theta
        if theta < 1.0 - (self.p.n_vocab - self.rank + 1) * self.p_x - _ROUNDING:
            return False  # it and all after it are too small together to leave the tokens before it under theta
        if theta < 1.0:
            return self.p.mass_ahead(self.token) < theta
        self.find_nucleus(theta)
        return self.in_nucleus(theta)

    def find_nucleus(self, theta: float) -> None:
        cut, cut_id = self.p.nucleus(theta)
        self.nucleus = (np.float32(cut), cut_id)

    def measure(self, theta: float) -> None:
        """Fills `divergence` = TV(p, q) and `excess` = E_S of the nucleus at theta: one pass over both rows."""
        self.find_nucleus(theta)
        if self.point_mass:
            self.divergence = max(0.0, 1.0 - self.p_x)
            self.excess = self.divergence if self.in_nucleus(theta) else 0.0
        else:
            self._gap()

    def _gap(self) -> None:
        cut, cut_id = self.nucleus or _NOTHING
        p, q = self.p, self.q
        distance, excess = gap(
            p.row, p.block_max, p.block_sum, p.state, q.row, q.block_max, q.state, cut, cut_id, self._gain
        )
        self._measured = True
        self.divergence = min(1.0, float(distance))
        if self.nucleus is not None:
            self.excess = min(self.divergence, float(excess))

    def draw_residual(self, u: float) -> int:
        """A token of [p-q]+ normalised. Where rounding leaves nothing of it (p = q), a token of p."""
        if self.point_mass:
            token = self.p.draw(u, without=self.token)
        else:
            if not self._measured:
                self._gap()
            token = int(draw_gap(self.p.row, self.p.state, self.q.row, self.q.state, self._gain, u))
        return token if token >= 0 else self.p.draw(u)

    def goal(self, pull: Pull) -> float:
        """pi(x) of NSD's output law; needs the nucleus where it pulls."""
        lies_inside = self.nucleus is not None and bool(inside(self.p.row[self.token], self.token, *self.nucleus))
        return float(goal_of(self.p_x, self.q_x, lies_inside, *pull))

    def surplus(self, weight: float, plain: float, pull: Pull) -> tuple[float, float]:
        """(sum of [weight pi - q]+, sum of [plain p - q]+) with pi of `goal`; also prepares `draw_surplus`."""
        if self.point_mass:
            return weight * (1.0 - self.goal(pull)), plain * (1.0 - self.p_x)
        p, q = self.p, self.q
        cut, cut_id = self.nucleus or _NOTHING
        up, down = pull
        both = surplus(
            p.row, p.block_max, p.state, q.row, q.block_max, q.state, cut, cut_id, weight, plain, up, down, self._gain
        )
        return float(both[0]), float(both[1])

    def draw_surplus(self, weight: float, pull: Pull, u: float) -> int:
        """A token of [weight pi - q]+ normalised, after `surplus` with the same weight; of p where that is empty."""
        if self.point_mass:
            token = self.p.draw(u, without=self.token)
        else:
            p, q = self.p, self.q
            cut, cut_id = self.nucleus or _NOTHING
            up, down = pull
            token = int(draw_surplus(p.row, p.state, q.row, q.state, cut, cut_id, weight, up, down, self._gain, u))
        return token if token >= 0 else self.p.draw(u)
