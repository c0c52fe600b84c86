"""Block verification in float64, and its output law by exact enumeration over every draft of a tiny process."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.verification import oracle


def nsd_law(p, q, inside, strength):
    """(pi, E_S): what NSD emits, and its excess."""
    excess = np.maximum(q - p, 0.0)[inside].sum()
    distance = np.abs(p - q).sum() / 2.0
    if distance == 0.0:
        return p.copy(), 0.0
    pull = inside * np.maximum(q - p, 0.0) - excess / distance * np.maximum(p - q, 0.0)
    return p + strength * pull, excess


def plan(goals, qs, tokens):
    """(h_1..h_k, residual laws after 0..k-1 kept drafts) for one drafted path."""
    k, w = len(tokens), [1.0]
    for goal, q, x in zip(goals, qs, tokens, strict=True):
        w.append(min(1.0, w[-1] * goal[x] / q[x]))
    residuals = [np.maximum(w[i] * goals[i] - qs[i], 0.0) for i in range(k)]
    h = []
    for i in range(1, k):
        rest = residuals[i].sum()
        h.append(1.0 if w[i] >= 1.0 else rest / (rest + 1.0 - w[i]))
    return [*h, w[k]] if k else [], residuals


def kept(h, u):
    return max((i + 1 for i in range(len(h)) if u[i] < h[i]), default=0)


class Process:
    """A random history-dependent pair: every prefix has laws p and q of its own."""

    def __init__(self, seed, vocab=3, theta=0.8, strength=1.0, spread=1.2):
        self.seed, self.vocab, self.theta, self.strength, self.spread = seed, vocab, theta, strength, spread

    def rows(self, prefix):
        """(p_row, q_row) of logits after a prefix, float32."""
        rng = np.random.default_rng([self.seed, len(prefix), *prefix])
        p = rng.normal(0.0, self.spread, self.vocab)
        return p.astype(np.float32), (p + rng.normal(0.0, self.spread, self.vocab)).astype(np.float32)

    def laws(self, prefix):
        """(p, q, pi, E_S) after a prefix."""
        p_row, q_row = self.rows(prefix)
        p, q = oracle.shaped(p_row), oracle.shaped(q_row)
        pi, excess = nsd_law(p, q, oracle.nucleus(p, p_row, self.theta), self.strength)
        return p, q, pi, excess

    def chain(self, k, relaxed):
        """{sequence of k + 1 tokens: probability}: pi (or p) at k drafted positions, then p."""
        out = {}
        for sequence in product(range(self.vocab), repeat=k + 1):
            mass = 1.0
            for i, x in enumerate(sequence):
                p, _, pi, _ = self.laws(sequence[:i])
                mass *= (pi if relaxed and i < k else p)[x]
            out[sequence] = mass
        return out

    def enumerate_block(self, k, relaxed):
        """({sequence: probability}, expected kept drafts); what follows a recovered token comes from the chain."""
        out, expected = dict.fromkeys(product(range(self.vocab), repeat=k + 1), 0.0), 0.0
        chain = self.chain(k, relaxed)
        for path in product(range(self.vocab), repeat=k):
            laws = [self.laws(path[:i]) for i in range(k)]
            drafted = np.prod([laws[i][1][x] for i, x in enumerate(path)])
            h, residuals = plan([one[2 if relaxed else 0] for one in laws], [one[1] for one in laws], path)
            left = drafted  # probability that no longer prefix survived
            for i in range(k, -1, -1):
                here = left * (h[i - 1] if i else 1.0)
                left -= here
                expected += i * here
                last = self.laws(path)[0] if i == k else residuals[i]
                if last.sum() < 1e-13:  # pi = q but for rounding: nothing is rejected here
                    last = self.laws(path[:i])[2 if relaxed else 0]
                if here > 0.0:
                    self._spread(out, chain, path[:i], here * last / last.sum())
        return out, expected

    def _spread(self, out, chain, prefix, law):
        """Adds prefix + one token of `law` + the chain's continuation."""
        for x in range(self.vocab):
            start = (*prefix, x)
            ends = [s for s in chain if s[: len(start)] == start]
            total = sum(chain[s] for s in ends)
            for s in ends:
                out[s] += law[x] * chain[s] / total

    def expected_token_wise(self, k, relaxed):
        """Expected kept drafts of the token-wise rule with the same law."""
        total = 0.0
        for n in range(1, k + 1):
            for path in product(range(self.vocab), repeat=n):
                mass = 1.0
                for i, x in enumerate(path):
                    p, q, pi, _ = self.laws(path[:i])
                    mass *= min(q[x], (pi if relaxed else p)[x])
                total += mass
        return total
