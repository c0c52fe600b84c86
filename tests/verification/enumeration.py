"""The law of an emitted token, read off verify_block by bisecting its uniforms: no internals, no sampling error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from nsd_local.sampling import Law
from nsd_local.verification import Rule, Verdict, verify_block

STEPS = 34  # bisections: 2**-34 is far below float32


def boundary(holds: Callable[[float], bool]) -> float:
    """The u in [0, 1] up to which `holds` is true; it is true below and false above."""
    low, high = 0.0, 1.0
    if not holds(0.0):
        return 0.0
    for _ in range(STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return (low + high) / 2.0


def drawn_law(token_at: Callable[[float], int], vocab: int) -> np.ndarray:
    """(V,) the law of an inverse-CDF draw in token-id order."""
    edges = [0.0] + [boundary(lambda u, t=t: token_at(u) <= t) for t in range(vocab - 1)] + [1.0]
    return np.diff(edges)


class Step:
    """One drafted position: every drafted token tried, the emitted law put together."""

    def __init__(self, p_row, q_row, law: Law, rule: Rule, **options) -> None:
        self.target = np.array([p_row, p_row], np.float32)
        self.draft = np.array([q_row], np.float32)
        self.law, self.rule, self.options = law, rule, options
        self.vocab = self.target.shape[1]

    def verdict(self, token: int, u: float, u_last: float = 0.5) -> Verdict:
        return verify_block(
            self.target, self.draft, np.array([token], np.int32), np.array([u]), u_last, self.law, self.rule,
            **self.options,
        )  # fmt: skip

    def acceptance(self, token: int) -> float:
        return boundary(lambda u: bool(self.verdict(token, u).accepted))

    def emitted(self, q: np.ndarray) -> tuple[np.ndarray, float]:
        """(law of the emitted token (V,), expected acceptance) when drafts come from q (V,) float64."""
        out, kept = np.zeros(self.vocab), 0.0
        for token in np.nonzero(q)[0]:
            a = self.acceptance(token)
            out[token] += q[token] * a
            kept += q[token] * a
            if a < 1.0 - 1e-9:
                worst = min(a + 1e-7, 1.0 - 1e-12)
                recovery = drawn_law(lambda u, t=token, w=worst: self.verdict(t, w, u).last_token, self.vocab)
                out += q[token] * (1.0 - a) * recovery
        return out, kept


def distance(a: np.ndarray, b: np.ndarray) -> float:
    """Total variation."""
    return float(np.abs(a - b).sum() / 2.0)
