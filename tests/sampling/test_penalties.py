"""Penalties against the formula written out for one token at a time."""

from __future__ import annotations

import numpy as np
import pytest

from nsd_local.errors import UsageError
from nsd_local.sampling import Penalties
from nsd_local.sampling.penalties import bias, penalize, penalize_block


def plainly(row: np.ndarray, history: list[int], penalties: Penalties) -> np.ndarray:
    """llama.cpp's loop over all candidates."""
    out = row.astype(np.float64)
    recent = history if penalties.last_n < 0 else history[len(history) - min(penalties.last_n, len(history)) :]
    for token in range(len(out)):
        count = recent.count(token)
        if count:
            out[token] = out[token] * penalties.repeat if out[token] <= 0 else out[token] / penalties.repeat
            out[token] -= count * penalties.frequency + penalties.presence
    return out


@pytest.mark.parametrize("last_n", [-1, 0, 1, 3, 64])
def test_penalties_are_llama_cpps(last_n: int) -> None:
    rng = np.random.default_rng(last_n + 5)
    row = rng.normal(0.0, 2.0, 12).astype(np.float32)
    row[3] = -np.inf
    history = [3, 1, 1, 4, 1, 5, 9, 2, 6, 5]
    penalties = Penalties(repeat=1.3, frequency=0.2, presence=0.4, last_n=last_n)
    expected = plainly(row, history, penalties)
    penalize(row, history, penalties)
    np.testing.assert_allclose(row, expected, rtol=1e-6)


def test_inside_a_block_the_history_includes_earlier_drafts() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(0.0, 2.0, (4, 8)).astype(np.float32)
    penalties = Penalties(repeat=1.5, presence=0.1, last_n=3)
    history, drafts = [0, 7], [5, 5, 2]
    expected = [plainly(rows[i], history + drafts[:i], penalties) for i in range(4)]
    penalize_block(rows, history, drafts, penalties)
    np.testing.assert_allclose(rows, expected, rtol=1e-6)


def test_bias_comes_before_penalties() -> None:
    row = np.array([[-1.0, 0.0, 2.0]], np.float32)
    penalize_block(row, [0], [], Penalties(repeat=2.0), {0: 5.0, 2: -np.inf})
    assert row.tolist() == [[2.0, 0.0, -np.inf]]


def test_neutral_penalties_change_nothing() -> None:
    row = np.array([1.0, -1.0], np.float32)
    penalize(row, [0, 1], Penalties())
    penalize(row, [0, 1], Penalties(repeat=2.0, last_n=0))
    assert row.tolist() == [1.0, -1.0]


def test_nonsense_is_refused() -> None:
    for options in ({"repeat": 0.0}, {"repeat": float("nan")}, {"last_n": -2}, {"presence": float("inf")}):
        with pytest.raises(UsageError):
            Penalties(**options)
    with pytest.raises(UsageError, match="vocabulary has 2"):
        bias(np.zeros(2, np.float32), {2: 1.0})
