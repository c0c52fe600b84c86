"""The residual masses of block verification: sums of [w pi - q]+ with pi the rule's output law."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.exponential import weight
from nsd_local.sampling.kernels.prefix import BLOCK, CUT, CUT_ID, MASS, bound_of, inside, token_weight
from nsd_local.verification.kernels.gap import numbers

_ZERO = np.float32(0.0)


@njit
def goal_of(p: Any, q: Any, lies_inside: bool, up: Any, down: Any) -> Any:
    """pi(v) = p + up 1_S [q-p]+ - down [p-q]+, NSD's output law (up = strength, down = strength E_S / D)."""
    d = q - p
    if d < 0.0:
        return p + down * d
    return p + up * d if lies_inside else p


@njit
def block_surplus(
    p_part: Any, q_part: Any, p_bound: Any, q_bound: Any, s_bound: Any, P: Any, Q: Any, w: Any, plain: Any, pull: Any
) -> Any:
    """(sum of [w pi - q]+, sum of [plain p - q]+) of a block that no prefix ends in."""
    p_top, p_high, p_low, p_floor, p_scale = P
    q_top, q_high, q_low, q_floor, q_scale = Q
    up, down = pull
    surplus, bare = _ZERO, _ZERO
    for i in range(p_part.shape[0]):
        p = weight(p_part[i], p_top, p_high, p_low, p_floor) * p_scale
        q = weight(q_part[i], q_top, q_high, q_low, q_floor) * q_scale
        p = p if p_part[i] >= p_bound else _ZERO
        q = q if q_part[i] >= q_bound else _ZERO
        d = q - p
        rise = up if p_part[i] >= s_bound else _ZERO
        pi = p + (down if d < _ZERO else rise) * d
        e = w * pi - q
        surplus += e if e > _ZERO else _ZERO
        f = plain * p - q
        bare += f if f > _ZERO else _ZERO
    return surplus, bare


@njit
def surplus_at(
    p_row: Any,
    p_state: Any,
    q_row: Any,
    q_state: Any,
    s_cut: Any,
    s_cut_id: int,
    i: int,
    w: float,
    up: float,
    down: float,
) -> Any:
    """[w pi(i) - q(i)]+ of one token."""
    p = token_weight(p_row, p_state, i) / p_state[MASS]
    q = token_weight(q_row, q_state, i) / q_state[MASS]
    pi = goal_of(p, q, inside(p_row[i], i, s_cut, s_cut_id), up, down)
    return max(w * pi - q, 0.0)


@njit
def surplus(
    p_row: Any,
    p_max: Any,
    p_state: Any,
    q_row: Any,
    q_max: Any,
    q_state: Any,
    s_cut: Any,
    s_cut_id: int,
    w: float,
    plain: float,
    up: float,
    down: float,
    gain: Any,
) -> Any:
    """(sum of [w pi - q]+, sum of [plain p - q]+); fills `gain` (B,) float64 with the block sums of the first."""
    P, Q = numbers(p_state), numbers(q_state)
    p_cut, p_cut_id = np.float32(p_state[CUT]), int(p_state[CUT_ID])
    q_cut, q_cut_id = np.float32(q_state[CUT]), int(q_state[CUT_ID])
    w32, plain32, pull = np.float32(w), np.float32(plain), (np.float32(up), np.float32(down))
    total, total_bare = 0.0, 0.0
    for b in range(gain.shape[0]):
        p_bound, p_split = bound_of(b, p_cut, p_cut_id)
        q_bound, q_split = bound_of(b, q_cut, q_cut_id)
        s_bound, s_split = bound_of(b, s_cut, s_cut_id)
        here, bare = 0.0, 0.0
        start, stop = b * BLOCK, min(b * BLOCK + BLOCK, p_row.shape[0])
        if p_max[b] < p_bound:
            pass
        elif p_split or q_split or s_split:
            for i in range(start, stop):
                here += surplus_at(p_row, p_state, q_row, q_state, s_cut, s_cut_id, i, w, up, down)
                bare += surplus_at(p_row, p_state, q_row, q_state, s_cut, s_cut_id, i, plain, 0.0, 0.0)
        else:
            s, t = block_surplus(
                p_row[start:stop], q_row[start:stop], p_bound, q_bound, s_bound, P, Q, w32, plain32, pull
            )
            here, bare = float(s), float(t)
        gain[b] = here
        total += here
        total_bare += bare
    return total, total_bare


@njit
def draw_surplus(
    p_row: Any,
    p_state: Any,
    q_row: Any,
    q_state: Any,
    s_cut: Any,
    s_cut_id: int,
    w: float,
    up: float,
    down: float,
    gain: Any,
    u: float,
) -> int:
    """Inverse CDF of [w pi - q]+ in token-id order; -1 where it is 0 everywhere."""
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
    last = -1
    if chosen >= 0:
        passed = before
        for i in range(chosen * BLOCK, min(chosen * BLOCK + BLOCK, p_row.shape[0])):
            here = surplus_at(p_row, p_state, q_row, q_state, s_cut, s_cut_id, i, w, up, down)
            if here > 0.0:
                passed += here
                last = i
                if passed > goal:
                    break
    return last
