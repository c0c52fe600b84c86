"""What a verification says about one round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Kind = Literal["ratio", "nucleus", "recovered", "bonus", "plain"]
KINDS: tuple[Kind, ...] = ("ratio", "nucleus", "recovered", "bonus", "plain")
MEANINGS: dict[Kind, str] = {
    "ratio": "drafted, kept by the ratio test",
    "nucleus": "drafted, dropped by exact verification, kept by the nucleus rule",
    "recovered": "drawn from the residual at the first rejection",
    "bonus": "drawn from the target after all drafts were kept",
    "plain": "decoded without drafting",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one round: which drafted tokens are kept, and the token that follows them.

    The arrays cover the n processed positions: the accepted ones and the first rejected one. Without the
    meter `divergence`, `excess` and `deviation` are NaN where the rule did not need them.
    """

    accepted: list[Kind]  # "ratio" or "nucleus", one per kept draft
    last_kind: Kind  # "recovered" or "bonus" ("plain" when nothing was drafted)
    last_token: int
    divergence: NDArray[np.float64]  # (n,) TV(p, q)
    excess: NDArray[np.float64]  # (n,) E_S
    deviation: NDArray[np.float64]  # (n,) what the rule spent: strength * E_S for nucleus, 0 for exact
    in_nucleus: NDArray[np.bool_]  # (n,) the drafted token lies in S_theta(p)
    p: NDArray[np.float64]  # (n,) target probability of the drafted token
    q: NDArray[np.float64]  # (n,) draft probability of the drafted token
    rank: NDArray[np.int64]  # (n,) 1-based rank of the drafted token in the target's row
    last_p: float  # target probability of last_token at its position
    last_rank: int
    # (n,) probability, over drafts from q, that the rule keeps the draft; of block rules, that the token-wise rule with
    # the same law does
    acceptance: NDArray[np.float64]
    last_deviation: float = 0.0  # of the last token's own law; above 0 only for target-topp
