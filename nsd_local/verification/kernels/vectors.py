"""Whole laws as vectors, for the rules whose formulas are written on vectors: fill, sums, distances, draws.

Sums run in float32 within blocks and in float64 across them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.exponential import weight
from nsd_local.sampling.kernels.prefix import BLOCK, CUT, CUT_ID, MASS, bound_of, token_weight
from nsd_local.verification.kernels.gap import numbers

_ZERO = np.float32(0.0)


@njit
def fill_block(part: Any, out: Any, bound: Any, law: Any) -> None:
    top, high, low, floor, scale = law
    for i in range(part.shape[0]):
        w = weight(part[i], top, high, low, floor) * scale
        out[i] = w if part[i] >= bound else _ZERO


@njit
def fill(row: Any, block_max: Any, state: Any, out: Any) -> None:
    """Writes the law's probabilities into out (V,) float32."""
    law = numbers(state)
    cut, cut_id = np.float32(state[CUT]), int(state[CUT_ID])
    for b in range(block_max.shape[0]):
        start, stop = b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])
        bound, split = bound_of(b, cut, cut_id)
        if block_max[b] < bound:
            out[start:stop] = _ZERO
        elif split:
            for i in range(start, stop):
                out[i] = token_weight(row, state, i) / state[MASS]
        else:
            fill_block(row[start:stop], out[start:stop], bound, law)


@njit
def block_total(part: Any) -> Any:
    total = _ZERO
    for i in range(part.shape[0]):
        total += part[i]
    return total


@njit
def total(values: Any) -> float:
    """Sum of values (V,) float32."""
    out = 0.0
    for start in range(0, values.shape[0], BLOCK):
        out += float(block_total(values[start : start + BLOCK]))
    return out


@njit
def block_dot(a: Any, b: Any) -> Any:
    total = _ZERO
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


@njit
def dot(a: Any, b: Any) -> float:
    """Sum of a * b, both (V,) float32."""
    out = 0.0
    for start in range(0, a.shape[0], BLOCK):
        out += float(block_dot(a[start : start + BLOCK], b[start : start + BLOCK]))
    return out


@njit
def block_distance(a: Any, b: Any) -> Any:
    total = _ZERO
    for i in range(a.shape[0]):
        d = a[i] - b[i]
        total += d if d > _ZERO else -d
    return total


@njit
def distance(a: Any, b: Any) -> float:
    """Total variation: half the sum of |a - b|, both (V,) float32."""
    out = 0.0
    for start in range(0, a.shape[0], BLOCK):
        out += float(block_distance(a[start : start + BLOCK], b[start : start + BLOCK]))
    return out / 2.0


@njit
def draw_from(values: Any, u: float) -> int:
    """Inverse CDF in token-id order of unnormalised values (V,) float32; -1 where all are 0."""
    goal, passed, chosen, before = u * total(values), 0.0, -1, 0.0
    for start in range(0, values.shape[0], BLOCK):
        here = float(block_total(values[start : start + BLOCK]))
        if here > 0.0:
            chosen, before = start, passed
            passed += here
            if passed > goal:
                break
    last = -1
    if chosen >= 0:
        passed = before
        for i in range(chosen, min(chosen + BLOCK, values.shape[0])):
            if values[i] > _ZERO:
                passed += values[i]
                last = i
                if passed > goal:
                    break
    return last


@njit
def block_residual(p: Any, q: Any, scale: Any) -> Any:
    total = _ZERO
    for i in range(p.shape[0]):
        d = scale * p[i] - q[i]
        total += d if d > _ZERO else _ZERO
    return total


@njit
def residual_masses(p: Any, q: Any, scales: Any, masses: Any) -> None:
    """masses[j] = sum of [scales[j] p - q]+. By blocks, so that p and q come from memory once."""
    for start in range(0, p.shape[0], BLOCK):
        p_part, q_part = p[start : start + BLOCK], q[start : start + BLOCK]
        for j in range(scales.shape[0]):
            masses[j] += float(block_residual(p_part, q_part, scales[j]))


@njit
def block_add(p: Any, q: Any, scale: Any, factor: Any, out: Any) -> None:
    for i in range(p.shape[0]):
        d = scale * p[i] - q[i]
        out[i] += factor * (d if d > _ZERO else _ZERO)


@njit
def add_residuals(p: Any, q: Any, scales: Any, factors: Any, out: Any) -> None:
    """out += sum over j of factors[j] [scales[j] p - q]+."""
    for start in range(0, p.shape[0], BLOCK):
        stop = start + BLOCK
        for j in range(scales.shape[0]):
            block_add(p[start:stop], q[start:stop], scales[j], factors[j], out[start:stop])
