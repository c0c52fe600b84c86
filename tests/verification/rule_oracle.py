"""Every token-wise rule's formula in plain float64: acceptance per token, recovery per rejected token, emitted law.

`emitted` sums over all drafted tokens by definition, so nothing about a rule's structure is taken on trust.
"""

from __future__ import annotations

import numpy as np

from tests.verification import oracle


def entropy(p):
    positive = p[p > 0]
    return -(positive * np.log(positive)).sum()


def ratio(p, q):
    return np.array([1.0 if a >= b and a > 0 else (0.0 if b == 0 else a / b) for a, b in zip(p, q, strict=True)])


def shortlist(row, n):
    return np.isin(np.arange(len(row)), oracle.ranking(row)[:n])


def without(p, x):
    rest = p.copy()
    rest[x] = 0.0
    return rest if rest.sum() > 0 else p


def cascade_law(rule, p, q):
    trusted = (p >= (1.0 - rule.alpha) * p.max()) & (p > 0)
    return q * trusted + (1.0 - (q * trusted).sum()) * p


def topp_law(rule, p, row):
    kept = p * oracle.nucleus(p, row, rule.theta)
    return kept / kept.sum()


def cactus_law(rule, p, x):
    """h given that x was drafted."""
    raised = min(1.0, p[x] + np.sqrt(2.0 * rule.delta * p[x] * (1.0 - p[x])))
    h = p * ((1.0 - raised) / (1.0 - p[x]) if p[x] < 1.0 else 0.0)
    h[x] = raised
    return h


def mars_acceptance(rule, row):
    row = np.asarray(row, dtype=np.float64)
    order = oracle.ranking(row)
    a = np.zeros(len(row))
    a[order[0]] = 1.0
    if len(row) > 1 and row[order[0]] > 0 and row[order[1]] > rule.margin * row[order[0]]:
        a[order[1]] = 1.0
    return a


def acceptance(rule, p, q, row):
    """(V,) probability of keeping each token, were it drafted."""
    raised = np.array([cactus_law(rule, p, x)[x] for x in range(len(p))]) if rule.name == "cactus" else None
    formulas = {
        "exact": lambda: ratio(p, q),
        "lenience": lambda: ratio(p, q * rule.l),
        "typical": lambda: (p > min(rule.eps, rule.alpha * np.exp(-entropy(p)))).astype(float),
        "topk": lambda: (shortlist(row, rule.n) & (p > 0)).astype(float),
        "relaxed": lambda: (shortlist(row, rule.n) & (p >= p.max() - rule.delta) & (p > 0)).astype(float),
        "threshold": lambda: np.where((p >= rule.single) & (p > 0), 1.0, np.minimum(p / rule.acc, 1.0)),
        "cactus": lambda: ratio(raised, q),
        "cascade": lambda: ratio(cascade_law(rule, p, q), q),
        "target-topp": lambda: ratio(topp_law(rule, p, row), q),
        "mars": lambda: mars_acceptance(rule, row),
    }
    return formulas[rule.name]()


def recovery(rule, p, q, row, x):
    """(V,) law of the token that replaces a rejected x; not normalised."""
    top = np.eye(len(p))[oracle.ranking(row)[0]]
    formulas = {
        "exact": lambda: np.maximum(p - q, 0.0),
        "lenience": lambda: np.maximum(p - q, 0.0),
        "typical": lambda: p,
        "topk": lambda: p,
        "relaxed": lambda: p,
        "threshold": lambda: without(p, x),
        "cactus": lambda: np.maximum(cactus_law(rule, p, x) - q, 0.0),
        "cascade": lambda: np.maximum(cascade_law(rule, p, q) - q, 0.0),
        "target-topp": lambda: np.maximum(topp_law(rule, p, row) - q, 0.0),
        "mars": lambda: top,
    }
    return formulas[rule.name]()


def emitted(rule, p, q, row):
    """(law of the emitted token, expected acceptance), summed over every token that q may draft."""
    a = acceptance(rule, p, q, row)
    pi = q * a
    for x in np.nonzero((q > 0) & (a < 1.0))[0]:
        r = recovery(rule, p, q, row, x)
        if r.sum() > 1e-14:
            pi += q[x] * (1.0 - a[x]) * r / r.sum()
    return pi, float((q * a).sum())
