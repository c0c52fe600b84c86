"""The per-position numbers of a verdict while it grows."""

from __future__ import annotations

import numpy as np

from nsd_local.verification.position import Position


class Log:
    """Rows of numbers, allocated once; a verdict takes copies of the first n."""

    def __init__(self, k_max: int) -> None:
        self.numbers = np.empty((6, k_max), np.float64)  # divergence, excess, deviation, acceptance, p, q
        self.in_nucleus = np.empty(k_max, np.bool_)
        self.rank = np.empty(k_max, np.int64)
        self.n = 0

    @property
    def k_max(self) -> int:
        return self.rank.shape[0]

    def add(self, here: Position, deviation: float, in_nucleus: bool) -> None:
        self.numbers[:, self.n] = (
            here.divergence, here.excess, deviation, here.acceptance, here.p_x, here.q_x,
        )  # fmt: skip
        self.in_nucleus[self.n] = in_nucleus
        self.rank[self.n] = here.rank
        self.n += 1
