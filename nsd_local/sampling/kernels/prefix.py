"""A shaped law as numbers: a prefix of the ranking, a temperature, a normaliser.

Every truncation keeps the best-ranked tokens (logit descending, id ascending), so a law's support is
`logit > cut or (logit == cut and id <= cut_id)`. Rows are walked in blocks whose maxima are known, so that a
block without a member costs nothing. In a block left of `cut_id` membership is `logit >= cut`, right of it
`logit > cut`; only the block that holds `cut_id` needs the full test.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nsd_local.sampling.jit import njit
from nsd_local.sampling.kernels.exponential import weight

BLOCK = 512  # tokens; a row's scratch has one float32 maximum and one float64 mass for each

# What a shaped law is made of; indices into its float64 state.
TOP, HIGH, LOW, FLOOR, CUT, CUT_ID, MASS, MOMENT, FIRST = range(9)
STATE = 9

LOWEST = np.float32(-3.4028235e38)  # the cut of a law that keeps everything: -inf stays outside
_INF = np.float32(np.inf)
_ZERO = np.float32(0.0)
_ONE = np.float32(1.0)


@njit
def bound_of(block: Any, cut: Any, cut_id: Any) -> Any:
    """(bound, split): in this block members are `logit >= bound`, unless split, where the id decides too."""
    start = block * BLOCK
    if start > cut_id:
        return np.nextafter(cut, _INF), False
    return cut, start + BLOCK - 1 > cut_id


@njit
def inside(logit: Any, token: Any, cut: Any, cut_id: Any) -> Any:
    return logit > cut or (logit == cut and token <= cut_id)


@njit
def block_mass(part: Any, bound: Any, top: Any, high: Any, low: Any, floor: Any) -> Any:
    total = _ZERO
    for i in range(part.shape[0]):
        w = weight(part[i], top, high, low, floor)
        total += w if part[i] >= bound else _ZERO
    return total


@njit
def block_moment(part: Any, bound: Any, top: Any, high: Any, low: Any, floor: Any) -> Any:
    """(sum of w, sum of w * (logit - top)): the second gives the entropy."""
    total, moment = _ZERO, _ZERO
    for i in range(part.shape[0]):
        w = weight(part[i], top, high, low, floor)
        w = w if part[i] >= bound else _ZERO
        distance = part[i] - top
        distance = distance if distance > floor else floor
        total += w
        moment += w * distance
    return total, moment


@njit
def split_moment(
    row: Any, start: Any, stop: Any, cut: Any, cut_id: Any, top: Any, high: Any, low: Any, floor: Any
) -> Any:
    """The same pair for the block that holds `cut_id`."""
    total, moment = 0.0, 0.0
    for i in range(start, stop):
        if inside(row[i], i, cut, cut_id):
            w = weight(row[i], top, high, low, floor)
            total += w
            moment += w * max(row[i] - top, floor)
    return total, moment


@njit
def law_mass(row: Any, block_max: Any, block_sum: Any, state: Any, with_moment: bool) -> None:
    """Fills `block_sum` and the state's MASS (and MOMENT) from its TOP..CUT_ID. One pass."""
    top, high, low = np.float32(state[TOP]), np.float32(state[HIGH]), np.float32(state[LOW])
    floor, cut, cut_id = np.float32(state[FLOOR]), np.float32(state[CUT]), int(state[CUT_ID])
    n = row.shape[0]
    mass, moment = 0.0, 0.0
    for b in range(block_max.shape[0]):
        bound, split = bound_of(b, cut, cut_id)
        here, bent = 0.0, 0.0
        if block_max[b] >= bound:
            start, stop = b * BLOCK, min(b * BLOCK + BLOCK, n)
            if split:
                here, bent = split_moment(row, start, stop, cut, cut_id, top, high, low, floor)
            elif with_moment:
                w, m = block_moment(row[start:stop], bound, top, high, low, floor)
                here, bent = float(w), float(m)
            else:
                here = float(block_mass(row[start:stop], bound, top, high, low, floor))
        block_sum[b] = here
        mass += here
        moment += bent
    state[MASS], state[MOMENT] = mass, moment


@njit
def block_count(part: Any, bound: Any) -> int:
    count = _ZERO  # a float32 counts a block exactly, and keeps the loop in one vector type
    for i in range(part.shape[0]):
        count += _ONE if part[i] >= bound else _ZERO
    return int(count)


@njit
def count_ahead(row: Any, block_max: Any, token: int) -> int:
    """How many tokens of the raw row are ranked before `token`."""
    cut, cut_id = row[token], token - 1
    count = 0
    for b in range(block_max.shape[0]):
        bound, split = bound_of(b, cut, cut_id)
        if block_max[b] >= bound:
            start, stop = b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])
            if split:
                for i in range(start, stop):
                    count += 1 if inside(row[i], i, cut, cut_id) else 0
            else:
                count += block_count(row[start:stop], bound)
    return count


@njit
def mass_ahead(row: Any, block_max: Any, state: Any, token: int) -> float:
    """Unnormalised mass of the tokens ranked before one that lies in the law."""
    top, high, low, floor = (
        np.float32(state[TOP]),
        np.float32(state[HIGH]),
        np.float32(state[LOW]),
        np.float32(state[FLOOR]),
    )
    cut, cut_id = row[token], token - 1
    mass = 0.0
    for b in range(block_max.shape[0]):
        bound, split = bound_of(b, cut, cut_id)
        if block_max[b] >= bound:
            start, stop = b * BLOCK, min(b * BLOCK + BLOCK, row.shape[0])
            if split:
                mass += split_moment(row, start, stop, cut, cut_id, top, high, low, floor)[0]
            else:
                mass += float(block_mass(row[start:stop], bound, top, high, low, floor))
    return mass


@njit
def token_weight(row: Any, state: Any, token: int) -> float:
    """The unnormalised weight of one token; 0 outside the law."""
    if not inside(row[token], token, np.float32(state[CUT]), int(state[CUT_ID])):
        return 0.0
    return float(
        weight(
            row[token],
            np.float32(state[TOP]),
            np.float32(state[HIGH]),
            np.float32(state[LOW]),
            np.float32(state[FLOOR]),
        )
    )


@njit
def rest_of_block(row: Any, state: Any, block: int, without: int) -> float:
    """The mass of a block less one token, summed anew: a difference would lose small masses beside a large
    one.
    """
    total = 0.0
    for i in range(block * BLOCK, min(block * BLOCK + BLOCK, row.shape[0])):
        if i != without:
            total += token_weight(row, state, i)
    return total


@njit
def walk(row: Any, state: Any, block: int, goal: float, without: int) -> int:
    """First token of the block at which the running mass passes `goal`, else its last possible one, else
    -1.
    """
    passed, last = 0.0, -1
    for i in range(block * BLOCK, min(block * BLOCK + BLOCK, row.shape[0])):
        w = token_weight(row, state, i)
        if w > 0.0 and i != without:
            passed += w
            last = i
            if passed > goal:
                break
    return last


@njit
def draw(row: Any, block_sum: Any, state: Any, u: float, without: int) -> int:
    """Inverse CDF in token-id order, leaving out the token `without` (-1: none); -1 where nothing is left.

    `block_sum` holds the masses of `law_mass`. Both walks fall back to the last candidate they saw, so
    rounding
    can neither return a token of probability 0 nor run off the end.
    """
    blocks = block_sum.shape[0]
    hole = without // BLOCK if without >= 0 else -1
    rest = rest_of_block(row, state, hole, without) if hole >= 0 else 0.0
    total = 0.0
    for b in range(blocks):
        total += rest if b == hole else block_sum[b]
    goal, passed, chosen, before = u * total, 0.0, -1, 0.0
    for b in range(blocks):
        here = rest if b == hole else block_sum[b]
        if here > 0.0:
            chosen, before = b, passed
            passed += here
            if passed > goal:
                break
    if chosen < 0:
        return -1
    return walk(row, state, chosen, goal - before, without)
