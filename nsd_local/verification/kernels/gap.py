"""The distance between p and q, the excess in the nucleus, and draws from the residual [p-q]+."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.exponential import weight
from nsd_local.sampling.kernels.prefix import (
    BLOCK,
    CUT,
    CUT_ID,
    FLOOR,
    HIGH,
    LOW,
    MASS,
    TOP,
    bound_of,
    inside,
    token_weight,
)

_ZERO = np.float32(0.0)


@njit
def numbers(state: Any) -> Any:
    """(top, high, low, floor, 1/mass) of a law as float32."""
    return (
        np.float32(state[TOP]),
        np.float32(state[HIGH]),
        np.float32(state[LOW]),
        np.float32(state[FLOOR]),
        np.float32(1.0 / state[MASS]),
    )


@njit
def block_gap(p_part: Any, q_part: Any, p_bound: Any, q_bound: Any, s_bound: Any, P: Any, Q: Any) -> Any:
    """(sum of [p-q]+, sum over the nucleus of [q-p]+) of a block that no prefix ends in."""
    p_top, p_high, p_low, p_floor, p_scale = P
    q_top, q_high, q_low, q_floor, q_scale = Q
    gain, excess = _ZERO, _ZERO
    for i in range(p_part.shape[0]):
        p = weight(p_part[i], p_top, p_high, p_low, p_floor) * p_scale
        q = weight(q_part[i], q_top, q_high, q_low, q_floor) * q_scale
        p = p if p_part[i] >= p_bound else _ZERO
        q = q if q_part[i] >= q_bound else _ZERO
        d = p - q
        gain += d if d > _ZERO else _ZERO
        e = d if d < _ZERO else _ZERO
        excess -= e if p_part[i] >= s_bound else _ZERO
    return gain, excess


@njit
def split_gap(
    p_row: Any, p_state: Any, q_row: Any, q_state: Any, s_cut: Any, s_cut_id: int, start: int, stop: int
) -> Any:
    """The same pair for a block in which one of the prefixes ends."""
    gain, excess = 0.0, 0.0
    for i in range(start, stop):
        d = token_weight(p_row, p_state, i) / p_state[MASS] - token_weight(q_row, q_state, i) / q_state[MASS]
        if d > 0.0:
            gain += d
        elif inside(p_row[i], i, s_cut, s_cut_id):
            excess -= d
    return gain, excess


@njit
def gap(
    p_row: Any,
    p_max: Any,
    p_sum: Any,
    p_state: Any,
    q_row: Any,
    q_max: Any,
    q_state: Any,
    s_cut: Any,
    s_cut_id: int,
    gain: Any,
) -> Any:
    """(TV(p, q), E_S) for S the ranking prefix of p that ends at (s_cut, s_cut_id).

    Fills `gain` (B,) float64 with the block sums of [p-q]+. Rows (V,) float32; a block without a member of p
    adds nothing to either sum (S lies within p's support).
    """
    P, Q = numbers(p_state), numbers(q_state)
    p_cut, p_cut_id = np.float32(p_state[CUT]), int(p_state[CUT_ID])
    q_cut, q_cut_id = np.float32(q_state[CUT]), int(q_state[CUT_ID])
    n = p_row.shape[0]
    distance, total_excess = 0.0, 0.0
    for b in range(gain.shape[0]):
        p_bound, p_split = bound_of(b, p_cut, p_cut_id)
        q_bound, q_split = bound_of(b, q_cut, q_cut_id)
        s_bound, s_split = bound_of(b, s_cut, s_cut_id)
        here, excess = 0.0, 0.0
        if p_max[b] < p_bound:
            pass
        elif q_max[b] < q_bound:
            here = p_sum[b] / p_state[MASS]
        else:
            start, stop = b * BLOCK, min(b * BLOCK + BLOCK, n)
            if p_split or q_split or s_split:
                here, excess = split_gap(p_row, p_state, q_row, q_state, s_cut, s_cut_id, start, stop)
            else:
                g, e = block_gap(p_row[start:stop], q_row[start:stop], p_bound, q_bound, s_bound, P, Q)
                here, excess = float(g), float(e)
        gain[b] = here
        distance += here
        total_excess += excess
    return distance, total_excess


@njit
def draw_gap(p_row: Any, p_state: Any, q_row: Any, q_state: Any, gain: Any, u: float) -> int:
    """Inverse CDF of [p-q]+ in token-id order; -1 where p nowhere exceeds q."""
    total = 0.0
    for b in range(gain.shape[0]):
        total += gain[b]
    goal, passed, chosen, before = u * total, 0.0, -1, 0.0
    for b in range(gain.shape[0]):
        if gain[b] > 0.0:
            chosen, before = b, passed
            passed += gain[b]
            if passed > goal:
                break
    if chosen < 0:
        return -1
    return walk_gap(p_row, p_state, q_row, q_state, chosen, goal - before)


@njit
def walk_gap(p_row: Any, p_state: Any, q_row: Any, q_state: Any, block: int, goal: float) -> int:
    passed, last = 0.0, -1
    for i in range(block * BLOCK, min(block * BLOCK + BLOCK, p_row.shape[0])):
        d = token_weight(p_row, p_state, i) / p_state[MASS] - token_weight(q_row, q_state, i) / q_state[MASS]
        if d > 0.0:
            passed += d
            last = i
            if passed > goal:
                break
    return last
