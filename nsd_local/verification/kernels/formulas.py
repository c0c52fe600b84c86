"""The vector formulas of the rules, one fused pass each. All vectors (V,) float32; results go into `out`."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit

_ZERO, _ONE = np.float32(0.0), np.float32(1.0)
_TINY = np.float32(1e-38)  # in the place of a q of 0: a token that q cannot draw counts by p alone
_SURE = np.float32(1e-7)  # 1 - p below this is 0


@njit
def ratio(p: Any, q: Any, lenience: Any, out: Any) -> None:
    """min(1, p / (lenience q))."""
    for i in range(p.shape[0]):
        floor = lenience * q[i]
        r = p[i] / (floor if floor > _TINY else _TINY)
        out[i] = r if r < _ONE else _ONE


@njit
def above(p: Any, q: Any, scale: Any, out: Any) -> None:
    """[scale p - q]+."""
    for i in range(p.shape[0]):
        d = scale * p[i] - q[i]
        out[i] = d if d > _ZERO else _ZERO


@njit
def over(p: Any, level: Any, out: Any) -> None:
    """1 where p > level."""
    for i in range(p.shape[0]):
        out[i] = _ONE if p[i] > level else _ZERO


@njit
def chosen(row: Any, p: Any, cut: Any, cut_id: int, level: Any, out: Any) -> None:
    """1 for the tokens of the ranking prefix that ends at (cut, cut_id), with p >= level and p > 0."""
    for i in range(p.shape[0]):
        if row[i] >= cut and p[i] >= level and p[i] > _ZERO:
            out[i] = _ONE
        else:
            out[i] = _ZERO
    for i in range(cut_id + 1, p.shape[0]):
        if row[i] == cut:
            out[i] = _ZERO


@njit
def scaled(p: Any, mask: Any, scale: Any, out: Any) -> None:
    """scale p where the mask is 1."""
    for i in range(p.shape[0]):
        out[i] = p[i] * mask[i] * scale


@njit
def blend(q: Any, a: Any, r: Any, share: Any, out: Any) -> None:
    """q a + share r."""
    for i in range(q.shape[0]):
        out[i] = q[i] * a[i] + share * r[i]


@njit
def thresholds(p: Any, acc: Any, single: Any, out: Any) -> None:
    """1 where p >= single, else min(1, p / acc)."""
    for i in range(p.shape[0]):
        r = p[i] / acc
        r = r if r < _ONE else _ONE
        out[i] = _ONE if p[i] >= single and p[i] > _ZERO else r


@njit
def rejected_share(p: Any, q: Any, a: Any, out: Any) -> None:
    """q (1 - a) / (1 - p), 0 where p is 1: how often a rejection of each token redistributes p without it."""
    for i in range(p.shape[0]):
        rest = _ONE - p[i]
        s = q[i] * (_ONE - a[i]) / (rest if rest > _SURE else _ONE)
        out[i] = s if rest > _SURE else _ZERO


@njit
def redistribute(p: Any, q: Any, a: Any, share: Any, total: Any, out: Any) -> None:
    """q a + p (total - share)."""
    for i in range(p.shape[0]):
        out[i] = q[i] * a[i] + p[i] * (total - share[i])


@njit
def raised(p: Any, delta: Any, out: Any) -> None:
    """min(1, p + sqrt(2 delta p (1 - p)))."""
    two = delta + delta
    for i in range(p.shape[0]):
        h = p[i] + np.sqrt(two * p[i] * (_ONE - p[i]))
        out[i] = h if h < _ONE else _ONE
