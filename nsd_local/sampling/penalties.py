"""Penalties on what was already said, and logit bias: applied to raw logits before a Law shapes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nsd_local import checks
from nsd_local.errors import UsageError

MOST = 1e6  # of a penalty: float32 logits stay finite


@dataclass(frozen=True, slots=True)
class Penalties:
    """Repeat, frequency and presence penalties over the last `last_n` tokens, as llama.cpp applies them.

    For a token that occurs c > 0 times there: a positive logit is divided by `repeat`, any other multiplied
    by it;
    then `c * frequency + presence` is subtracted. `last_n` 0 switches them off, -1 looks at the whole
    history.
    """

    repeat: float = 1.0
    frequency: float = 0.0
    presence: float = 0.0
    last_n: int = 64

    def __post_init__(self) -> None:
        repeat = f"be above 0 ({1.0 / MOST:g} to {MOST:,.0f})"
        checks.number(self, "repeat", lambda value: 1.0 / MOST <= value <= MOST, repeat, name="repeat-penalty")
        finite = f"lie within {MOST:,.0f} of 0"
        for field in ("frequency", "presence"):
            checks.number(self, field, lambda value: abs(value) <= MOST, finite, name=f"{field}-penalty")
        last_n = checks.as_whole("repeat-last-n", self.last_n, -1, must="be -1 (all), 0 (off) or more")
        object.__setattr__(self, "last_n", last_n)

    @property
    def active(self) -> bool:
        neutral = self.repeat == 1.0 and self.frequency == 0.0 and self.presence == 0.0
        return self.last_n != 0 and not neutral

    def window(self, history: Sequence[int]) -> Sequence[int]:
        """The part of a history that counts."""
        return history if self.last_n < 0 else history[max(0, len(history) - self.last_n) :]


def penalize(row: NDArray[np.float32], history: Sequence[int], penalties: Penalties) -> None:
    """Applies the penalties in place to one writable row (V,) float32 that follows `history`."""
    if not penalties.active or not len(history):
        return
    recent = np.asarray(penalties.window(history), dtype=np.int64)
    tokens, counts = np.unique(recent[(recent >= 0) & (recent < row.shape[0])], return_counts=True)
    logits = row[tokens]
    repeat = np.float32(penalties.repeat)
    logits = np.where(logits > 0.0, logits / repeat, logits * repeat)
    row[tokens] = logits - (counts * penalties.frequency + penalties.presence).astype(np.float32)


def bias(row: NDArray[np.float32], logit_bias: Mapping[int, float]) -> None:
    """Adds a bias to single tokens in place; minus infinity forbids a token."""
    check_biased(logit_bias, row.shape[0])
    for token, amount in logit_bias.items():
        row[token] += np.float32(amount)


def check_biased(tokens: Iterable[int], n_vocab: int) -> None:
    """Raises UsageError where one of these tokens has no place in the vocabulary."""
    for token in tokens:
        if not 0 <= token < n_vocab:
            raise UsageError(f"logit bias for token {token}, but the vocabulary has {n_vocab}")


def penalize_block(
    rows: NDArray[np.float32],
    history: Sequence[int],
    drafts: Sequence[int],
    penalties: Penalties,
    logit_bias: Mapping[int, float] | None = None,
) -> None:
    """In place on writable rows (n, V) float32: row i follows `history` and the first i drafts.

    Bias comes first, then penalties (llama.cpp's order). n may be len(drafts) or len(drafts) + 1.
    """
    said = list(penalties.window(history))
    for i, row in enumerate(rows):
        if logit_bias:
            bias(row, logit_bias)
        penalize(row, said, penalties)
        if i < len(drafts):
            said.append(int(drafts[i]))
