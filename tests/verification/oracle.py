"""Verification in float64 with full sorts: so slow that it is obviously right. Shares nothing with the product."""

from __future__ import annotations

import numpy as np


def ranking(row):
    """Token ids by logit descending, id ascending."""
    return sorted(range(len(row)), key=lambda token: (-row[token], token))


def softmax(row, kept):
    """Law over the kept tokens, (V,) float64."""
    law = np.zeros(len(row))
    kept = [token for token in kept if row[token] > -np.inf]
    top = max(row[token] for token in kept)
    for token in kept:
        law[token] = np.exp(row[token] - top)
    return law / law.sum()


def shaped(row, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    """(V,) float64: top-k, top-p, min-p on the law at temperature 1, then the temperature."""
    row = np.asarray(row, dtype=np.float64)
    order = ranking(row)
    if temperature == 0.0:
        law = np.zeros(len(row))
        law[order[0]] = 1.0
        return law
    kept = order[:top_k] if top_k else list(order)
    if top_p < 1.0:
        law, mass, short = softmax(row, kept), 0.0, []
        for token in kept:
            short.append(token)
            mass += law[token]
            if mass >= top_p:
                break
        kept = short
    if min_p > 0.0:
        kept = [token for token in kept if np.exp(row[token] - row[order[0]]) >= min_p]
    return softmax(row / temperature, kept)


def nucleus(p, row, theta):
    """(V,) bool: the smallest set of best-ranked tokens whose mass reaches theta."""
    inside, mass = np.zeros(len(p), dtype=bool), 0.0
    for token in ranking(row):
        if p[token] > 0.0 and (mass < theta or theta >= 1.0):
            inside[token] = True
        mass += p[token]
    return inside


def inverse_cdf(law, u):
    total, last = np.cumsum(law / law.sum()), np.nonzero(law)[0][-1]
    for token in range(len(law)):
        if law[token] > 0.0 and (u < total[token] or token == last):
            return token
    raise AssertionError("a law without mass")


def verify(target, draft, tokens, u_accept, u_last, law, theta, strength):
    """What a verdict says, as a dict, by NSD's rule; strength 0 is exact."""
    out = {"accepted": [], "divergence": [], "excess": [], "deviation": [], "in_nucleus": []}
    for i, x in enumerate(tokens):
        p = shaped(target[i], **law)
        q = np.eye(len(p))[x] if draft is None else shaped(draft[i], **law)
        s = nucleus(p, target[i], theta)
        excess = np.maximum(q - p, 0.0)[s].sum()
        out["divergence"].append(np.abs(p - q).sum() / 2)
        out["excess"].append(excess)
        out["deviation"].append(strength * excess)
        out["in_nucleus"].append(bool(s[x]))
        a = min(1.0, p[x] / q[x])
        if u_accept[i] < a:
            out["accepted"].append("ratio")
        elif s[x] and u_accept[i] < a + strength * (1.0 - a):
            out["accepted"].append("nucleus")
        else:
            return out | {"last_kind": "recovered", "last_token": inverse_cdf(np.maximum(p - q, 0.0), u_last)}
    kind = "bonus" if len(tokens) else "plain"
    return out | {"last_kind": kind, "last_token": inverse_cdf(shaped(target[len(tokens)], **law), u_last)}
