"""One row of logits shaped into a law: maxima, truncation, normaliser."""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.bits import from_key, magnitude, ordered_key
from nsd_local.sampling.kernels.prefix import (
    BLOCK,
    CUT,
    CUT_ID,
    FIRST,
    FLOOR,
    HIGH,
    LOW,
    LOWEST,
    MASS,
    TOP,
    law_mass,
)
from nsd_local.sampling.kernels.select import prefix_end, support_end

# What a Law is for a kernel; indices into a float64 array (three of `split_temperature` at T, three at T =
# 1).
L_HIGH, L_LOW, L_FLOOR, L_HIGH1, L_LOW1, L_FLOOR1, L_GREEDY, L_TOP_K, L_TOP_P, L_LOG_MIN_P = range(10)
LAW_SIZE = 10

NEGLIGIBLE = 1e-12

FINE, HAS_NAN, ALL_MASKED, HAS_INFINITY = range(4)

_SMALLEST_KEY = np.int32(-2147483648)
_INFINITE = np.int32(0x7F800000)
_INF = np.float32(np.inf)


@njit
def block_top(part: Any) -> Any:
    """(largest key, largest magnitude bits); integers, because a float maximum with NaN rules does not
    vectorise.
    """
    best, most = _SMALLEST_KEY, np.int32(0)
    for i in range(part.shape[0]):
        key = ordered_key(part[i])
        size = magnitude(part[i])
        best = key if key > best else best
        most = size if size > most else most
    return best, most


@njit
def scan(row: Any, block_max: Any) -> Any:
    """Fills the block maxima; (problem, maximum)."""
    top, nan = -_INF, False
    for b in range(block_max.shape[0]):
        key, size = block_top(row[b * BLOCK : min(b * BLOCK + BLOCK, row.shape[0])])
        nan = nan or size > _INFINITE
        highest = from_key(key)
        block_max[b] = highest
        top = highest if highest > top else top
    if nan:
        return HAS_NAN, top
    if top == _INF:
        return HAS_INFINITY, top
    if top == -_INF:
        return ALL_MASKED, top
    return FINE, top


@njit
def first_top(row: Any, block_max: Any, top: Any) -> int:
    for b in range(block_max.shape[0]):
        if block_max[b] == top:
            for i in range(b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])):
                if row[i] == top:
                    return i
    return -1


@njit
def up_to_float32(value: float) -> Any:
    """The smallest float32 that is not below `value`."""
    rounded = np.float32(value)
    return np.nextafter(rounded, _INF) if rounded < value else rounded


@njit
def truncate(row: Any, block_max: Any, block_sum: Any, law: Any, state: Any, found: Any, scratch: Any) -> None:
    """Top-k, top-p, min-p on the law at temperature 1; each only shortens the prefix."""
    state[HIGH], state[LOW], state[FLOOR] = law[L_HIGH1], law[L_LOW1], law[L_FLOOR1]
    if 0 < law[L_TOP_K] < row.shape[0]:
        end = prefix_end(row, block_max, state, True, law[L_TOP_K], found, scratch)
        state[CUT], state[CUT_ID] = row[end], end
    if law[L_TOP_P] < 1.0:
        law_mass(row, block_max, block_sum, state, False)
        end = prefix_end(row, block_max, state, False, law[L_TOP_P] * state[MASS], found, scratch)
        state[CUT], state[CUT_ID] = row[end], end
    if law[L_LOG_MIN_P] > -np.inf:
        least = up_to_float32(state[TOP] + law[L_LOG_MIN_P])
        if least > state[CUT]:
            state[CUT], state[CUT_ID] = least, row.shape[0]


@njit
def shape(
    row: Any,
    block_max: Any,
    block_sum: Any,
    law: Any,
    state: Any,
    found: Any,
    scratch: Any,
    with_moment: bool,
) -> Any:
    """Fills `block_max`, `block_sum` and `state`; returns FINE or what is wrong with the row.

    row (V,) float32; block_max (B,) float32; block_sum (B,) float64; found (V,) int32; scratch: see Scratch.
    """
    problem, top = scan(row, block_max)
    if problem != FINE:
        return problem
    state[TOP], state[CUT], state[CUT_ID] = top, LOWEST, row.shape[0]
    state[FIRST] = -1
    if law[L_GREEDY] != 0.0:
        first = first_top(row, block_max, top)
        state[CUT], state[CUT_ID], state[FIRST] = top, first, first
    else:
        truncate(row, block_max, block_sum, law, state, found, scratch)
    state[HIGH], state[LOW], state[FLOOR] = law[L_HIGH], law[L_LOW], law[L_FLOOR]
    law_mass(row, block_max, block_sum, state, with_moment)
    return FINE


@njit
def nucleus(row: Any, block_max: Any, state: Any, theta: float, found: Any, scratch: Any) -> Any:
    """(cut, cut_id) of the smallest ranking prefix whose mass under the law reaches theta: S_theta.

    At theta = 1 that is the whole support but for the last NEGLIGIBLE of mass.
    """
    if theta >= 1.0:
        end = support_end(row, block_max, state, NEGLIGIBLE * state[MASS], found, scratch)
        return row[end], end
    if theta <= 0.0:
        return _INF, -1
    end = prefix_end(row, block_max, state, False, theta * state[MASS], found, scratch)
    return row[end], end
