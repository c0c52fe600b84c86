"""A row of logits shaped by a Law: normaliser, entropy, draws, probabilities, ranks."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nsd_local.errors import DecodeError
from nsd_local.sampling.kernels import exponential, prefix, select
from nsd_local.sampling.kernels import shape as kernels

if TYPE_CHECKING:
    from nsd_local.sampling.law import Law

_BROKEN = "The model file or its quantization may be broken"
_PROBLEMS = {
    kernels.HAS_NAN: ("a logit is not a number (NaN)", _BROKEN),
    kernels.ALL_MASKED: (
        "every logit is minus infinity, so no token is possible",
        "A grammar or a logit bias may forbid every token of the vocabulary here; otherwise the model file is broken",
    ),
    kernels.HAS_INFINITY: ("a logit is plus infinity", _BROKEN),
}


@lru_cache(maxsize=64)
def law_array(law: Law) -> NDArray[np.float64]:
    """The Law as kernels read it: (LAW_SIZE,) float64."""
    temperature = 1.0 if law.greedy else law.temperature
    values = [
        *exponential.split_temperature(temperature),
        *exponential.split_temperature(1.0),
        float(law.greedy),
        float(law.top_k),
        law.top_p,
        math.log(law.min_p) if law.min_p > 0.0 else -math.inf,
    ]
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


def frozen(row: NDArray[np.float32]) -> NDArray[np.float32]:
    """A read-only C-contiguous float32 view (a copy only where the row is not): kernels know one array type."""
    view: NDArray[np.float32] = np.ascontiguousarray(row, dtype=np.float32).view()
    view.flags.writeable = False
    return view


class Scratch:
    """Work space of V-sized searches, shared by all shapes of one owner; not for two threads at once."""

    def __init__(self, n_vocab: int) -> None:
        self.found = np.empty(n_vocab, np.int32)
        # the masses of bins; the weights and bins of one block; a copy of the block maxima
        self.bins = (
            np.empty(select.BINS, np.float64),
            np.empty(prefix.BLOCK, np.float32),
            np.empty(prefix.BLOCK, np.int32),
            np.empty(-(-n_vocab // prefix.BLOCK), np.float32),
        )


class Shape:
    """One shaped row. Owns its scratch, so shaping allocates nothing of size V; keeps a view of the row."""

    def __init__(self, n_vocab: int, scratch: Scratch | None = None) -> None:
        blocks = -(-n_vocab // prefix.BLOCK)
        self.n_vocab = n_vocab
        self.scratch = scratch or Scratch(n_vocab)
        self.block_max = np.empty(blocks, np.float32)
        self.block_sum = np.empty(blocks, np.float64)
        self.state = np.zeros(prefix.STATE, np.float64)
        self.row: Any = None

    def take(self, row: NDArray[np.float32], law: Law, *, entropy: bool = False) -> None:
        """Shapes `row` (V,) by `law`. The row must stay as it is while this shape is used.

        Raises DecodeError for NaN, plus infinity, or a row without any possible token.
        """
        if row.shape != (self.n_vocab,):
            raise DecodeError(f"a row of logits has shape {row.shape}, not ({self.n_vocab},)")
        self.row = frozen(row)
        problem = kernels.shape(
            self.row, self.block_max, self.block_sum, law_array(law), self.state, self.scratch.found,
            self.scratch.bins, entropy,
        )  # fmt: skip
        if problem != kernels.FINE:
            raise DecodeError(
                "The model's output is unusable",
                *_PROBLEMS[problem],
            )

    @property
    def mass(self) -> float:
        """The normaliser: sum of exp((logit - max) / T) over the law's support."""
        return float(self.state[prefix.MASS])

    @property
    def entropy(self) -> float:
        """Entropy of the law in nats; only after `take(..., entropy=True)`."""
        rate = (self.state[prefix.HIGH] + self.state[prefix.LOW]) * math.log(2.0)
        return max(0.0, math.log(self.mass) - float(rate * self.state[prefix.MOMENT]) / self.mass)

    @property
    def top(self) -> int:
        """The most probable token, ties by lower id."""
        return int(kernels.first_top(self.row, self.block_max, np.float32(self.state[prefix.TOP])))

    def probability(self, token: int) -> float:
        return float(prefix.token_weight(self.row, self.state, token)) / self.mass

    def mass_ahead(self, token: int) -> float:
        """Probability of the tokens ranked before one that lies in the law."""
        return float(prefix.mass_ahead(self.row, self.block_max, self.state, token)) / self.mass

    def rank(self, token: int) -> int:
        """1-based rank of the token in the raw row (logit descending, id ascending)."""
        return int(prefix.count_ahead(self.row, self.block_max, token)) + 1

    def draw(self, u: float, *, without: int = -1) -> int:
        """Inverse CDF in token-id order at u in [0, 1), leaving out one token if asked; -1 where nothing is
        left.
        """
        return int(prefix.draw(self.row, self.block_sum, self.state, u, without))

    def nucleus(self, theta: float) -> tuple[float, int]:
        """(cut, cut_id) of S_theta: x lies in it iff logit > cut, or logit == cut and x <= cut_id."""
        cut, cut_id = kernels.nucleus(
            self.row, self.block_max, self.state, float(theta), self.scratch.found, self.scratch.bins
        )
        return float(cut), int(cut_id)

    def best(self, n: int) -> tuple[float, int]:
        """(cut, cut_id) of the n best-ranked tokens of the raw row, whether the law keeps them or not."""
        law_cut = self.state[prefix.CUT], self.state[prefix.CUT_ID]
        self.state[prefix.CUT], self.state[prefix.CUT_ID] = prefix.LOWEST, self.n_vocab
        end = select.prefix_end(
            self.row, self.block_max, self.state, True, float(n), self.scratch.found, self.scratch.bins
        )
        self.state[prefix.CUT], self.state[prefix.CUT_ID] = law_cut
        return float(self.row[end]), int(end)

    def narrow(self, theta: float) -> float:
        """Cuts the law down to its nucleus and renormalises; returns the probability it had."""
        before = self.mass
        self.state[prefix.CUT], self.state[prefix.CUT_ID] = self.nucleus(theta)
        prefix.law_mass(self.row, self.block_max, self.block_sum, self.state, False)
        return self.mass / before

    def law(self) -> NDArray[np.float64]:
        """The whole law as (V,) float64, for slower rules and for people; allocates."""
        return np.array([self.probability(token) for token in range(self.n_vocab)])
